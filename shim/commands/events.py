"""Events for commands: from traces, or from a running server.

Without arguments, commands read `trace.jsonl` if it is in the current folder, and the control server otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import click
import orjson

from kafka_shim.apis.readable import LONGEST_LINE, readable
from kafka_shim.commands.asking import CONTROL, open_answer
from kafka_shim.trace.completeness import Missing, forgotten
from kafka_shim.trace.reading import Event, UnreadableTrace, read

TRACE: Final = Path("trace.jsonl")

control_option: Final = click.option(
    "--control", envvar="KAFKA_SHIM_CONTROL", metavar="URL", help=f"Ask a running server, for example {CONTROL}."
)


def events_of(
    traces: Sequence[Path],
    control: str | None,
    *,
    group: str | None = None,
    since: float | None = None,
    until: float | None = None,
    missing: Missing | None = None,
) -> Iterator[Event]:
    """Yield the events of traces, or those in a server's memory; see `read`. Without `missing`, print the missing
    parts on standard error at the end. Raises click.ClickException.
    """
    control = _server_of(traces, control)
    absent = Missing() if missing is None else missing
    if control is not None:
        if traces:
            raise click.ClickException("Name traces, or a server with --control, not both.")
        yield from _from_server(control, group, since, until, absent)
    else:
        try:
            yield from read(list(traces) or [TRACE], group=group, since=since, until=until, missing=absent)
        except UnreadableTrace as error:
            raise click.ClickException(str(error)) from None
    if missing is None:
        for sentence in absent.sentences:
            click.echo(f"kafka-shim: {readable(sentence, LONGEST_LINE)}.", err=True)


def source_name(traces: Sequence[Path], control: str | None) -> str:
    """Return the source of events, for a sentence."""
    control = _server_of(traces, control)
    if control is not None:
        return control
    return ", ".join("standard input" if str(path) == "-" else str(path) for path in list(traces) or [TRACE])


def limits_of_server(traces: Sequence[Path], control: str | None) -> Iterator[Event]:
    """Yield the limits of the server that is asked, as a trace begins with them; nothing if traces are read."""
    control = _server_of(traces, control)
    if control is not None:
        with open_answer(control, "GET", "/v1/trace") as lines:
            yield {"event": "trace", "limits": orjson.loads(next(iter(lines))).get("limits", {})}


def _server_of(traces: Sequence[Path], control: str | None) -> str | None:
    """Return the server to ask, None to read traces."""
    control = _of_command_line(traces, control)
    return CONTROL if control is None and not traces and not TRACE.exists() else control


def _of_command_line(traces: Sequence[Path], control: str | None) -> str | None:
    """Return the server to ask: with traces, only one of the command line, so that the environment harms no trace."""
    source = click.get_current_context().get_parameter_source("control")
    return None if traces and source is click.core.ParameterSource.ENVIRONMENT else control


def _from_server(
    control: str, group: str | None, since: float | None, until: float | None, missing: Missing
) -> Iterator[Event]:
    query = {"since": "0", "seconds": "0"} | ({} if group is None else {"group": group})
    with open_answer(control, "GET", f"/v1/events?{urlencode(query)}", seconds=60.0) as stream:
        for line in stream:
            if line.startswith(b": forgotten requests "):
                # An explanation needs only the requests that are kept among the events of groups.
                click.echo(f"kafka-shim: {control} has forgotten its oldest {int(line[21:]):,} requests.", err=True)
            elif line.startswith(b": forgotten "):
                missing.gaps.append(forgotten(control, int(line[12:])))
            if line.startswith(b"data: "):
                event: Event = orjson.loads(line[6:])
                if group is not None:
                    # A server cuts long ids.
                    event["group"] = group
                if (since is None or event["wall"] >= since) and (until is None or event["wall"] <= until):
                    yield event

"""Where commands get events from: traces, or a running server.

Decides what is read when nothing is named: `trace.jsonl` if it is here, else the control server. What events mean is
`why/`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import click
import orjson

from kafka_shim.commands.asking import CONTROL, opened
from kafka_shim.why.reading import Event, UnreadableTrace, read

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
) -> Iterator[Event]:
    """The events of traces, or those that a server keeps; see `read`. Raises click.ClickException."""
    if control is None and not traces and not TRACE.exists():
        control = CONTROL
    if control is not None:
        if traces:
            raise click.ClickException("Name traces, or a server with --control, not both.")
        yield from _kept(control, group, since, until)
        return
    try:
        yield from read(list(traces) or [TRACE], group=group, since=since, until=until)
    except UnreadableTrace as error:
        raise click.ClickException(str(error)) from None


def named(traces: Sequence[Path], control: str | None) -> str:
    """What is read, for a sentence."""
    if control is not None or (not traces and not TRACE.exists()):
        return control or CONTROL
    return ", ".join("standard input" if str(path) == "-" else str(path) for path in list(traces) or [TRACE])


def _kept(control: str, group: str | None, since: float | None, until: float | None) -> Iterator[Event]:
    query = {"since": "0", "seconds": "0"} | ({} if group is None else {"group": group})
    with opened(control, "GET", f"/v1/events?{urlencode(query)}", seconds=60.0) as stream:
        for line in stream:
            if line.startswith(b"data: "):
                event: Event = orjson.loads(line[6:])
                if (since is None or event["wall"] >= since) and (until is None or event["wall"] <= until):
                    yield event

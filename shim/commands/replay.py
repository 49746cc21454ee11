"""`kafka-shim replay`: run a recorded run again, stop at any input, and continue from there with puppets.

`lab/replay.py` replays a run, `testing/sandbox.py` continues it.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafka_shim.apis.readable import LONGEST_LINE, readable
from kafka_shim.commands.damaged import reads_files
from kafka_shim.commands.parameters import Address, ParamType
from kafka_shim.commands.why import Moment, zone_of
from kafka_shim.lab.replay import Diverged, Replay, TooEarly, UnreadableJournal
from kafka_shim.learn.conversation import Conversation, Frame
from kafka_shim.server.process import log_to_stderr
from kafka_shim.trace.reading import UnreadableTrace, lines_of

if TYPE_CHECKING:
    from kafka_shim.lab.replayed_page import ReplayedPage
    from kafka_shim.testing.sandbox import Sandbox

DIVERGED: Final = 1


class Until(ParamType[tuple[float, float]]):
    """The last input to replay: its number, or a wall-clock time."""

    name = "SEQ|TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """Parse the value. Raises click.BadParameter."""
        if isinstance(value, tuple):
            return value
        if str(value).isdecimal():
            return float(value), inf
        return inf, Moment().convert(value, param, ctx)


@click.command("replay")
@click.argument("journal", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--until",
    type=Until(),
    default=(inf, inf),
    help="Stop after the input of this number, or at this time: 14:02:07.5, an ISO time, or 10m for ten minutes ago.",
)
@click.option("--trace", type=click.Path(dir_okay=False, path_type=Path), help="Write the trace of the replay here.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the page with the run in it here, the bytes of its requests too; it needs neither server nor network.",
)
@click.option(
    "--frames",
    is_flag=True,
    help="Show the bytes of the last request in the journal, and of its answers, as annotated hex.",
)
@click.option("--utc", is_flag=True, help="Show times in UTC.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--serve",
    "listen",
    type=Address(),
    help="Serve the group at this address from that moment, with a puppet for each client: you tell it what to do. "
    "With port 0 the system picks a port.",
)
@click.option(
    "--control",
    type=Address(),
    default="127.0.0.1:8092",
    show_default=True,
    help="With --serve: address of the control server, with its page and all that --lab has.",
)
@click.option(
    "--control-token",
    envvar="KAFKA_SHIM_CONTROL_TOKEN",
    metavar="TOKEN",
    help="Token that requests to the control server must have; required where other machines can connect.",
)
@reads_files
def replay(
    journal: Path,
    until: tuple[float, float],
    trace: Path | None,
    html: Path | None,
    frames: bool,
    utc: bool,
    as_json: bool,
    listen: tuple[str, int] | None,
    control: tuple[str, int],
    control_token: str | None,
) -> None:
    """Replay the run of JOURNAL (.gz and .zst too): the same answers, records and trace. Then show its groups.

    Every answer is compared with the recorded one; the first difference ends the replay with exit code 1. With --serve
    the run continues from there until SIGTERM or SIGINT: a laboratory with a frozen clock and puppets.
    """
    if listen is not None and trace is not None:
        raise click.UsageError(
            "--trace records only the replay, not the served run after it: give --trace or --serve, not both."
        )
    log_to_stderr("error")
    try:
        played = Replay(lines_of(journal), trace)
        sandbox = None if listen is None else _sandbox(played)
        newest = _newest_frames(played) if frames else []
        page = None if html is None else _page(played)
        try:
            played.run(*until)
        finally:
            played.close()
    except UnreadableJournal as error:
        raise click.ClickException(f"{journal}: {error}") from None
    except UnreadableTrace as error:
        raise click.ClickException(str(error)) from None
    except Diverged as error:
        click.echo(readable(f"kafka-shim: {error}", LONGEST_LINE), err=True)
        sys.exit(DIVERGED)
    groups = played.groups()
    if page is not None and html is not None:
        try:
            whole = page.write(html, journal.name)
        except OSError as error:
            raise click.ClickException(f"{html} cannot be written: {error.strerror}.") from None
        click.echo(f"{html} has the bytes of {whole} requests.", err=True)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "seq": played.seq,
                    "wall": played.wall,
                    "answers": played.answers,
                    "end_reason": played.end_reason,
                    "groups": groups,
                },
                indent=1,
            )
        )
    else:
        _show(played, groups, newest, utc)
    if sandbox is not None and listen is not None:
        from kafka_shim.testing.sandbox import Unservable

        try:
            sandbox.run(listen, control, control_token, _say)
        except (TooEarly, Unservable) as error:
            raise click.ClickException(str(error)) from None


def _sandbox(played: Replay) -> Sandbox:
    # Imported here because the import is slow, and most replays do not need it.
    from kafka_shim.testing.sandbox import Sandbox

    return Sandbox(played)


def _page(played: Replay) -> ReplayedPage:
    from kafka_shim.lab.replayed_page import ReplayedPage

    return ReplayedPage(played)


def _say(line: str) -> None:
    click.echo(readable(line, LONGEST_LINE))
    sys.stdout.flush()


def _show(played: Replay, groups: list[dict[str, Any]], newest: list[tuple[int, Frame]], utc: bool) -> None:
    moment = f"{datetime.fromtimestamp(played.wall, zone_of(utc)):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    click.echo(f"Replayed {played.seq} inputs, to {moment}. {played.answers} answers, each as recorded.")
    if played.end_reason:
        click.echo(f"The journal ends before the run: {readable(played.end_reason)}.")
    for _, frame in newest:
        click.echo()
        for line in frame.lines():
            click.echo(line)
    for group in groups:
        click.echo(f"\n{readable(group['group'])}  {group['state']}, generation or epoch {group['generation']}")
        for member in group["members"]:
            click.echo(f"  {readable(member['member_id'])}  {_owned(member['owned'])}")
        for timer in group["timers"]:
            member_id = readable(timer["member_id"] or "")
            click.echo(f"  {timer['purpose']} timer fires in {timer['in']:.3f} s  {member_id}".rstrip())


def _newest_frames(played: Replay) -> list[tuple[int, Frame]]:
    """Return a list that keeps the frames of the last input with frames, each with the input's number."""
    conversation, newest = Conversation(), list[tuple[int, Frame]]()

    def note(way: str, connection: int, data: bytes) -> None:
        frames = [(played.seq, frame) for frame in conversation.feed(way, connection, data)]
        if frames and newest and newest[0][0] != played.seq:
            newest.clear()
        newest.extend(frames)

    played.on_bytes = note
    return newest


def _owned(owned: dict[str, list[int]]) -> str:
    return "; ".join(f"{readable(topic)} {partitions}" for topic, partitions in owned.items()) or "owns nothing"

"""`kafka-shim clock`, `brokers` and `puppets`: time, brokers and scripted members of a coordinator for tests."""

from __future__ import annotations

from typing import Any

import click

from kafka_shim.apis.readable import readable
from kafka_shim.commands.asking import ask, control_option, json_option, say
from kafka_shim.commands.fields import body_of
from kafka_shim.commands.parameters import Number, Whole


@click.command()
@click.argument("change", type=click.Choice(["freeze", "resume", "advance"]), required=False)
@click.argument("seconds", type=Number(0, 31 * 86_400), required=False)
@control_option
@json_option
def clock(change: str | None, seconds: float | None, control: str, as_json: bool) -> None:
    """Show the coordinator's clock, or freeze it, let it go on, or put it forward: clock advance 10."""
    if (change == "advance") != (seconds is not None):
        raise click.UsageError("Seconds belong to `advance`, and `advance` needs them: clock advance 10.")
    body: dict[str, dict[str, Any]] = {
        "freeze": {"frozen": True},
        "resume": {"frozen": False},
        "advance": {"advance": seconds},
    }
    answer = ask(control, "POST", "/v1/clock", body[change]) if change else ask(control, "GET", "/v1/clock")
    due = "no timer is armed" if answer["due"] is None else f"next timer in {answer['due'] - answer['now']:.3f} s"
    state = "frozen" if answer["frozen"] else "running"
    say(answer, as_json, lambda: f"{answer['now']:.3f} s, {state}, {due}")


@click.group()
def brokers() -> None:
    """Brokers of a coordinator for tests (`serve --brokers N --lab`)."""


@brokers.command("list")
@control_option
@json_option
def list_brokers(control: str, as_json: bool) -> None:
    """List all brokers."""
    answer = ask(control, "GET", "/v1/brokers")["brokers"]
    say(answer, as_json, lambda: _brokers(answer))


def _change(do: str, summary: str) -> None:
    @click.argument("broker", type=Whole(0, 2**31 - 1))
    @control_option
    @json_option
    def change(broker: int, control: str, as_json: bool) -> None:
        answer = ask(control, "POST", f"/v1/brokers/{broker}", {"do": do})["brokers"]
        say(answer, as_json, lambda: _brokers(answer))

    brokers.command(do, help=summary)(change)


_change("stop", "Shut a broker down cleanly.")
_change("kill", "Kill a broker without a shutdown.")
_change("restart", "Start a broker again on its address.")


def _brokers(answer: list[dict[str, Any]]) -> str:
    return "\n".join(
        f"{each['broker']}: {each['host']}:{each['port']} {'up' if each['up'] else 'down'}" for each in answer
    )


@click.group()
def puppets() -> None:
    """Scripted members of groups (`serve --lab`)."""


@puppets.command("list")
@control_option
@json_option
def list_puppets(control: str, as_json: bool) -> None:
    """List all puppets."""
    answer = ask(control, "GET", "/v1/puppets")["puppets"]
    say(answer, as_json, lambda: "\n".join(map(_puppet, answer)) or "There is none.")


@puppets.command("start", short_help="Start a member of GROUP that consumes TOPIC.")
@click.argument("group")
@click.argument("topic")
@click.argument("fields", nargs=-1, metavar="NAME=VALUE...")
@control_option
@json_option
def start_puppet(group: str, topic: str, fields: tuple[str, ...], control: str, as_json: bool) -> None:
    """Start a member of GROUP that consumes TOPIC, such as: billing orders client_id=peer kind=consumer.

    \b
    Every kind of member:
      kind=classic|consumer|share|streams
                            classic without it; a server with the experiment has
                            client-assignors or registered too
      client_id=NAME        puppet without it
    classic, consumer and streams:
      rebalance_timeout=SECONDS
      think=SECONDS         how long it takes before it joins again
      manner='{"never_revokes": true}'
                            bad manners; of classic: never_syncs, never_rejoins,
                            joins_twice, heartbeat_late, never_revokes and
                            assigns_nothing; of the others: never_revokes,
                            reports_late and forgets_epoch
    classic:
      protocols='["cooperative-sticky"]'
                            assignors, the preferred first
      session_timeout=SECONDS heartbeat_interval=SECONDS
    classic and consumer:
      instance_id=NAME      it is a static member
    consumer, share and streams:
      rack_id=NAME
    consumer:
      assignor=NAME         the assignor that it asks for
      pattern=REGEX         topics beside TOPIC
    streams:
      process_id=NAME       its instance
    """
    answer = ask(control, "POST", "/v1/puppets", {"group": group, "topics": [topic]} | body_of(fields))
    say(answer, as_json, lambda: _puppet(answer))


@puppets.command("do")
@click.argument("number", type=Whole(1))
@click.argument("action", type=click.Choice(["join", "leave", "crash", "silence"]))
@control_option
@json_option
def order(number: int, action: str, control: str, as_json: bool) -> None:
    """Let a puppet join, leave, crash or be silent: puppets do 1 crash."""
    answer = ask(control, "POST", f"/v1/puppets/{number}", {"do": action})
    say(answer, as_json, lambda: _puppet(answer))


def _puppet(answer: dict[str, Any]) -> str:
    return f"{answer['puppet']}: {readable(answer.get('member_id') or '-')} of {readable(answer.get('group', '-'))}"

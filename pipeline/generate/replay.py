"""Plays a group's past again on the simulator, as it was and as it would have been with other settings.

Decides who of the past is played by which puppet: the stays of one client follow each other in one place, and a static
member keeps its instance id there. What was slow about the real members is not played, so what is compared are two
plays, never a play with the past. It knows neither Spark nor where a past comes from.

A static member does not say that it leaves: its process ends, and it is missed after the session timeout unless it is
back by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafka_shim.lab.puppets import COOPERATIVE, Puppet
from kafka_shim.lab.scheduler import Network
from kafka_shim.lab.simulator import Simulation

QUIET_TIMEOUTS: Final = 5
"""Quiet times are shortened to so many session timeouts: nothing happens in them."""
SETTLE_S: Final = 60.0
SESSION_TIMEOUT_S: Final = 45.0
"""That of consumers which are not told otherwise."""
_TICK_S: Final = 0.001


class Stay(NamedTuple):
    """A member from when it came to when it went, seconds; `left` is None if it stayed. `how` is that of the table."""

    client_id: str
    joined: float
    left: float | None
    how: str | None
    instance_id: str | None = None


class Past(NamedTuple):
    """What is known of a group. `topics` are partitions by name, the session timeout is in seconds."""

    stays: Sequence[Stay]
    topics: Mapping[str, int]
    protocol: str
    session_timeout: float = SESSION_TIMEOUT_S
    heartbeat_interval: float = 3.0


class Setting(NamedTuple):
    """How the group is played: its members static or as they were, its assignor cooperative or the one it had."""

    static: bool
    cooperative: bool


class Played(NamedTuple):
    """What happened in a play: rounds, and for how many seconds partitions had no owner, all of them added up."""

    rounds: int
    pause_s: float


class _Change(NamedTuple):
    at: float
    place: str
    does: str
    stay: Stay


def play(past: Past, setting: Setting) -> Played:
    """Plays the past of a group in simulated time."""
    simulation = Simulation(seed=0, topics=past.topics, network=Network(least=0.0005, most=0.002))
    events_so_far: list[dict[str, Any]] = []
    simulation.cluster.events.listen(lambda events, now: events_so_far.extend(dict(event, at=now) for event in events))
    cooperative = setting.cooperative or "cooperative" in past.protocol
    protocol = COOPERATIVE if cooperative else "roundrobin" if past.protocol == "roundrobin" else "range"
    playing: dict[str, Puppet] = {}
    before: float | None = None
    for change in sorted(_changes(past, setting)):
        if before is not None:
            simulation.run(min(change.at - before, past.session_timeout * QUIET_TIMEOUTS))
        before = change.at
        stay = change.stay
        if change.does == "join":
            instance_id = change.place if setting.static else stay.instance_id
            playing[change.place] = simulation.puppet(
                "replayed", list(past.topics), client_id=stay.client_id, protocols=[protocol], instance_id=instance_id,
                session_timeout=past.session_timeout, heartbeat_interval=past.heartbeat_interval,
            )  # fmt: skip
        elif change.place in playing:
            getattr(playing.pop(change.place), change.does)()
    simulation.run(past.session_timeout + SETTLE_S)
    rounds = [event for event in events_so_far if event["event"] == "round" and event["members"]]
    return Played(len(rounds), _pauses(events_so_far, cooperative))


def _changes(past: Past, setting: Setting) -> Iterable[_Change]:
    for place, stay in _places(past.stays):
        yield _Change(stay.joined, place, "join", stay)
        if stay.left is not None and stay.how != "fenced":
            silent = stay.how == "expired"
            at = max(stay.left - past.session_timeout, stay.joined + _TICK_S) if silent else stay.left
            static = setting.static or stay.instance_id is not None
            yield _Change(at, place, "crash" if silent or static else "leave", stay)
        elif stay.how == "fenced" and stay.left is not None:
            # Its place was taken over: the process was gone by then.
            yield _Change(max(stay.left - _TICK_S, stay.joined + _TICK_S), place, "crash", stay)


def _places(stays: Sequence[Stay]) -> Iterable[tuple[str, Stay]]:
    """Each stay with its place: that of the last stay of the same client that had ended by then, else a new one."""
    free: dict[str, list[tuple[float, str]]] = {}
    taken = 0
    for stay in sorted(stays, key=lambda each: each.joined):
        key = stay.instance_id or stay.client_id
        ended = [each for each in free.get(key, []) if each[0] <= stay.joined]
        if ended:
            place = max(ended)
            free[key].remove(place)
            name = place[1]
        else:
            taken += 1
            name = f"{key}-{taken}"
        if stay.left is not None:
            free.setdefault(key, []).append((stay.left, name))
        yield name, stay


def _pauses(told: Sequence[Mapping[str, Any]], cooperative: bool) -> float:
    """Seconds that partitions had no owner between two that did, as `docs/pipeline.md` means ownership."""
    owner: dict[tuple[str, int], str] = {}
    without: dict[tuple[str, int], float] = {}
    total = 0.0
    for event in told:
        if event["event"] == "round":
            joined = {each["member_id"]: event["started"] + each["ms"] / 1000 for each in event["waited_for"]}
            for partition, member in list(owner.items()):
                if member not in event["members"]:
                    without[partition] = event["started"]
                elif not cooperative:
                    without[partition] = joined.get(member, event["started"])
                else:
                    continue
                del owner[partition]
        elif event["event"] == "assignment":
            now = event["at"]
            given = {
                (topic, number): member
                for member, topics in event["assignments"].items()
                if isinstance(topics, dict)
                for topic, numbers in topics.items()
                for number in numbers
            }
            for partition in owner.keys() - given.keys():
                without[partition] = now
            total += sum(now - without.pop(partition) for partition in given if partition in without)
            owner = given
    return total

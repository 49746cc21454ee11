"""The way of a request, from its bytes to the bytes of its answer, as pictures of stations in docs/architecture.md.

A profiler follows a JoinGroup, an OffsetCommit, a first ConsumerGroupHeartbeat and a Heartbeat through a real session,
without sockets. `python -m tests.walk` writes the pictures into the document; `tests/test_walk.py` fails when the code
goes another way, or when a way has more functions than its budget. `python -m tests.walk functions` prints them all.

One filter, for the pictures and for the budgets: each function of ours counts once on each way, and constructors,
lambdas, properties and generator expressions are functions. Only generated code is not counted: codecs, and the
constructors that `dataclass` and `NamedTuple` make. A comprehension is no function: Python 3.12 runs it without a call
(PEP 709).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Final, NamedTuple

import kafka_shim
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.join_group import JoinGroupResponse
from kafka_shim.apis.offset_commit import OffsetCommitResponse
from kafka_shim.apis.sync_group import SyncGroupResponse
from tests.server.conversation import commit, join, sync
from tests.server.wire import Wire, cluster, request

PAGE = Path(__file__).resolve().parent.parent / "docs/architecture.md"
_OURS = str(Path(kafka_shim.__file__).parent) + "/"
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
_NOW = 100.0

Way = list[CodeType]

BUDGETS: Final = {"JoinGroup": 60, "OffsetCommit": 40, "ConsumerGroupHeartbeat": 90, "Heartbeat": 5}
"""Functions from the bytes of a request to those of its answer, at most."""


class Station(NamedTuple):
    """A part of the house that a request passes. `files` begin the names of its files; `depth` is the number of parts
    between it and the client."""

    name: str
    depth: int
    files: tuple[str, ...]
    work: str


STATIONS: Final = (
    Station("Ticks", 0, ("server/ticks",), "fires due timers, ends the tick"),
    Station("Session", 0, ("server/session",), "frames; one request at a time"),
    Station("Remembered", 1, ("server/remembered/",), "recognises repeated bytes"),
    Station("Endpoint", 1, ("server/table",), "decodes and encodes one version of the API"),
    Station("Exchange", 1, ("server/exchange",), "calls the rule, takes its answer"),
    Station("Batches", 1, ("server/durability",), "keep an answer until its records are durable"),
    Station("Store", 2, ("persistence/memory",), "keeps the records"),
    Station("Row", 2, ("server/requests", "server/handlers"), "names the rule and the flags of the version"),
    Station("Coordinator", 3, ("groups/service", "groups/kinds"), "finds the partition and the kind of the group"),
    Station("Broker", 3, ("broker/",), "topics, logs, features"),
    Station("Rules", 4, ("groups/",), "the rules of the group, its state, timers and records"),
)
"""A function of any other file belongs to the station before it."""


@contextmanager
def following() -> Iterator[Way]:
    """Every function of ours that is called in the block until an answer leaves, once, by its first call."""
    passed: dict[CodeType, None] = {}

    def follow(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if code is Wire.send.__code__:
            sys.setprofile(None)
        elif event == "call" and code.co_filename.startswith(_OURS) and code.co_name not in _COMPREHENSIONS:
            passed.setdefault(code)

    way: Way = []
    sys.setprofile(follow)
    try:
        yield way
    finally:
        sys.setprofile(None)
        way += passed


def walk_of_join() -> dict[str, Way]:
    """Follow a member that joins again with its new id (79) and completes a round alone."""
    wire = Wire(cluster(topics={"t": 1}))
    wire.receive(request(join(), 9), _NOW)
    member_id = wire.answer(JoinGroupResponse, 9)[1].member_id
    coming_back = request(join(member_id=member_id), 9)
    with following() as inward:
        wire.session.receive(coming_back, _NOW)
    assert wire.sent == b""
    wire.cluster.settle(_NOW)
    with following() as outward:
        wire.cluster.ticks.fire(_NOW + 0.1)
    joined = wire.answer(JoinGroupResponse, 9)[1]
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, member_id)
    return {"JoinGroup, in": inward, "JoinGroup, out": outward}


def _member_of_stable_group() -> tuple[Wire, JoinGroupResponse]:
    """Return the connection of the only member of a group, and the answer to its JoinGroup."""
    wire = Wire(cluster(topics={"t": 1}))
    wire.receive(request(join(), 3), _NOW)
    wire.cluster.ticks.fire(_NOW + 0.1)
    joined: JoinGroupResponse = wire.answer(JoinGroupResponse, 3)[1]
    wire.receive(request(sync(joined.generation_id, joined.member_id, joined.member_id), 3), _NOW)
    assert wire.answer(SyncGroupResponse, 3)[1].error_code == 0
    return wire, joined


def walk_of_commit() -> dict[str, Way]:
    """The first commit of a member of a stable group."""
    wire, joined = _member_of_stable_group()
    # The request of another client has already done the work of a node for the first request of a version.
    Wire(wire.cluster).receive(request(commit(1), 8), _NOW)
    committing = request(commit(17, generation_id_or_member_epoch=joined.generation_id, member_id=joined.member_id), 8)
    with following() as way:
        wire.receive(committing, _NOW + 0.2)
    committed = wire.answer(OffsetCommitResponse, 8)[1]
    assert committed.topics[0].partitions[0].error_code == 0
    return {"OffsetCommit": way}


def walk_of_heartbeat() -> dict[str, Way]:
    """A heartbeat like those before it, and the end of the tick it came in."""
    wire, joined = _member_of_stable_group()
    repeated = request(HeartbeatRequest("g", joined.generation_id, joined.member_id), 4)
    for _ in range(2):
        wire.receive(repeated, _NOW + 0.2)
        assert wire.answer(HeartbeatResponse, 4)[1].error_code == 0
    with following() as way:
        wire.session.receive(repeated, _NOW + 0.2)
    assert wire.answer(HeartbeatResponse, 4)[1].error_code == 0
    with following() as tick:
        wire.cluster.settle(_NOW + 0.2)
    return {"Heartbeat": way, "the end of a tick": tick}


def walk_of_consumer_heartbeat() -> dict[str, Way]:
    """Follow the first ConsumerGroupHeartbeat of the only member of a group."""
    wire = Wire(cluster(topics={"t": 1}))
    for group_id in ("another", "g"):
        joining = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id="AAAAAAAAAAAAAAAAAAAAAA",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        data = request(joining, 1)
        # The request about another group has already done the work of a node for the first request of a version.
        with following() as way:
            wire.receive(data, _NOW)
        joined = wire.answer(ConsumerGroupHeartbeatResponse, 1)[1]
        assert (joined.error_code, joined.member_epoch) == (0, 2)
    return {"ConsumerGroupHeartbeat": way}


def counts(ways: dict[str, Way]) -> dict[str, int]:
    """Return the number of functions of each way that has a budget."""
    return {name: sum(len(way) for each, way in ways.items() if each.startswith(name)) for name in BUDGETS}


def walks() -> dict[str, Way]:
    """Return all ways by their names. The first time a message is read its codec is compiled, so the second time
    counts."""
    walk_of_join(), walk_of_commit(), walk_of_consumer_heartbeat()
    return walk_of_join() | walk_of_commit() | walk_of_consumer_heartbeat() | walk_of_heartbeat()


def picture(way: Way) -> str:
    """Draw a line for each visit of a station: the number of functions, and the name, indented by its depth."""
    visits: list[tuple[Station, int]] = []
    for code in way:
        file = _file_of(code)
        before = visits[-1] if visits else (STATIONS[0], 0)
        station = next((each for each in STATIONS if file.startswith(each.files)), before[0])
        if visits and station is before[0]:
            visits[-1] = (station, before[1] + 1)
        else:
            visits.append((station, 1))
    lines = []
    explained: set[Station] = set()
    for station, functions in visits:
        line = f"{functions:>3}  {'   ' * station.depth}{station.name}"
        lines.append(line if station in explained else f"{line:<32}{station.work}")
        explained.add(station)
    return "\n".join(lines) + "\n"


def _file_of(code: CodeType) -> str:
    return code.co_filename.removeprefix(_OURS)


def table(ways: dict[str, Way]) -> str:
    """Return the rows of counts and budgets."""
    rows = []
    for name, count in counts(ways).items():
        rows.append(f"| {name} | {count} | {BUDGETS[name]} |\n")
    return "| way | functions | budget |\n| --- | --- | --- |\n" + "".join(rows)


def written(text: str) -> str:
    """Return `text` with every picture as its way is now."""
    ways = walks()
    parts = {name: f"```text\n{picture(way)}```\n" for name, way in ways.items()} | {"budgets": table(ways)}
    for name, part in parts.items():
        begin, end = f"<!-- walk: {name} -->\n", "<!-- end of walk -->"
        before, mark, rest = text.partition(begin)
        assert mark, f"{PAGE.name} has no place for the walk {name}"
        text = before + begin + part + end + rest.partition(end)[2]
    return text


if __name__ == "__main__":
    if sys.argv[1:] == ["functions"]:
        for name, way in walks().items():
            print(f"{name}: {len(way)}", *(f"  {_file_of(code)}: {code.co_qualname}" for code in way), sep="\n")
    else:
        PAGE.write_text(written(PAGE.read_text()))

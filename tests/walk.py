"""The functions that a request passes, from its bytes to the bytes of its answer, as lists in docs/architecture.md.

A profiler follows a JoinGroup, an OffsetCommit and a Heartbeat through a real session, without sockets.
`python -m tests.walk` writes the lists into the document; `tests/test_walk.py` fails when the code goes another way.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType

import kafka_shim
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.join_group import JoinGroupResponse
from kafka_shim.apis.offset_commit import OffsetCommitResponse
from kafka_shim.apis.sync_group import SyncGroupResponse
from tests.server.conversation import commit, join, sync
from tests.server.wire import Wire, cluster, request

PAGE = Path(__file__).resolve().parent.parent / "docs/architecture.md"
_OURS = str(Path(kafka_shim.__file__).parent) + "/"
_COMPILED = re.compile(r"<(.+)>")
_NOW = 100.0

Way = list[CodeType]


@contextmanager
def following() -> Iterator[Way]:
    """Every function of ours that is called in the block until an answer leaves, once, by its first call."""
    passed: dict[CodeType, None] = {}

    def follow(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if code is Wire.send.__code__:
            sys.setprofile(None)
        elif event == "call" and (code.co_filename.startswith(_OURS) or _is_codec(code)) and not _is_detail(frame):
            passed.setdefault(code)

    way: Way = []
    sys.setprofile(follow)
    try:
        yield way
    finally:
        sys.setprofile(None)
        way += passed


def _is_codec(code: CodeType) -> bool:
    return code.co_name in ("decode", "encode") and _COMPILED.fullmatch(code.co_filename) is not None


def _is_detail(frame: FrameType) -> bool:
    """Constructors, comprehensions, lambdas and properties are parts of the function before them."""
    name = frame.f_code.co_name
    owner = type(frame.f_locals.get("self"))
    return name.startswith(("__", "<")) or isinstance(getattr(owner, name, None), property)


def walk_of_join() -> dict[str, Way]:
    """A member comes back with the id it was handed out (79), and the round of which it is the only member ends."""
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
    """A connection of the only member of a group, and what it was answered to its JoinGroup."""
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
    # What a node finds out with the first request of a version, another client's request has found out.
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


def walks() -> dict[str, Way]:
    """All ways by their names. The first time a message is read its codec is compiled, so the second time counts."""
    walk_of_join(), walk_of_commit()
    return walk_of_join() | walk_of_commit() | walk_of_heartbeat()


def as_list(way: Way) -> str:
    """A line for each run of functions of one file, in the order they are entered."""
    lines = []
    for number, (file, codes) in enumerate(groupby(way, _where), 1):
        names = ", ".join(f"`{code.co_qualname}`" for code in codes)
        lines.append(f"{number}. {file}\n" if file.startswith("compiled") else f"{number}. `{file}`: {names}\n")
    return "".join(lines)


def _where(code: CodeType) -> str:
    if match := _COMPILED.fullmatch(code.co_filename):
        return f"compiled: {match[1]}"
    return code.co_filename.removeprefix(_OURS)


def written(text: str) -> str:
    """`text` with every list as it is followed now."""
    for name, way in walks().items():
        begin, end = f"<!-- walk: {name} -->\n", "<!-- end of walk -->"
        before, found, rest = text.partition(begin)
        assert found, f"{PAGE.name} has no place for the walk {name}"
        text = before + begin + as_list(way) + end + rest.partition(end)[2]
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))

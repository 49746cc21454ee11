"""The events of one group in a coordinator's trace: exchanges, commits, changes of members and of the state.

`heartbeats.py` has the bodies of heartbeats with epochs. An event is (mono, kind, fields as JSON text); `write.py` adds
the sequence number and the wall time when it merges groups into a trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeAlias

from kafka_shim.pipeline.generate.faults import Fault

Event: TypeAlias = tuple[float, str, str]
Partition: TypeAlias = tuple[str, int]

REBALANCE_TIMEOUT_MS: Final = 300_000

_dumps = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(slots=True)
class Member:
    client_id: str
    member_id: str
    host: str
    conn: int
    instance_id: str | None
    correlation: int = 0
    next_heartbeat: float = 0.0
    next_commit: float = 0.0
    owned: list[Partition] = field(default_factory=list)
    heartbeat_text: str = ""
    epoch: int = 0
    """The member epoch; this and the following fields are for groups with epochs."""
    state: str = "STABLE"
    revoking: list[Partition] = field(default_factory=list)
    revoked_at: float = 0.0
    """When the member will have given up the partitions in `revoking`."""
    acknowledges: bool = False
    """True if the next heartbeat reports the owned partitions."""
    last_heartbeat: float = 0.0


@dataclass(slots=True)
class Commit:
    """An accepted commit, for the segments."""

    at: float
    group: str
    offsets: list[tuple[str, int, int]]


class TraceEvents:
    """A group: its members, offsets and faults, and the events about them."""

    def __init__(self, index: int, node: int, fault: Fault, start: float, duration: float, seed: int) -> None:
        rng = self.rng = Random(f"{seed} group {index}")
        self.group_id = f"group-{index:05d}"
        self.node = node
        self.fault = fault
        self.start = start + rng.uniform(0, min(30.0, duration / 10))
        self.end = start + duration
        self.cooperative = rng.random() < 0.5
        self.protocol = "cooperative-sticky" if self.cooperative else rng.choice(["range", "roundrobin"])
        # All faults need a second member, one needs static members.
        self.size = rng.randint(2, 6) if fault is Fault.NONE else rng.randint(3, 6)
        self.static = fault is Fault.FENCED_ACCEPTED or (fault is Fault.NONE and rng.random() < 0.2)
        self.session_timeout_ms = 45_000 if rng.random() < 0.8 else 10_000
        topics = [f"topic-{rng.randrange(40):02d}" for _ in range(rng.choice([1, 1, 2]))]
        self.partitions: list[Partition] = [
            (topic, number) for topic in dict.fromkeys(topics) for number in range(rng.choice([4, 6, 12]))
        ]
        self.offsets: dict[Partition, int] = {each: rng.randrange(1_000_000) for each in self.partitions}
        self.committed: dict[Partition, int] = {}
        self.pace = rng.uniform(1.0, 200.0)
        self.offsets_partition = index % 50
        self.generation = 0
        self.state = "Empty"
        self.leader = ""
        self.cause: str | None = None
        self.trigger = ""
        self.members: list[Member] = []
        self.commits: list[Commit] = []
        self.faults: list[dict[str, Any]] = []
        self.now = self.start
        self._serial = 0

    # Faults and events.

    def add_fault(self, kind: str, **what: Any) -> None:
        """Add a fault to the list."""
        self.faults.append({"kind": kind, "group": self.group_id, **what})

    def event(self, at: float, kind: str, **fields: Any) -> Event:
        return at, kind, _dumps(fields)[1:-1]

    def _exchange(
        self, member: Member, at: float, arrived: float, api: str, version: int, request: dict[str, Any],
        answer: dict[str, Any], *, member_id: str | None = None,
    ) -> Event:  # fmt: skip
        member.correlation += 1
        return self.event(
            at, "exchange", conn=member.conn, node=self.node, api=api, version=version,
            correlation_id=member.correlation, client_id=member.client_id,
            group="" if api == "OffsetFetch" else self.group_id,
            member=(member.member_id if member_id is None else member_id) or None, arrived=arrived,
            request=request, answer=answer, error=answer.get("error_code", 0),
        )  # fmt: skip

    def _member_event(self, at: float, member: Member, change: str, rule: str) -> Event:
        return self.event(
            at, "member", group=self.group_id, member_id=member.member_id, instance_id=member.instance_id,
            client_id=member.client_id, client_host=member.host, change=change, rule=rule,
        )  # fmt: skip

    def _state(self, at: float, to: str, rule: str) -> Event:
        before, self.state = self.state, to
        return self.event(
            at, "state", group=self.group_id, **{"from": before}, to=to, generation=self.generation, cause=self.cause,
            trigger=self.trigger, rule=rule,
        )  # fmt: skip

    # Members and their requests.

    def _new_member(self, number: int, instance_id: str | None = None) -> Member:
        self._serial += 1
        client_id = f"{self.group_id}-client-{number}"
        prefix = instance_id or client_id
        return Member(
            client_id=client_id,
            member_id=f"{prefix}-{self.rng.getrandbits(64):016x}",
            host=f"/10.{self.node}.{int(self.group_id[-5:]) % 250}.{number}",
            conn=int(self.group_id[-5:]) * 1000 + self._serial,
            instance_id=instance_id,
        )

    def heartbeat(self, member: Member, at: float, error: int = 0, generation: int | None = None) -> Event:
        if error == 0 and generation is None and member.heartbeat_text:
            # Fast path for the most frequent event: all but its numbers is the same for a generation.
            member.correlation += 1
            head, tail = member.heartbeat_text.split("\0")
            return at, "exchange", f'{head}{member.correlation},"arrived":{at - 0.0002:.6f},{tail}'
        member.correlation += 1
        api, version, request, answer = self._heartbeat_body(member, error, generation)
        head = _dumps(
            {
                "conn": member.conn, "node": self.node, "api": api, "version": version,
                "client_id": member.client_id, "group": self.group_id, "member": member.member_id,
            }
        )[1:-1] + ',"correlation_id":'  # fmt: skip
        tail = f'"request":{_dumps(request)},"answer":{_dumps(answer)},"error":{error}'
        if error == 0 and generation is None:
            member.heartbeat_text = f"{head}\0{tail}"
        return at, "exchange", f'{head}{member.correlation},"arrived":{at - 0.0002:.6f},{tail}'

    def _heartbeat_body(
        self, member: Member, error: int, generation: int | None
    ) -> tuple[str, int, dict[str, Any], dict[str, Any]]:
        """Return API, version, request and answer of a heartbeat without news; `generation` overrides the member's."""
        request = {
            "group_id": self.group_id, "generation_id": self.generation if generation is None else generation,
            "member_id": member.member_id, "group_instance_id": member.instance_id,
        }  # fmt: skip
        return "Heartbeat", 4, request, {"throttle_time_ms": 0, "error_code": error}

    def _generation_of(self, member: Member) -> int:
        """Return the generation that a member commits with."""
        return self.generation

    def _commit(self, member: Member, at: float, offsets: dict[Partition, int]) -> Iterator[Event]:
        topics: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, {})[partition] = offset
        yield self.event(
            at, "commit", group=self.group_id, partition=self.offsets_partition, member_id=member.member_id,
            generation=self._generation_of(member), error=0,
            offsets=[{"topic": t, "partition": p, "offset": offset} for (t, p), offset in offsets.items()],
        )  # fmt: skip
        request = {
            "group_id": self.group_id, "generation_id_or_member_epoch": self._generation_of(member),
            "member_id": member.member_id, "group_instance_id": member.instance_id, "retention_time_ms": -1,
            "topics": [
                {
                    "name": topic,
                    "partitions": {
                        "partition_index": list(each), "committed_leader_epoch": [-1] * len(each),
                        "committed_metadata": [""] * len(each),
                    },
                }
                for topic, each in topics.items()
            ],
        }  # fmt: skip
        answer = {
            "throttle_time_ms": 0,
            "topics": [
                {"name": topic, "partitions": {"partition_index": list(each), "error_code": [0] * len(each)}}
                for topic, each in topics.items()
            ],
        }
        yield self._exchange(member, at + 0.0004, at - 0.0002, "OffsetCommit", 9, request, answer)
        self.committed.update(offsets)
        self.commits.append(Commit(at, self.group_id, [(t, p, offset) for (t, p), offset in offsets.items()]))

    def _fetch_offsets(self, member: Member, at: float, lie: bool = False) -> Event:
        topics: dict[str, list[dict[str, Any]]] = {}
        for index, each in enumerate(member.owned):
            offset = self.committed.get(each, -1) + (12_345 if lie and index == 0 else 0)
            topics.setdefault(each[0], []).append(
                {
                    "partition_index": each[1], "committed_offset": offset, "committed_leader_epoch": -1,
                    "metadata": "", "error_code": 0,
                }
            )  # fmt: skip
        topic_answers = [{"name": topic, "partitions": each} for topic, each in topics.items()]
        request = {
            "group_id": "", "topics": None, "require_stable": True,
            "groups": [
                {
                    "group_id": self.group_id, "member_id": member.member_id,
                    "member_epoch": self._generation_of(member),
                }
            ],
        }  # fmt: skip
        answer = {
            "throttle_time_ms": 0, "topics": [], "error_code": 0,
            "groups": [{"group_id": self.group_id, "topics": topic_answers, "error_code": 0}],
        }  # fmt: skip
        return self._exchange(member, at, at - 0.0003, "OffsetFetch", 9, request, answer, member_id="")

    def _join_request(self, member: Member, member_id: str) -> dict[str, Any]:
        return {
            "group_id": self.group_id, "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS, "member_id": member_id,
            "group_instance_id": member.instance_id, "protocol_type": "consumer",
            "protocols": [{"name": self.protocol, "metadata": 60}], "reason": "",
        }  # fmt: skip

    def _join_answer(
        self, member: Member, leader: str, members: list[dict[str, Any]], error: int = 0
    ) -> dict[str, Any]:
        return {
            "throttle_time_ms": 0, "error_code": error, "generation_id": -1 if error else self.generation,
            "protocol_type": None if error else "consumer", "protocol_name": None if error else self.protocol,
            "leader": leader, "skip_assignment": False, "member_id": member.member_id, "members": members,
        }  # fmt: skip

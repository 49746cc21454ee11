"""What the relay concludes from outside is what a coordinator told of itself.

Puppets act in simulated time and their bytes go through the relay's lines; the coordinator writes its own trace of the
same rounds. Seeds decide who comes, goes, dies, restarts, and when.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import kafka_shim.lab.puppets
from kafka_shim.groups.trace import problems
from kafka_shim.lab.puppets import Puppet
from kafka_shim.lab.scheduler import Link
from kafka_shim.relay.proxied_connection import BrokersAnswer, ProxiedConnection
from kafka_shim.relay.record import Record
from kafka_shim.testing import Network, Simulation

Events = list[dict[str, Any]]
NEAR = 0.001
"""Seconds; the relay stands at the coordinator's door."""


class Recorded:
    """A simulation whose puppets come through a relay, and both traces of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        self.simulation = Simulation(seed=seed, topics={"orders": 12}, network=Network(least=0.0005, most=0.004))
        self.events: Events = []
        self.concluded: Events = []
        self.notes: list[str] = []
        self.simulation.cluster.events.listen(lambda events, now: self.events.extend(dict(event) for event in events))
        self.record = Record(lambda events, now: self.concluded.extend(events), lambda: self.simulation.now)
        recorded = self

        class RecordedLink(Link):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                self.line = ProxiedConnection(
                    self.session.number, 1, "/127.0.0.1",
                    clock=lambda: recorded.simulation.now,
                    on_request=recorded.record.on_request,
                    on_answer=recorded.record.on_answer,
                    note=recorded.notes.append,
                )  # fmt: skip

            def _arrived(self, data: bytes, now: float) -> None:
                if self.is_open:
                    assert self.line.from_client(data) == data
                super()._arrived(data, now)

            def send(self, data: bytes) -> bool:
                passed = self.line.from_broker(data)
                assert b"".join(part.frame if isinstance(part, BrokersAnswer) else part for part in passed) == data
                return super().send(data)

            def end(self, now: float) -> None:
                recorded.record.closed(self.line)
                super().end(now)

        monkeypatch.setattr(kafka_shim.lab.puppets, "Link", RecordedLink)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.2)):
            self.simulation.run(0.2)
            self.record.tick()

    def rounds(self, events: Events) -> Events:
        return [event for event in events if event["event"] == "round" and event["members"]]


def act(recorded: Recorded, rng: random.Random, members: list[Puppet], script: dict[str, Any]) -> None:
    """One thing happens, and all its consequences."""
    simulation = recorded.simulation
    playing = [member for member in members if member.generation >= 0]
    what = rng.choice(["join", "join", "leave", "crash", "restart", "roll", "silence"])
    if what == "join" or len(playing) < 3:
        number = len(members)
        static = {"instance_id": f"i{number}"} if rng.random() < 0.3 else {}
        members.append(simulation.puppet("billing", ["orders"], client_id=f"m{number}", **script, **static))
    else:
        member = rng.choice(playing)
        getattr(member, {"restart": "crash", "roll": "leave"}.get(what, what))()
        if what in ("restart", "roll"):
            recorded.run(rng.uniform(0.1, 3))
            again = {"client_id": member.script.client_id, "instance_id": member.script.instance_id}
            members.append(simulation.puppet("billing", ["orders"], **again, **script))
        member.generation = -1
    recorded.run(rng.choice([0.5, 5.0, 30.0, 30.0, 30.0]))


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("seed", range(12))
def test_rounds_are_concluded_as_the_coordinator_told_them(
    monkeypatch: pytest.MonkeyPatch, seed: int, protocol: str
) -> None:
    recorded = Recorded(monkeypatch, seed)
    rng = random.Random(seed)
    script = {"protocols": [protocol], "session_timeout": 10.0, "rebalance_timeout": 30.0}
    members: list[Puppet] = []
    for _ in range(25):
        act(recorded, rng, members, script)
    recorded.run(60)
    recorded.record.finish()
    events, concluded = recorded.rounds(recorded.events), recorded.rounds(recorded.concluded)
    assert len(concluded) > 15
    exact = ("generation", "cause", "trigger", "leader", "protocol")
    assert [[event[name] for name in exact] for event in concluded] == [[e[name] for name in exact] for e in events]
    for ours, theirs in zip(concluded, events, strict=True):
        assert sorted(ours["members"]) == sorted(theirs["members"])
        assert ours["started"] == pytest.approx(theirs["started"], abs=NEAR)
        assert ours["ended"] == pytest.approx(theirs["ended"], abs=NEAR)
        waits = {each["member_id"]: each["ms"] for each in theirs["waited_for"]}
        for each in ours["waited_for"]:
            assert each["ms"] == pytest.approx(waits[each["member_id"]], abs=NEAR * 1000)
        assert set(ours["dropped"]) == set(theirs["dropped"])
    given = [[e["generation"], e["assignments"]] for e in recorded.concluded if e["event"] == "assignment"]
    assert given == [[e["generation"], e["assignments"]] for e in recorded.events if e["event"] == "assignment"]
    changes = [
        sorted((event["member_id"], event["change"]) for event in events if event["event"] == "member")
        for events in (recorded.concluded, recorded.events)
    ]
    assert changes[0] == changes[1]
    assert recorded.notes == []
    assert [problem for event in recorded.concluded for problem in problems(event)] == []

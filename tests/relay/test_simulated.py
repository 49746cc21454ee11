"""The relay infers from outside the same rounds as a coordinator writes into its trace.

Puppets act in simulated time; seeds choose the joins, leaves, deaths and restarts, and their times.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafka_shim.lab.puppets import Puppet
from kafka_shim.trace.schema import problems

from .simulated import Recorded

NEAR = 0.001
"""Seconds; the relay stands at the coordinator's door."""


def act(recorded: Recorded, rng: random.Random, members: list[Puppet], script: dict[str, Any]) -> None:
    """Make one change, and run all its consequences."""
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
def test_inferred_rounds_equal_the_coordinators_events(
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
    assignments = [[e["generation"], e["assignments"]] for e in recorded.concluded if e["event"] == "assignment"]
    assert assignments == [[e["generation"], e["assignments"]] for e in recorded.events if e["event"] == "assignment"]
    changes = [
        sorted((event["member_id"], event["change"]) for event in events if event["event"] == "member")
        for events in (recorded.concluded, recorded.events)
    ]
    assert changes[0] == changes[1]
    assert recorded.notes == []
    assert [problem for event in recorded.concluded for problem in problems(event)] == []

"""The relay infers the same epochs and members of a group as the trace of a coordinator has.

Puppets of each kind act in simulated time; seeds choose the joins, leaves, deaths and restarts, and their times.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from kafka_shim.lab.consumer_puppets import ConsumerManner
from kafka_shim.lab.puppets import Puppet
from kafka_shim.trace.history import History
from kafka_shim.trace.reconciliation import INTERVAL
from kafka_shim.trace.schema import problems

from .simulated import Events, Recorded

MAKERS: dict[str, Callable[..., Any]] = {
    "consumer": lambda simulation, **script: simulation.consumer_puppet("billing", ["orders"], **script),
    "share": lambda simulation, **script: simulation.share_puppet("billing", ["orders"], **script),
    "streams": lambda simulation, **script: simulation.streams_puppet("billing", ["orders"], **script),
}


class Life:
    """A group of one kind behind a relay."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int, interval_ms: int = 0) -> None:
        self.kind = kind
        self.rng = random.Random(seed)
        # A member may expire within an assignment interval before an answer has its epoch: a relay does not see it.
        config = {f"group.{each}.assignment.interval.ms": str(interval_ms) for each in MAKERS}
        config["group.streams.initial.rebalance.delay.ms"] = "0"
        self.recorded = Recorded(monkeypatch, seed, **config)
        self.recorded.name_topics()
        self.members: list[Any] = []

    @property
    def playing(self) -> list[Any]:
        return [member for member in self.members if member.generation >= 0]

    def make(self, **script: Any) -> Puppet:
        script = {"client_id": f"m{len(self.members)}", **script}
        puppet: Puppet = MAKERS[self.kind](self.recorded.simulation, **script)
        self.members.append(puppet)
        return puppet

    def act(self) -> None:
        """Make one change, and run all its consequences."""
        playing = self.playing
        what = self.rng.choice(["join", "join", "leave", "crash", "restart", "roll", "silence"])
        if what == "join" or len(playing) < 3:
            is_static = self.kind == "consumer" and self.rng.random() < 0.3
            self.make(instance_id=f"i{len(self.members)}" if is_static else None)
        else:
            member = self.rng.choice(playing)
            getattr(member, {"restart": "crash", "roll": "leave"}.get(what, what))()
            if what in ("restart", "roll"):
                self.recorded.run(self.rng.uniform(0.1, 3))
                self.make(client_id=member.script.client_id, instance_id=member.script.instance_id)
            member.generation = -1
        # Longer than a session: events between its end and the next heartbeat would have another order.
        self.recorded.run(60.0)

    def end(self) -> tuple[Events, Events]:
        """Return the inferred events, and those of the coordinator."""
        self.recorded.run(120)
        self.recorded.record.finish()
        assert self.recorded.notes == []
        assert [problem for event in self.recorded.concluded for problem in problems(event)] == []
        return self.recorded.concluded, self.recorded.events


def of(events: Events, kind: str, *fields: str) -> list[tuple[Any, ...]]:
    return [
        tuple(tuple(event[name]) if isinstance(event[name], list) else event[name] for name in fields)
        for event in events
        if event["event"] == kind
    ]


def ends_with(events: Events) -> dict[str, list[int]]:
    """Return the state of each member at the end."""
    has: dict[str, list[int]] = {}
    for event in events:
        if event["event"] == "reconciliation":
            has[event["member_id"]] = [number for numbers in event["assigned"].values() for number in numbers]
        elif event["event"] == "member" and event["change"] in ("left", "expired", "removed", "fenced"):
            has.pop(event["member_id"], None)
    return has


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(4))
def test_inferred_epochs_equal_the_coordinators_events(monkeypatch: pytest.MonkeyPatch, seed: int, kind: str) -> None:
    life = Life(monkeypatch, kind, seed)
    for _ in range(25):
        life.act()
    concluded, so = life.end()
    epochs = of(concluded, "epoch", "generation", "cause", "trigger")
    assert len(epochs) > 20
    assert epochs == of(so, "epoch", "generation", "cause", "trigger")
    assert of(concluded, "member", "member_id", "change") == of(so, "member", "member_id", "change")
    assert ends_with(concluded) == ends_with(so)


def test_inferred_waits_equal_the_coordinators_events(monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(monkeypatch, "consumer", 1)
    life.make(think=7.0)
    life.recorded.run(20)
    life.make()
    concluded, so = life.end()
    fields = ("member_id", "generation", "state", "waits_for")
    # The coordinator repeats the event of a member that still waits.
    steps = list(dict.fromkeys(of(so, "reconciliation", *fields)))
    assert of(concluded, "reconciliation", *fields) == steps
    assert any(holders for *_, holders in steps)
    # The first target is known in part; the last equals the partitions of all members in the end.
    targets = [event for event in concluded if event["event"] == "target"]
    assert [event["generation"] for event in targets] == [2, 2, 3, 3]
    assert ends_with(so) == {
        member_id: [number for numbers in topics.values() for number in numbers]
        for member_id, topics in targets[-1]["assignments"].items()
    }


def test_a_member_that_never_revokes_causes_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(monkeypatch, "consumer", 2)
    life.make(manner=ConsumerManner(never_revokes=True), rebalance_timeout=10.0)
    life.recorded.run(20)
    life.make()
    life.recorded.run(28)
    concluded, so = life.recorded.concluded, life.recorded.events
    assert of(concluded, "epoch", "cause") == of(so, "epoch", "cause")
    assert ("REBALANCE_TIMEOUT",) in of(concluded, "epoch", "cause")
    assert ("removed",) in of(concluded, "member", "change")


def test_new_partitions_show_that_a_topic_grew(monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(monkeypatch, "consumer", 3)
    for _ in range(2):
        life.make()
    life.recorded.run(60)
    topics = life.recorded.simulation.cluster.topics
    orders = topics.named("orders")
    assert orders is not None
    topics.grow(orders, [[1]] * 12)
    concluded, so = life.end()
    assert of(concluded, "epoch", "generation", "cause") == of(so, "epoch", "generation", "cause")
    assert ends_with(concluded) == ends_with(so)


def test_why_has_such_a_rebalance_from_its_beginning_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(monkeypatch, "consumer", 4)
    for _ in range(3):
        life.make(think=2.0)
        life.recorded.run(60)
    concluded, so = life.end()
    rebalances = []
    for events in (concluded, so):
        history = History()
        for event in events:
            history.add(event)
        rebalances.append(list(history.groups["billing"].rebalances))
    outside, inside = rebalances
    assert [each.cause for each in outside] == [each.cause for each in inside]
    for seen, real in zip(outside, inside, strict=True):
        assert seen.inferred
        assert seen.seconds == pytest.approx(real.seconds, abs=5.1), "a heartbeat more at most"
        assert seen.moved == real.moved
        assert seen.slow == real.slow or (seen.slow and real.slow and seen.slow.member_id == real.slow.member_id)


@pytest.mark.parametrize("kind", MAKERS)
def test_epochs_within_an_assignment_interval_are_inferred(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    life = Life(monkeypatch, kind, 3, interval_ms=8_000)
    members = [life.make()]
    life.recorded.run(20)
    # The next member is assigned at once, the others wait for the interval.
    for _ in range(3):
        members.append(life.make())
        life.recorded.run(1)
    members[1].leave()
    concluded, so = life.end()
    assert len(of(so, "epoch", "generation")) >= 5
    epochs = of(concluded, "epoch", "generation", "cause", "trigger")
    assert epochs == of(so, "epoch", "generation", "cause", "trigger")
    assert ends_with(concluded) == ends_with(so)
    computed = [event["generation"] for event in so if event["event"] == "target"]
    seen = [event["generation"] for event in concluded if event["event"] == "target"]
    assert set(seen) <= set(computed)
    history = History()
    for event in life.recorded.concluded:
        history.add(event)
    phases = [phase.name for each in history.groups["billing"].rebalances for phase in each.phases]
    assert INTERVAL in phases

"""Groups with epochs in the tables: consumer groups of KIP-848, share groups and streams groups.

The rules themselves write the traces, for scripted members of each kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kafka_shim.pipeline.jobs import invariants
from kafka_shim.pipeline.tables import epochs, lives
from kafka_shim.pipeline.warehouse import Warehouse
from tests.groups.consumer.context import Cluster as ConsumerCluster
from tests.groups.share.context import Cluster as ShareCluster
from tests.groups.streams.context import Cluster as StreamsCluster
from tests.groups.streams.context import one_subtopology
from tests.relay.test_epochs import Life

WALL = 1.76e9


class Story:
    """A recorder of a cluster's events, as the lines of a trace."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.lines: list[str] = []
        self._seen = 0

    def second(self, *does: Callable[[], object]) -> None:
        """Do each of these at the same time, then let a second pass."""
        for each in does:
            each()
        self._take()
        self.cluster.advance(1000)
        self._take()

    def _take(self) -> None:
        now = self.cluster.now
        for event in self.cluster.events[self._seen :]:
            head = {"event": event["event"], "seq": len(self.lines), "mono": now, "wall": WALL + now}
            self.lines.append(json.dumps({**event, **head}))
        self._seen = len(self.cluster.events)

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "trace.jsonl").write_text("\n".join(self.lines) + "\n")


def consumers() -> Story:
    story = Story(cluster := ConsumerCluster(t=4))
    a, b = cluster.consumer("a", "t"), cluster.consumer("b", "t")
    story.second(a.join)
    story.second(b.join)
    # a needs three seconds to give up the partitions that b gets.
    for _ in range(3):
        story.second(a.heartbeat, b.heartbeat)
    for _ in range(3):
        story.second(a.obey, b.obey)
    story.second(a.leave)
    for _ in range(3):
        story.second(b.obey)
    return story


def sharers() -> Story:
    story = Story(cluster := ShareCluster(t=4))
    a, b = cluster.sharer("a", "t"), cluster.sharer("b", "t")
    story.second(a.join)
    story.second(b.join)
    for _ in range(3):
        story.second(a.heartbeat, b.heartbeat)
    story.second(a.leave)
    for _ in range(3):
        story.second(b.heartbeat)
    return story


def threads() -> Story:
    story = Story(cluster := StreamsCluster("group.streams.initial.rebalance.delay.ms=0", t=4))
    topology = one_subtopology("t")
    a, b = cluster.member("a", topology), cluster.member("b", topology)
    story.second(a.join)
    story.second(b.join)
    for _ in range(4):
        story.second(a.report, b.report)
    story.second(a.leave)
    for _ in range(3):
        story.second(b.report)
    return story


def behind_a_relay(kind: str, folder: Path) -> None:
    """Write the traces of a relay and of the coordinator behind it, with a few members that join and leave."""
    with pytest.MonkeyPatch.context() as patch:
        life = Life(patch, kind, 1)
        for _ in range(8):
            life.act()
        for who, events in zip((f"{kind}-seen", f"{kind}-so"), life.end(), strict=True):
            (folder / who).mkdir(parents=True)
            with (folder / who / "trace.jsonl").open("w") as file:
                for seq, event in enumerate(events):
                    file.write(json.dumps({**event, "seq": seq, "wall": WALL + event["mono"]}, default=str) + "\n")


def write_stories(folder: Path) -> None:
    """Write a trace of each kind of group, by the rules and by a relay in front of others."""
    for kind, story in (("consumer", consumers()), ("share", sharers()), ("streams", threads())):
        story.write(folder / kind)
        behind_a_relay(kind, folder)


@pytest.fixture
def tables(with_epochs: Warehouse) -> Warehouse:
    return with_epochs


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_an_epoch_is_a_round_that_ends_with_its_last_member(tables: Warehouse, kind: str) -> None:
    rows = tables.read("rounds").where(f"trace = '{kind}/trace' and kind = '{kind}'").orderBy("seq").collect()
    assert [(row.cause, row.trigger) for row in rows[:3]] == [
        ("NEW_MEMBER", "a"),
        ("NEW_MEMBER", "b"),
        ("MEMBER_LEFT", "a"),
    ]
    assert len(rows) == 3
    assert {row.trace for row in rows} == {f"{kind}/trace"}
    assert all(row.cooperative and row.leader is None for row in rows)
    alone, both, *_, last = rows
    assert [row.size for row in (alone, both, last)] == [1, 2, 1]
    assert all(row.stable_at is not None for row in (alone, both, last))
    assert (alone.total_ms, alone.blamed) == (0, "a")
    # The second member waits for the partitions of the first; in a share group only for its next heartbeat.
    assert both.total_ms == {"consumer": 4000, "share": 1000, "streams": 2000}[kind]
    assert both.waited_for[0].ms == both.total_ms == both.blamed_ms
    assert last.members == ["b"]


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_a_partition_moves_without_two_owners(tables: Warehouse, kind: str) -> None:
    rows = (
        tables.read("ownership")
        .where(f"trace = '{kind}/trace' and kind = '{kind}'")
        .orderBy("partition", "owned_from")
        .collect()
    )
    by_partition: dict[int, list[Any]] = {}
    for row in rows:
        by_partition.setdefault(row.partition, []).append(row)
    assert sorted(by_partition) == [0, 1, 2, 3]
    for owners in by_partition.values():
        # The half that b got when it joined, and the half that it got when a left.
        assert [row.member_id for row in owners] == ["a", "b"]
        first, second = owners
        assert first.owned_until <= second.owned_from
        assert second.owned_until is None
    ended = [owners[0].ended_by for owners in by_partition.values()]
    assert sorted(ended) == ["gone", "gone", "revoked", "revoked"]


def test_members_of_a_share_group_own_a_partition_together(tables: Warehouse) -> None:
    rows = tables.read("ownership").where("trace = 'share/trace' and kind = 'share'").collect()
    assert {row.member_id for row in rows} == {"a", "b"}
    assert tables.read("partition_pauses").where("kind = 'share'").count() == 0


def test_membership_is_complete_and_no_invariant_is_broken(tables: Warehouse) -> None:
    rows = tables.read("membership").where("trace like '%/trace' and not trace like '%-s%'").collect()
    assert sorted((row.trace.split("/")[0], row.member_id, row.how) for row in rows) == [
        (kind, member, how) for kind in ("consumer", "share", "streams") for member, how in (("a", "left"), ("b", None))
    ]
    assert tables.read("violations").collect() == []
    assert tables.read("quarantine").count() == 0


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_the_trace_of_a_relay_has_the_epochs_of_the_coordinator(tables: Warehouse, kind: str) -> None:
    seen, so = (
        tables.read("rounds").where(f"trace = '{kind}-{who}/trace'").orderBy("seq").collect() for who in ("seen", "so")
    )
    assert len(seen) > 5
    assert {row.kind for row in seen} == {kind}
    assert [(row.generation, row.cause, row.trigger) for row in seen] == [
        (row.generation, row.cause, row.trigger) for row in so
    ]
    assert all(row.inferred for row in seen)
    assert not any(row.inferred for row in so)
    owned = [
        {(row.member_id, row.topic, row.partition) for row in rows.where("owned_until is null").collect()}
        for rows in (tables.read("ownership").where(f"trace = '{kind}-{who}/trace'") for who in ("seen", "so"))
    ]
    assert owned[0] == owned[1]
    assert owned[0]


def test_two_owners_and_an_epoch_without_a_cause_are_violations(spark: SparkSession, tables: Warehouse) -> None:
    events = lives.placed(tables.read("events", steady=False), tables.read("lives")).where("trace = 'consumer/trace'")
    # As if b had owned at once the partitions that it had to wait for.
    b = "event = 'reconciliation' and member_id = 'b'"
    broken = events.withColumns(
        {
            "happened_at": F.expr(f"if({b}, happened_at - interval 20 seconds, happened_at)"),
            "cause": F.expr("if(event = 'epoch', 'nonsense', cause)"),
        }
    )
    owned = invariants.one_owner_at_a_time(epochs.ownership(broken)).collect()
    assert {row.invariant for row in owned} == {"I1"}
    assert {row.subject for row in owned} <= {f"t-{number}" for number in range(4)}
    causes = invariants.one_cause(broken).collect()
    assert [(row.invariant, row.subject) for row in causes] == [("I9", "2"), ("I9", "3"), ("I9", "4")]

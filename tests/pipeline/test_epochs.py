"""Groups without rounds in the tables: consumer groups of KIP-848, share groups and streams groups.

Their traces are those of the rules themselves, which members of each kind are led through by the second.
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
from kafka_shim.pipeline.tables import epochs
from kafka_shim.pipeline.warehouse import Warehouse
from tests.groups.consumer.context import Cluster as ConsumerCluster
from tests.groups.share.context import Cluster as ShareCluster
from tests.groups.streams.context import Cluster as StreamsCluster
from tests.groups.streams.context import one_subtopology
from tests.relay.test_epochs import Life

WALL = 1.76e9


class Story:
    """What a cluster emits, as the lines of a trace."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.lines: list[str] = []
        self._seen = 0

    def second(self, *does: Callable[[], object]) -> None:
        """Each of these at the same time, then a second passes."""
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
    # It takes a three seconds to give up what is b's now.
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
    """The traces of a relay and of the coordinator behind it, of a few members that come and go."""
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
    """A trace of each kind of group, by the rules and by a relay in front of others."""
    for kind, story in (("consumer", consumers()), ("share", sharers()), ("streams", threads())):
        story.write(folder / kind)
        behind_a_relay(kind, folder)


@pytest.fixture
def tables(with_epochs: Warehouse) -> Warehouse:
    return with_epochs


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_an_epoch_is_a_round_with_a_cause_that_ends_when_the_last_member_has_come(tables: Warehouse, kind: str) -> None:
    rows = tables.read("rounds").where(f"trace = '{kind}/trace' and kind = '{kind}'").orderBy("seq").collect()
    assert [(row.cause, row.trigger) for row in rows[:3]] == [
        ("NEW_MEMBER", "a"),
        ("NEW_MEMBER", "b"),
        ("MEMBER_LEFT", "a"),
    ]
    # A share group looks at its topics once more when a member has left.
    assert [row.cause for row in rows[3:]] == (["TOPIC_METADATA_CHANGED"] if kind == "share" else [])
    assert {row.trace for row in rows} == {f"{kind}/trace"}
    assert all(row.cooperative and row.leader is None for row in rows)
    alone, both, *_, last = rows
    assert [row.size for row in (alone, both, last)] == [1, 2, 1]
    assert all(row.stable_at is not None for row in (alone, both, last))
    assert (alone.total_ms, alone.blamed) == (0, "a")
    # Whoever comes second waits for what the first one has; in a share group until the first one hears of it.
    assert both.total_ms == {"consumer": 4000, "share": 1000, "streams": 2000}[kind]
    assert both.waited_for[0].ms == both.total_ms == both.blamed_ms
    assert last.members == ["b"]


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_a_partition_goes_from_one_to_the_other_without_both_having_it(tables: Warehouse, kind: str) -> None:
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
        # The half that b got when it came, and the half that it got when a went.
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


def test_who_was_there_and_that_no_invariant_is_broken(tables: Warehouse) -> None:
    rows = tables.read("membership").where("not trace like '%-s%' and trace != 'trace/trace'").collect()
    assert sorted((row.trace.split("/")[0], row.member_id, row.how) for row in rows) == [
        (kind, member, how) for kind in ("consumer", "share", "streams") for member, how in (("a", "left"), ("b", None))
    ]
    assert tables.read("violations").collect() == []
    assert tables.read("quarantine").count() == 0


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_what_a_relay_saw_has_the_epochs_of_the_coordinator(tables: Warehouse, kind: str) -> None:
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


def test_two_owners_at_a_time_and_an_epoch_without_a_cause_are_found(spark: SparkSession, tables: Warehouse) -> None:
    events = tables.read("events", steady=False).where("trace = 'consumer/trace'")
    # As if b had had at once what it had to wait for.
    b = "event = 'reconciliation' and member_id = 'b'"
    broken = events.withColumns(
        {
            "at": F.expr(f"if({b}, at - interval 20 seconds, at)"),
            "cause": F.expr("if(event = 'epoch', 'nonsense', cause)"),
        }
    )
    owned = invariants.one_owner_at_a_time(epochs.ownership(broken)).collect()
    assert {row.invariant for row in owned} == {"I1"}
    assert {row.subject for row in owned} <= {f"t-{number}" for number in range(4)}
    causes = invariants.one_cause(broken).collect()
    assert [(row.invariant, row.subject) for row in causes] == [("I9", "1"), ("I9", "2"), ("I9", "3")]

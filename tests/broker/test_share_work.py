"""The work of ShareFetch and ShareAcknowledge grows neither with repetition nor faster than the request."""

from __future__ import annotations

import gc
import weakref

import pytest

from kafka_shim.apis.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from kafka_shim.apis.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic
from kafka_shim.broker import share_fetches, share_reading
from kafka_shim.broker.share_partition import SharePartition
from kafka_shim.broker.share_sessions import MOST_PARTITIONS
from kafka_shim.groups.interface import PARKED
from kafka_shim.groups.share.persister import Place
from tests.effort import effort

from .context import batch
from .test_share_fetches import ACCEPT, GROUP, RELEASE, RENEW, Shared, Sharer, acquired
from .test_share_reading import appended, ended


def with_records(count: int = 10) -> tuple[Shared, Sharer]:
    """A member that has acquired all records of partition 0."""
    cluster = Shared()
    cluster.send("t", 0, batch(*[b"a"] * count))
    member = cluster.member("a")
    assert acquired(member.fetch()) == [(0, 0, count - 1, 1)]
    return cluster, member


def looks(monkeypatch: pytest.MonkeyPatch) -> list[SharePartition]:
    """Return a list that gets a share partition for each look at its locks from now on."""
    seen: list[SharePartition] = []
    expire = SharePartition.expire

    def counted(partition: SharePartition, now: float) -> bool:
        seen.append(partition)
        return expire(partition, now)

    monkeypatch.setattr(SharePartition, "expire", counted)
    return seen


def test_a_partition_that_is_named_often_is_acknowledged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, member = with_records()
    calls = 0
    rule = SharePartition.acknowledge

    def counted(partition: SharePartition, *args: object) -> bool:
        nonlocal calls
        calls += 1
        return rule(partition, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(SharePartition, "acknowledge", counted)
    batches = [AcknowledgementBatch(0, 9, RENEW)]
    topics = [AcknowledgeTopic(cluster.topic.id, [AcknowledgePartition(0, batches) for _ in range(100)])]
    request = ShareAcknowledgeRequest(GROUP, "a", next(member.epochs), True, topics)
    (topic,) = cluster.broker.share.acknowledge(request, cluster.now).responses
    assert [each.error_code for each in topic.partitions] == [0]
    assert calls == 1


@pytest.mark.parametrize("by_fetch", [True, False])
def test_the_last_acknowledgements_of_a_partition_count(*, by_fetch: bool) -> None:
    cluster, member = with_records(2)
    both = [[AcknowledgementBatch(0, 1, RELEASE)], [AcknowledgementBatch(0, 0, ACCEPT)]]
    if by_fetch:
        named = [FetchTopic(cluster.topic.id, [FetchPartition(0, each) for each in both])]
        assert acquired(member.fetch(max_wait_ms=0, topics=named)) == []
    else:
        topics = [AcknowledgeTopic(cluster.topic.id, [AcknowledgePartition(0, each) for each in both])]
        request = ShareAcknowledgeRequest(GROUP, "a", next(member.epochs), False, topics)
        assert cluster.broker.share.acknowledge(request, cluster.now).responses[0].partitions[0].error_code == 0
    cluster.broker.disconnected(member.connection)
    assert acquired(cluster.member("b").fetch(max_wait_ms=0)) == [(0, 1, 1, 2)]


def test_renewals_lead_to_one_look_at_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, member = with_records()
    seen = looks(monkeypatch)
    cluster.now = 10.0
    for _ in range(50):
        member.acknowledge((0, 9, RENEW), renews=True)
        member.acknowledge(renews=True)
    assert len(cluster.broker.share.partitions.locks) == 1
    cluster.advance(20)
    assert len(seen) == 1
    assert cluster.broker.next_deadline() == 40.0
    cluster.advance(10)
    assert len(seen) == 2
    assert acquired(cluster.member("b").fetch()) == [(0, 0, 9, 2)]


def test_a_fetch_of_an_ended_connection_is_not_kept() -> None:
    cluster = Shared()
    member = cluster.member("a")
    member.fetch(max_wait_ms=0)
    assert member.fetch(max_wait_ms=1000) is PARKED, "an earlier end of a wait"
    gone = cluster.member("b")
    assert gone.fetch(max_wait_ms=2**31 - 1) is PARKED
    cluster.broker.forget(gone)
    cluster.broker.disconnected(gone.connection)
    exchange = weakref.ref(gone)
    del gone
    gc.collect()
    assert exchange() is None


def test_the_ends_of_waits_that_nobody_waits_for_are_bounded() -> None:
    cluster = Shared()
    member = cluster.member("a")
    member.fetch(max_wait_ms=0)
    assert member.fetch(max_wait_ms=1000) is PARKED
    other = cluster.member("b")
    for _ in range(2_000):
        other.fetch(max_wait_ms=2**31 - 1)
        cluster.broker.forget(other)
    assert len(cluster.broker.share._wait_ends) < 1_100
    cluster.advance(1)
    assert [token for token, _ in cluster.replies()] == [member]


def test_the_settings_of_a_group_cost_nothing_for_each_partition() -> None:
    def work(**settings: str) -> int:
        cluster = Shared(100)
        cluster.topics.settings.groups[GROUP] = {name.replace("_", "."): value for name, value in settings.items()}
        member = cluster.member("a", *range(100))
        return effort(lambda: member.fetch(max_wait_ms=0))

    many = {f"{kind}.session.timeout.ms": "45000" for kind in ("consumer", "share", "streams")}
    many |= {f"{kind}.heartbeat.interval.ms": "5000" for kind in ("consumer", "share", "streams")}
    assert work(share_auto_offset_reset="earliest", **many) - work(share_auto_offset_reset="earliest") < 50


def test_the_largest_first_fetch_is_bounded() -> None:
    cluster = Shared(500)
    member = cluster.member("a", *range(500))
    grown = effort(lambda: member.fetch(max_wait_ms=0))
    assert grown * MOST_PARTITIONS // 500 < 2_000_000, "lines of Python, of which 30 take about a microsecond"


@pytest.mark.parametrize("way", ["records", "end"])
def test_parked_fetches_are_answered_in_turns(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(share_fetches, "AT_ONCE", 100)
    cluster = Shared(50)
    members = []
    for number in range(10):
        group_id = f"g{number}"
        cluster.topics.settings.groups[group_id] = {"share.auto.offset.reset": "earliest"}
        for index in range(50):
            cluster.broker.share.partitions.persister.initialize(Place(group_id, cluster.topic.id, index), 1)
        members.append(cluster.member("a", *range(50), group_id=group_id))
        assert members[-1].fetch() is PARKED
    if way == "records":
        cluster.send("t", 7, batch(b"a"))
    else:
        cluster.advance(0.5)
    answers = cluster.replies()
    assert len(answers) == 2
    turns = 1
    while cluster.broker.next_deadline() <= cluster.now:
        cluster.advance(0)
        answers += cluster.replies()
        turns += 1
    assert turns == 5
    assert [token for token, _ in answers] == members, "the longest wait comes first"
    assert all(acquired(answer) == ([(7, 0, 0, 1)] if way == "records" else []) for _, answer in answers)


def test_looks_at_parked_fetches_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_fetches, "AT_ONCE", 100)
    cluster = Shared()
    members = [cluster.member(f"m{number}") for number in range(40)]
    for each in members:
        each.fetch(max_wait_ms=0)
        assert each.fetch(min_bytes=1_000) is PARKED
    last = cluster.member("last")
    last.fetch(max_wait_ms=0)
    assert last.fetch() is PARKED
    cluster.send("t", 0, batch(b"a"))
    turns = 1
    while cluster.broker.next_deadline() <= cluster.now:
        assert cluster.replies() == []
        cluster.advance(0)
        turns += 1
    assert turns == 5
    assert [token for token, _ in cluster.replies()] == [last]


def with_aborted(partitions: int) -> Shared:
    """A group with a transaction of 60 aborted batches in each partition, and a record behind it."""
    cluster = Shared(partitions)
    cluster.topics.settings.groups[GROUP]["share.isolation.level"] = "read_committed"
    for index in range(partitions):
        log = cluster.topic.partition(index).log
        for _ in range(60):
            appended(log, b"a", transactional=True)
        ended(log, committed=False)
        appended(log, b"b")
    return cluster


def test_an_answer_goes_through_few_batches_in_all_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_reading, "MOST_PASSED", 100)
    monkeypatch.setattr(share_reading, "_FIRST_LOOK_AHEAD", 100)
    cluster = with_aborted(20)
    seen, places = 0, share_reading._places

    def counted(data: bytes) -> object:
        nonlocal seen
        found = list(places(data))
        seen += len(found)
        return found

    monkeypatch.setattr(share_reading, "_places", counted)
    member = cluster.member("a", *range(20))
    most, found = 0, set[int]()
    for _ in range(100):
        before = seen
        found |= {partition for partition, *_ in acquired(member.fetch(max_wait_ms=0))}
        most = max(most, seen - before)
        if len(found) == 20:
            break
    assert found == set(range(20)), "all records come in the end"
    assert most < 400


def test_fetches_that_have_passed_many_aborted_batches_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_fetches, "AT_ONCE", 100)
    cluster = with_aborted(1)
    log = cluster.topic.partition(0).log
    members = []
    for number in range(4):
        group_id = f"g{number}"
        cluster.topics.settings.groups[group_id] = cluster.topics.settings.groups[GROUP]
        cluster.broker.share.partitions.persister.initialize(Place(group_id, cluster.topic.id, 0), 1, log.end_offset)
        members.append(cluster.member("a", group_id=group_id))
        assert members[-1].fetch() is PARKED
    for _ in range(90):
        appended(log, b"a", transactional=True, producer=8)
    ended(log, committed=False, producer=8)
    cluster.topics.settle(cluster.now)
    for _ in members:
        assert len(cluster.replies()) == 1
        cluster.advance(0)
    assert not cluster.replies()

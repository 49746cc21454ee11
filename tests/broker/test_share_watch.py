"""Share sessions of many partitions: a change of one, and a request, lead to a look at that one alone."""

from __future__ import annotations

import pytest

from kafka_shim.apis.share_fetch import FetchPartition, FetchTopic, ForgottenTopic
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.share_partitions import PartitionError, SharePartitions
from kafka_shim.groups.interface import PARKED
from kafka_shim.groups.share.persister import Place

from .context import EPOCH_MS, batch
from .test_share_fetches import GROUP, Shared, Sharer, acquired

PARTITIONS = 500
EARLIEST = {"share.auto.offset.reset": "earliest"}


@pytest.fixture
def cluster() -> Shared:
    return Shared(PARTITIONS)


@pytest.fixture
def member(cluster: Shared) -> Sharer:
    """A member with all partitions in its session."""
    member = cluster.member("a", *range(PARTITIONS))
    member.fetch(max_wait_ms=0)
    return member


def looks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets each partition that a fetch looks at from now on."""
    seen: list[object] = []
    find = SharePartitions.find

    def counted(partitions: SharePartitions, session: object, spot: object, *rest: object) -> object:
        seen.append(spot)
        return find(partitions, session, spot, *rest)

    monkeypatch.setattr(SharePartitions, "find", counted)
    return seen


def test_change_of_one_partition_leads_to_no_look_at_the_others(
    cluster: Shared, member: Sharer, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = batch(b"a")
    assert member.fetch(min_bytes=len(data) * 11) is PARKED
    seen = looks(monkeypatch)
    for index in range(10):
        cluster.send("t", index % 2, data)
    assert cluster.replies() == []
    cluster.send("t", 5, data)
    ((token, answer),) = cluster.replies()
    assert token is member
    assert sorted(acquired(answer)) == [(0, 0, 4, 1), (1, 0, 4, 1), (5, 0, 0, 1)]
    assert len(seen) <= 20


def test_fetch_without_records_looks_at_nothing(member: Sharer, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = looks(monkeypatch)
    assert member.fetch(max_wait_ms=0).responses == []
    assert member.fetch() is PARKED
    assert seen == []


def test_released_records_lead_to_a_look_at_their_partition(
    cluster: Shared, member: Sharer, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = cluster.member("b")
    cluster.send("t", 0, batch(b"a"))
    assert acquired(other.fetch())
    assert member.fetch() is PARKED
    seen = looks(monkeypatch)
    other.acknowledge((0, 0, [2]))
    ((_, answer),) = cluster.replies()
    assert acquired(answer) == [(0, 0, 0, 2)]
    assert len(seen) <= 3


def test_records_that_another_member_took_do_not_count(cluster: Shared) -> None:
    data = batch(b"a")
    one, other = cluster.member("a", 0, 1), cluster.member("b", 0)
    one.fetch(max_wait_ms=0)
    assert one.fetch(min_bytes=2 * len(data)) is PARKED
    cluster.send("t", 0, data)
    assert acquired(other.fetch()) == [(0, 0, 0, 1)]
    cluster.send("t", 1, data)
    assert cluster.replies() == []
    cluster.send("t", 1, data)
    ((_, answer),) = cluster.replies()
    assert acquired(answer) == [(1, 0, 1, 1)]


def test_member_that_has_waited_longest_gets_the_record(cluster: Shared) -> None:
    one, other = cluster.member("a"), cluster.member("b")
    for each in (one, other):
        each.fetch(max_wait_ms=0)
    assert other.fetch() is PARKED
    assert one.fetch() is PARKED
    cluster.send("t", 0, batch(b"a"))
    ((token, _),) = cluster.replies()
    assert token is other


def test_new_limit_of_the_group_is_seen(cluster: Shared) -> None:
    cluster.topics.settings.groups[GROUP] = {"share.partition.max.record.locks": "100", **EARLIEST}
    member = cluster.member("a")
    cluster.send("t", 0, batch(*[b"a"] * 100))
    cluster.send("t", 0, batch(b"b"))
    assert acquired(member.fetch(max_records=100)) == [(0, 0, 99, 1)]
    assert member.fetch(max_wait_ms=0).responses == []
    cluster.topics.settings.groups[GROUP] = {"share.partition.max.record.locks": "200", **EARLIEST}
    assert acquired(member.fetch()) == [(0, 100, 100, 1)]


def test_partitions_take_turns(cluster: Shared) -> None:
    member = cluster.member("a", 0, 1, 2)
    member.fetch(max_wait_ms=0)
    for index in (0, 1, 2) * 2:
        cluster.send("t", index, batch(b"a"))
    order = [acquired(member.fetch(max_records=1))[0][:2] for _ in range(6)]
    assert sorted(order) == [(index, offset) for index in range(3) for offset in range(2)]
    assert [index for index, _ in order] == [1, 0, 2, 0, 1, 2]


def test_nothing_is_watched_after_the_session(cluster: Shared, member: Sharer) -> None:
    log = cluster.topic.partitions[7].log
    assert len(log.watchers) == 1
    member.fetch(epoch=-1)
    assert not log.watchers
    again = cluster.member("b", 7, connection=member.connection)
    again.fetch(max_wait_ms=0)
    assert len(log.watchers) == 1
    cluster.broker.disconnected(member.connection)
    assert not log.watchers


def test_session_that_grows_too_large_ends(cluster: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_shim.broker.share_sessions.MOST_PARTITIONS", 3)
    member, other = cluster.member("a", 0, 1, 2), cluster.member("b")
    cluster.send("t", 0, batch(b"a"))
    assert acquired(member.fetch()) == [(0, 0, 0, 1)]
    assert other.fetch() is PARKED
    more = [FetchTopic(cluster.topic.id, [FetchPartition(3)])]
    assert member.fetch(topics=more).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    ((token, answer),) = cluster.replies()
    assert token is other
    assert acquired(answer) == [(0, 0, 0, 2)]
    assert member.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_sessions_of_a_connection_are_too_large_together(cluster: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_shim.broker.share_sessions.MOST_PARTITIONS", 3)
    one = cluster.member("a", 0, 1)
    two = cluster.member("b", 0, 1, connection=one.connection)
    assert one.fetch(max_wait_ms=0).error_code == 0
    assert two.fetch(max_wait_ms=0).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert one.fetch(max_wait_ms=0).error_code == 0
    assert cluster.member("c", 0, 1).fetch(max_wait_ms=0).error_code == 0, "it has a connection of its own"


def test_all_sessions_are_too_large_together(cluster: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_shim.broker.share_sessions.MAX_SIZE", 3)
    one, two = cluster.member("a", 0, 1), cluster.member("b", 0, 1)
    assert one.fetch(max_wait_ms=0).error_code == 0
    assert two.fetch(max_wait_ms=0).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    forgotten = [ForgottenTopic(cluster.topic.id, [1])]
    assert one.fetch(max_wait_ms=0, forgotten_topics_data=forgotten).error_code == 0
    assert two.fetch(epoch=0, max_wait_ms=0).error_code == 0, "a forgotten partition makes room"
    cluster.broker.disconnected(one.connection)
    assert cluster.member("c", 0).fetch(max_wait_ms=0).error_code == 0


def by_duration(partitions: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Shared, list[PartitionLog]]:
    """A group that begins a day ago, and a list that gets each log in which it searches for its first record."""
    cluster = Shared(partitions, reset="by_duration:P1D")
    for index in range(partitions):
        cluster.send("t", index, batch(b"old", timestamp=EPOCH_MS - 90_000_000))
        cluster.send("t", index, batch(b"a"))
    searched: list[PartitionLog] = []
    search = PartitionLog.offset_for_timestamp

    def counted(log: PartitionLog, timestamp: int) -> tuple[int, int] | None:
        searched.append(log)
        return search(log, timestamp)

    monkeypatch.setattr(PartitionLog, "offset_for_timestamp", counted)
    return cluster, searched


def test_one_fetch_searches_one_log_for_the_first_record(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, searched = by_duration(5, monkeypatch)
    member = cluster.member("a", *range(5))
    found = []
    for number in range(1, 6):
        found += acquired(member.fetch(max_wait_ms=0))
        assert len(searched) == number
    assert sorted(found) == [(index, 1, 1, 1) for index in range(5)]
    assert acquired(member.fetch(max_wait_ms=0)) == []
    assert len(searched) == 5


def test_a_fetch_that_waits_searches_log_after_log(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, searched = by_duration(5, monkeypatch)
    member = cluster.member("a", *range(5))
    assert member.fetch(min_bytes=5 * len(batch(b"a"))) is PARKED
    for number in range(1, 5):
        assert len(searched) == number
        assert not cluster.replies()
        cluster.broker.expire(cluster.now)
    ((token, answer),) = cluster.replies()
    assert token is member
    assert sorted(acquired(answer)) == [(index, 1, 1, 1) for index in range(5)]
    assert len(searched) == 5


def test_an_empty_log_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, searched = by_duration(0, monkeypatch)
    cluster.topic = cluster.topics.create("u", [[1] for _ in range(5)])
    for index in range(5):
        cluster.broker.share.partitions.persister.initialize(Place(GROUP, cluster.topic.id, index), 1)
    member = cluster.member("a", *range(5))
    assert member.fetch() is PARKED
    cluster.send("u", 4, batch(b"a"))
    ((_, answer),) = cluster.replies()
    assert acquired(answer) == [(4, 0, 0, 1)]
    assert searched == [cluster.topic.partitions[index].log for index in range(5)]


def test_partitions_that_can_be_read_again_are_no_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, searched = by_duration(5, monkeypatch)
    find = SharePartitions.find

    def moving(partitions: SharePartitions, session: object, spot: tuple[bytes, int], *_: object) -> object:
        return cluster.topic.partitions[spot[1]], PartitionError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    monkeypatch.setattr(SharePartitions, "find", moving)
    member = cluster.member("a", *range(5))
    assert [each.error_code for topic in member.fetch().responses for each in topic.partitions] == [6] * 5
    monkeypatch.setattr(SharePartitions, "find", find)
    answer = member.fetch(max_wait_ms=0)
    assert [each.error_code for topic in answer.responses for each in topic.partitions] == [0]
    assert len(searched) == 1

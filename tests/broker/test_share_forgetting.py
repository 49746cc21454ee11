"""Share groups that are deleted or have no connection any more: the broker forgets them, except for their progress."""

from __future__ import annotations

import pytest

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.broker.share_sessions import ShareSessions
from kafka_shim.groups.share import persister
from kafka_shim.groups.share.persister import Place, SharePersister, ShareState

from .context import batch
from .test_share_fetches import ACCEPT, GROUP, RELEASE, Shared, acquired, error_of


def test_a_group_that_was_deleted_is_read_on_and_writes_nothing() -> None:
    cluster = Shared()
    cluster.send("t", 0, batch(b"a"))
    member = cluster.member("a")
    assert acquired(member.fetch()) == [(0, 0, 0, 1)]
    cluster.broker.share.partitions.persister.delete(Place(GROUP, cluster.topic.id, 0))
    assert error_of(member.acknowledge((0, 0, ACCEPT))) == E.UNKNOWN_SERVER_ERROR
    cluster.send("t", 0, batch(b"b"))
    assert acquired(member.fetch()) == [(0, 1, 1, 1)]


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_group_without_connections_is_forgotten_and_begins_where_it_is_then(is_closed: bool) -> None:
    cluster = Shared(reset="latest")
    member = cluster.member("a")
    member.fetch(max_wait_ms=0)
    if is_closed:
        member.acknowledge(epoch=-1)
    cluster.send("t", 0, batch(b"a", b"b"))
    cluster.broker.disconnected(member.connection)
    other = cluster.member("b")
    assert acquired(other.fetch(max_wait_ms=0)) == []
    cluster.send("t", 0, batch(b"c"))
    assert acquired(other.fetch()) == [(0, 2, 2, 1)]
    assert error_of(other.acknowledge((2, 2, ACCEPT))) == 0


def test_a_group_with_another_connection_stays() -> None:
    cluster = Shared(reset="latest")
    one, other = cluster.member("a"), cluster.member("b")
    one.fetch(max_wait_ms=0)
    other.fetch(max_wait_ms=0)
    cluster.send("t", 0, batch(b"a"))
    cluster.broker.disconnected(one.connection)
    assert acquired(other.fetch()) == [(0, 0, 0, 1)]


@pytest.mark.parametrize("is_deleted_first", [False, True])
def test_of_deleted_groups_nothing_is_kept(is_deleted_first: bool) -> None:
    cluster = Shared()
    partitions, connection = cluster.broker.share.partitions, object()
    for number in range(3):
        place = Place(f"g{number}", cluster.topic.id, 0)
        partitions.persister.initialize(place, 1)
        member = cluster.member("a", group_id=place.group_id, connection=connection)
        member.fetch(max_wait_ms=0)
        if is_deleted_first:
            partitions.persister.delete(place)
        member.acknowledge(epoch=-1)
        if not is_deleted_first:
            assert partitions.knows(place.group_id)
            partitions.persister.delete(place)
        assert not partitions.knows(place.group_id)
    assert partitions.persister.holders == {}


def test_deletion_of_a_state_looks_at_no_other_share_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Shared(20)
    partitions = cluster.broker.share.partitions
    member = cluster.member("a", *range(20))
    member.fetch(max_wait_ms=0)
    member.acknowledge(epoch=-1)
    looks: list[Place] = []
    get = SharePersister.get

    def noted(states: SharePersister, place: Place) -> ShareState | None:
        looks.append(place)
        return get(states, place)

    monkeypatch.setattr(SharePersister, "get", noted)
    assert len(partitions.persister.holders) == 20
    for index in range(20):
        assert partitions.knows(GROUP)
        partitions.persister.delete(Place(GROUP, cluster.topic.id, index))
    assert not partitions.knows(GROUP)
    assert partitions.persister.holders == {}
    assert len(looks) <= 20


def test_all_groups_of_a_connection_are_forgotten_with_it() -> None:
    cluster = Shared()
    partitions, connection = cluster.broker.share.partitions, object()
    for number in range(3):
        partitions.persister.initialize(Place(f"g{number}", cluster.topic.id, 0), 1)
        member = cluster.member("a", group_id=f"g{number}", connection=connection)
        member.fetch(max_wait_ms=0)
        member.acknowledge(epoch=-1)
    assert len(partitions.persister.holders) == 3
    cluster.broker.disconnected(connection)
    assert partitions.persister.holders == {}


class TestStatesOnDemand:
    """States that a first use creates, as groups of other processes cannot announce them."""

    def cluster(self) -> Shared:
        cluster = Shared()
        self.persister = cluster.broker.share.partitions.persister
        self.persister.on_demand = True
        cluster.topics.settings.groups |= {f"g{number}": {"share.auto.offset.reset": "earliest"} for number in range(5)}
        cluster.send("t", 0, batch(b"a", b"b"))
        return cluster

    def kept(self, cluster: Shared) -> list[int]:
        return [each for each in range(5) if self.persister.get(Place(f"g{each}", cluster.topic.id, 0)) is not None]

    def visit(self, cluster: Shared, number: int, *acks: tuple[int, int, list[int]]) -> None:
        """Fetch and acknowledge as a member of a group, and end the connection."""
        member = cluster.member("a", group_id=f"g{number}")
        member.fetch()
        assert error_of(member.acknowledge(*acks)) == 0
        cluster.broker.disconnected(member.connection)

    def test_without_a_session_they_stay_only_with_progress(self) -> None:
        cluster = self.cluster()
        self.visit(cluster, 1, (0, 0, ACCEPT))
        member = cluster.member("a", group_id="g2")
        member.fetch(max_records=0)
        assert self.kept(cluster) == [1, 2]
        cluster.broker.disconnected(member.connection)
        assert self.kept(cluster) == [1]
        assert acquired(cluster.member("b", group_id="g1").fetch()) == [(0, 1, 1, 2)]

    def test_of_many_without_a_session_the_oldest_goes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(persister, "MOST_IDLE", 2)
        cluster = self.cluster()
        self.persister.initialize(Place("g0", cluster.topic.id, 0), 1)
        for number in (0, 1, 2, 1, 3):
            self.visit(cluster, number, (1, 1, RELEASE))
        assert self.kept(cluster) == [0, 1, 3]
        member = cluster.member("b", group_id="g1")
        member.fetch()
        self.visit(cluster, 2, (1, 1, RELEASE))
        self.visit(cluster, 4, (1, 1, RELEASE))
        assert self.kept(cluster) == [0, 1, 2, 4]

    def test_a_connection_keeps_as_many_closed_groups_as_there_are_sessions(self) -> None:
        cluster = self.cluster()
        cluster.broker.share.sessions = ShareSessions(2)
        connection = object()
        for number in range(4):
            member = cluster.member("a", group_id=f"g{number}", connection=connection)
            member.fetch(max_records=0)
            member.acknowledge(epoch=-1)
        assert self.kept(cluster) == [2, 3]
        assert [each.group_id for each in self.persister.holders] == ["g2", "g3"]

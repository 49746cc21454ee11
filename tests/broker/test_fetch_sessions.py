"""Fetch sessions (KIP-227): granted, continued, changed, refused, evicted."""

import pytest

from kafka_shim.apis.fetch import FetchResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.fetch_sessions import EVICTION_SECONDS, next_epoch
from tests.broker.context import Client, Cluster, batch, fetch_request, partitions_of, records_of


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.topics.declare("t", 4)
    return cluster


def all_four() -> list[tuple[str, int, int]]:
    return [("t", index, 0) for index in range(4)]


class TestGranted:
    def test_first_answer_names_every_partition_and_the_session(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        assert client.id > 0
        assert [index for _, index in partitions_of(client.first)] == [0, 1, 2, 3]

    def test_first_fetch_waits_like_any_other(self, cluster: Cluster) -> None:
        exchange = cluster.fetch(fetch_request(*all_four(), session_epoch=0))
        cluster.advance(0.5)
        ((answered, response),) = cluster.replies()
        assert answered == exchange
        assert response.session_id > 0
        assert len(partitions_of(response)) == 4

    def test_even_without_partitions(self, cluster: Cluster) -> None:
        assert cluster.fetch(fetch_request(session_epoch=0)).session_id > 0

    def test_not_when_the_client_wants_none(self, cluster: Cluster) -> None:
        assert cluster.fetch(fetch_request(*all_four(), session_epoch=-1, max_wait_ms=0)).session_id == 0


class TestContinued:
    def test_nothing_new_is_an_empty_answer(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        assert client.answer() == FetchResponse(session_id=client.id)

    def test_only_changed_partitions_are_notified(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        cluster.send("t", 2, batch(b"a"))
        partitions = partitions_of(client.answer())
        assert list(partitions) == [("t", 2)]
        assert records_of(partitions["t", 2].records)[0].value == b"a"

    def test_records_come_until_the_offset_moves(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        cluster.send("t", 2, batch(b"a"))
        client.answer()
        assert list(partitions_of(client.answer())) == [("t", 2)]
        assert partitions_of(client.answer(("t", 2, 1))) == {}

    def test_held_and_woken(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        exchange = client.ask(max_wait_ms=500)
        cluster.send("t", 1, batch(b"a"))
        ((answered, response),) = cluster.replies()
        assert answered == exchange
        assert list(partitions_of(response)) == [("t", 1)]

    def test_held_and_answered_with_the_same_nothing(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        responses = []
        for _ in range(3):
            client.ask(max_wait_ms=500)
            cluster.advance(0.5)
            responses += [response for _, response in cluster.replies()]
        assert responses[0] == FetchResponse(session_id=client.id)
        assert responses[0] is responses[1] is responses[2]

    def test_a_change_is_notified_once(self, cluster: Cluster) -> None:
        cluster.send("t", 0, batch(b"a"))
        client = Client(cluster, ("t", 0, 0))
        client.ask(("t", 0, 1), ("t", 1, 0))
        cluster.advance(0.5)
        ((_, first),) = cluster.replies()
        assert list(partitions_of(first)) == [("t", 1)]
        client.ask()
        cluster.advance(0.5)
        ((_, second),) = cluster.replies()
        assert partitions_of(second) == {}

    def test_errors_are_repeated_in_each_answer(self, cluster: Cluster) -> None:
        client = Client(cluster, ("t", 0, 0), ("nope", 0, 0))
        for _ in range(2):
            client.ask()
            cluster.advance(0.5)
            ((_, response),) = cluster.replies()
            partitions = partitions_of(response)
            assert [(key, data.error_code) for key, data in partitions.items()] == [(("nope", 0), 3)]

    def test_an_error_that_went_away_is_news(self, cluster: Cluster) -> None:
        client = Client(cluster, ("t", 0, 7))
        assert partitions_of(client.first)["t", 0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        data = partitions_of(client.answer(("t", 0, 0)))["t", 0]
        assert (data.error_code, data.high_watermark) == (0, 0)

    def test_partition_with_records_goes_last(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        for index in range(4):
            cluster.send("t", index, batch(b"a"))
        order = []
        for _ in range(8):
            response = client.answer(max_bytes=1)
            order += [index for (_, index), data in partitions_of(response).items() if data.records]
        assert order == [0, 1, 2, 3, 0, 1, 2, 3]

    def test_by_topic_id(self, cluster: Cluster) -> None:
        topic_id = cluster.broker.topics.topic_id("t")
        first = cluster.fetch(
            fetch_request(("", 0, 0), topic_id=topic_id, session_epoch=0, max_wait_ms=0), by_topic_id=True
        )
        cluster.send("t", 0, batch(b"a"))
        request = fetch_request(session_id=first.session_id, session_epoch=1)
        response = cluster.fetch(request, by_topic_id=True)
        assert response.responses[0].topic_id == topic_id
        assert response.responses[0].partitions[0].records

    def test_a_deleted_topic_is_an_error_and_a_new_one_of_its_name_is_not(self, cluster: Cluster) -> None:
        client = Client(cluster, ("t", 0, 0))
        cluster.topics.delete(cluster.topics.named("t"))
        assert partitions_of(client.answer())["t", 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        cluster.topics.declare("t", 1)
        assert partitions_of(client.answer())["t", 0].error_code == 0

    def test_epoch_goes_on_with_one_after_the_last(self) -> None:
        assert next_epoch(2**31 - 1) == 1


class TestChanged:
    def test_partitions_are_added(self, cluster: Cluster) -> None:
        client = Client(cluster, ("t", 0, 0))
        assert list(partitions_of(client.answer(("t", 1, 0)))) == [("t", 1)]
        cluster.send("t", 1, batch(b"a"))
        assert list(partitions_of(client.answer())) == [("t", 1)]

    def test_forgotten_partitions_are_not_notified(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        client.answer(forgotten=[("t", 1)])
        for index in range(4):
            cluster.send("t", index, batch(b"a"))
        assert [index for _, index in partitions_of(client.answer())] == [0, 2, 3]

    def test_forgotten_partitions_wake_no_fetch(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        client.ask(forgotten=[("t", 1)])
        cluster.send("t", 1, batch(b"a"))
        assert cluster.replies() == []

    def test_a_session_of_nothing_is_closed(self, cluster: Cluster) -> None:
        client = Client(cluster, ("t", 0, 0))
        assert client.answer(forgotten=[("t", 0)]) == FetchResponse()
        assert client.answer().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


class TestRefused:
    def test_unknown_session(self, cluster: Cluster) -> None:
        response = cluster.fetch(fetch_request(session_id=77, session_epoch=1))
        assert response == FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    @pytest.mark.parametrize("epoch", [2, 3])
    def test_wrong_epoch(self, cluster: Cluster, epoch: int) -> None:
        client = Client(cluster, *all_four())
        response = client.answer(session_epoch=epoch)
        assert response == FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)

    def test_the_same_epoch_twice(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        assert client.answer(session_epoch=1).error_code == 0
        assert client.answer(session_epoch=1).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH

    def test_names_in_a_session_of_ids(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        client.by_topic_id = True
        assert client.answer().error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

    def test_a_parked_fetch_that_another_overtook(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        overtaken = client.ask()
        client.ask()
        cluster.advance(0.5)
        errors = {exchange: response.error_code for exchange, response in cluster.replies()}
        assert errors.pop(overtaken) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert list(errors.values()) == [0]


class TestClosed:
    def test_by_a_full_fetch_without_session(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        cluster.fetch(fetch_request(session_id=client.id, session_epoch=-1, max_wait_ms=0))
        assert client.answer().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_by_a_new_session_of_the_same_client(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        second = cluster.fetch(fetch_request(*all_four(), session_id=client.id, session_epoch=0, max_wait_ms=0))
        assert second.session_id not in (0, client.id)
        assert client.answer().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_logs_are_let_go(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        client.ask()
        logs = [partition.log for partition in cluster.topics.named("t").partitions]
        cluster.advance(0.5)
        assert all(log.watchers for log in logs)
        cluster.fetch(fetch_request(session_id=client.id, session_epoch=-1, max_wait_ms=0))
        assert not any(log.watchers for log in logs)


class TestEvicted:
    @pytest.fixture
    def cluster(self) -> Cluster:
        cluster = Cluster(max_incremental_fetch_session_cache_slots="2")
        cluster.topics.declare("t", 4)
        return cluster

    def test_no_room_is_no_session(self, cluster: Cluster) -> None:
        clients = [Client(cluster, *all_four()) for _ in range(3)]
        assert [client.id > 0 for client in clients] == [True, True, False]
        assert len(partitions_of(clients[2].first)) == 4

    def test_no_room_and_waiting_leaves_nothing_behind(self, cluster: Cluster) -> None:
        for _ in range(5):
            cluster.fetch(fetch_request(*all_four(), session_epoch=0))
            cluster.advance(0.5)
        assert [response.session_id > 0 for _, response in cluster.replies()] == [True, True, False, False, False]
        assert len(cluster.topics.named("t").partitions[0].log.watchers) == 2

    def test_the_one_unused_for_longest(self, cluster: Cluster) -> None:
        clients = [Client(cluster, *all_four()) for _ in range(2)]
        cluster.now = EVICTION_SECONDS - 1
        clients[0].answer()
        cluster.now = EVICTION_SECONDS + 1
        assert Client(cluster, *all_four()).id > 0
        assert clients[0].answer().error_code == 0
        assert clients[1].answer().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_an_old_smaller_one_for_a_larger(self, cluster: Cluster) -> None:
        small, large = Client(cluster, ("t", 0, 0)), Client(cluster, *all_four())
        cluster.now = EVICTION_SECONDS + 1
        small.answer()
        large.answer()
        assert Client(cluster, ("t", 0, 0)).id == 0
        assert Client(cluster, ("t", 0, 0), ("t", 1, 0)).id > 0
        assert small.answer().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert large.answer().error_code == 0

    def test_a_session_counts_as_large_as_it_has_become(self, cluster: Cluster) -> None:
        grown, other = Client(cluster, ("t", 0, 0)), Client(cluster, *all_four())
        grown.answer(("t", 1, 0), ("t", 2, 0))
        cluster.now = EVICTION_SECONDS + 1
        grown.answer()
        other.answer()
        assert Client(cluster, ("t", 0, 0), ("t", 1, 0)).id == 0


class TestRoomForPartitions:
    """All sessions together have room for five partitions."""

    @pytest.fixture(autouse=True)
    def room_for_five(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kafka_shim.broker.fetch_sessions.MAX_SIZE", 5)

    def test_no_room_is_no_session(self, cluster: Cluster) -> None:
        large, small, crowded_out = (
            Client(cluster, *all_four()),
            Client(cluster, ("t", 0, 0)),
            Client(cluster, *all_four()),
        )
        assert [client.id > 0 for client in (large, small, crowded_out)] == [True, True, False]
        assert len(partitions_of(crowded_out.first)) == 4
        assert large.answer().error_code == small.answer().error_code == 0

    def test_ended_session_makes_room(self, cluster: Cluster) -> None:
        client = Client(cluster, *all_four())
        client.answer(forgotten=[("t", 1), ("t", 2)])
        assert Client(cluster, *all_four()).id == 0
        assert Client(cluster, *all_four()[:3]).id > 0
        cluster.fetch(fetch_request(session_id=client.id, session_epoch=-1, max_wait_ms=0))
        assert Client(cluster, *all_four()[:2]).id > 0

    def test_old_sessions_go_until_there_is_room(self, cluster: Cluster) -> None:
        old = [Client(cluster, ("t", index, 0)) for index in range(3)]
        cluster.now = EVICTION_SECONDS + 1
        new = Client(cluster, *all_four())
        assert [client.answer().error_code for client in [*old, new]] == [70, 70, 0, 0]

    def test_too_large_session_is_not_kept_and_evicts_none(self, cluster: Cluster) -> None:
        old = Client(cluster, ("t", 0, 0))
        cluster.now = EVICTION_SECONDS + 1
        assert Client(cluster, *all_four(), ("nope", 0, 0), ("nope", 1, 0)).id == 0
        assert old.answer().error_code == 0

    def test_session_that_grows_without_room_ends(self, cluster: Cluster) -> None:
        other, growing = Client(cluster, *all_four()[:3]), Client(cluster, ("t", 0, 0))
        assert growing.answer(("t", 1, 0)).error_code == 0
        assert growing.answer(("t", 2, 0)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert Client(cluster, ("t", 0, 0), ("t", 1, 0)).id > 0
        assert other.answer().error_code == 0

    def test_session_that_grows_takes_the_room_of_an_old_one(self, cluster: Cluster) -> None:
        old, growing = Client(cluster, *all_four()[:3]), Client(cluster, *all_four()[:2])
        cluster.now = EVICTION_SECONDS + 1
        assert growing.answer(("t", 2, 0)).error_code == 0
        assert old.answer().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_names_longer_than_a_topic_can_have_take_more_room(self, cluster: Cluster) -> None:
        assert Client(cluster, ("x" * 1500, 0, 0)).id == 0
        client = Client(cluster, ("x" * 1000, 0, 0))
        assert client.id > 0
        assert Client(cluster, ("t", 0, 0)).id == 0
        client.answer(("t", 0, 0), forgotten=[("x" * 1000, 0)])
        assert Client(cluster, *all_four()).id > 0

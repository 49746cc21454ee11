"""The coordinator's clock under a test's control, and brokers and stores that come, go and fail."""

import pytest
from kafka import KafkaConsumer, KafkaProducer

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.testing import CoordinatorServer, Manner, NotReached, polling
from tests.waiting import PATIENCE_S


def test_a_session_of_45_seconds_expires_at_once() -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        silent = server.puppet("billing", ["orders"], client_id="silent", session_timeout=45)
        server.puppet("billing", ["orders"], client_id="lively", session_timeout=45)
        group = server.group("billing")
        group.stable(members=2)
        server.clock.freeze()
        silent.silence()
        server.clock.advance(44)
        assert len(group.now.members) == 2
        server.clock.advance(1)
        assert group.next("member", change="expired")["client_id"] == "silent"
        group.stable(members=["lively"], owners={"lively": {"orders": range(4)}})


def test_timers_fire_in_time_after_an_advance() -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        server.puppet("billing", ["orders"], session_timeout=45)
        server.group("billing").stable(members=1)
        server.clock.freeze()
        server.clock.advance(3600)
        server.clock.resume()
        server.puppet("later", ["orders"])
        server.group("later").stable(members=1)


def test_committed_offsets_expire_after_a_week() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        puppet = server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        puppet.commit({("orders", 0): 7})
        server.group("billing").committed("orders", 0)
        puppet.leave()
        server.group("billing").empty()
        server.clock.freeze()
        server.clock.advance(7 * 86_400 + 600)
        assert server.group("billing").next("offsets_expired")["offsets"] == [{"topic": "orders", "partition": 0}]


def test_real_clients_continue_while_the_clock_stands() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.clock.freeze()
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=server.bootstrap, group_id="billing", auto_offset_reset="earliest"
        )
        with polling(consumer) as polled:
            server.group("billing").stable(members=1)
            producer = KafkaProducer(bootstrap_servers=server.bootstrap)
            for number in range(3):
                producer.send("orders", b"%d" % number).get(PATIENCE_S)
            assert [record.value for record in polled.wait_records(3, PATIENCE_S)] == [b"0", b"1", b"2"]
            producer.close()
            server.clock.resume()
        consumer.close()


def test_a_member_that_never_syncs_is_expelled_after_the_rebalance_timeout() -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        server.puppet("billing", ["orders"], client_id="good", rebalance_timeout=60, session_timeout=300)
        server.group("billing").stable(members=1)
        server.puppet(
            "billing", ["orders"], client_id="bad", manner=Manner(never_syncs=True), session_timeout=300,
            rebalance_timeout=60,
        )  # fmt: skip
        server.group("billing").next("round", generation=2)
        server.clock.advance(60)
        server.group("billing").next("state", cause="PENDING_SYNC_EXPIRED", to="PreparingRebalance")
        server.group("billing").stable(members=["good"])


def test_a_late_heartbeat_is_answered_unknown_member_id() -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        late = server.puppet("billing", ["orders"], session_timeout=6, manner=Manner(heartbeat_late=60))
        server.group("billing").stable(members=1)
        server.clock.advance(61)
        server.group("billing").next("exchange", api="Heartbeat", error=25)
        server.group("billing").stable(members=1)
        assert ("Heartbeat", ErrorCode.UNKNOWN_MEMBER_ID) in late.errors


def test_a_commit_of_an_old_generation_is_refused() -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        first = server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        server.puppet("billing", ["orders"])
        server.group("billing").stable(members=2)
        first.commit({("orders", 0): 9}, generation=1)
        server.group("billing").next("commit", error=22)
        assert ("OffsetCommit", ErrorCode.ILLEGAL_GENERATION) in first.errors


def test_a_member_that_joins_twice_is_still_one_member() -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        server.puppet("billing", ["orders"], client_id="eager", manner=Manner(joins_twice=True))
        server.puppet("billing", ["orders"], client_id="plain")
        assert len(server.group("billing").stable(members=["eager", "plain"]).members) == 2


def test_the_successor_of_a_static_member_fences_it() -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        old = server.puppet("billing", ["orders"], instance_id="i-1")
        server.group("billing").stable(members=["i-1"])
        server.puppet("billing", ["orders"], instance_id="i-1")
        server.group("billing").next("exchange", error=82)
        server.group("billing").stable(members=["i-1"], generation=1)
        assert old.is_fenced


def test_cooperative_members_move_the_fewest_partitions() -> None:
    with CoordinatorServer(topics={"orders": 6}) as server:
        script = {"protocols": ["cooperative-sticky"]}
        server.puppet("billing", ["orders"], client_id="a", **script)
        group = server.group("billing")
        group.stable(members=["a"], owners={"a": {"orders": range(6)}})
        server.puppet("billing", ["orders"], client_id="b", **script)
        group.next("state", cause="COOPERATIVE_FOLLOWUP")
        state = group.stable(members=2, generation=3)
        owned = sorted(len(member.owned.get("orders", ())) for member in state.members)
        assert owned == [3, 3]


# Brokers and stores


@pytest.mark.parametrize("how", ["stop_broker", "kill_broker"])
def test_a_group_outlives_its_coordinator(how: str) -> None:
    with CoordinatorServer(topics={"orders": 4}, brokers=3) as server:
        members = [server.puppet("billing", ["orders"], client_id=name) for name in "ab"]
        before = server.group("billing").stable(members=2)
        home = server.coordinator_of("billing")
        getattr(server, how)(home)
        assert server.coordinator_of("billing") != home
        server.group("billing").next("exchange", api="Heartbeat", error=0, node=lambda node: node != home)
        assert server.group("billing").stable(members=2).generation == before.generation
        server.restart_broker(home)
        server.group("billing").next("exchange", api="Heartbeat", error=0, node=home)
        assert server.group("billing").stable(members=2).generation == before.generation
        assert {member.member_id for member in members} == {member.member_id for member in before.members}


def test_a_group_moves_and_its_parked_requests_are_sent_away() -> None:
    with CoordinatorServer(topics={"orders": 4}, brokers=2) as server:
        with server.barrier("leader-sync-arrived"):
            server.puppet("billing", ["orders"], client_id="leader")
            server.group("billing").next("round", generation=1)
            other = 3 - server.coordinator_of("billing")
            server.move("billing", other)
        server.group("billing").stable(members=1)
        assert server.coordinator_of("billing") == other


def test_members_wait_while_a_partition_loads() -> None:
    with CoordinatorServer(topics={"orders": 4}, brokers=2) as server:
        server.load_takes(0.2)
        server.move("billing", 3 - server.coordinator_of("billing"))
        puppet = server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        assert ("JoinGroup", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) in puppet.errors


def test_a_commit_that_cannot_be_stored_is_refused_and_shows_nowhere() -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        puppet = server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        server.fail_store()
        puppet.commit({("orders", 0): 5})
        server.group("billing").next("exchange", api="OffsetCommit", error=15)
        with pytest.raises(NotReached, match=r"OffsetCommit of puppet is answered COORDINATOR_NOT_AVAILABLE \(15\)"):
            server.group("billing").committed("orders", 0, timeout=0.05)
        puppet.commit({("orders", 0): 6})
        assert server.group("billing").committed("orders", 0) == 6

"""The trace of a group: events, causes, rounds and the members that a round waited for."""

import pytest

from kafka_shim.apis.consumer_protocol import ConsumerProtocolAssignment, TopicPartition, assignment_to_bytes
from tests.groups.context import RANGE, subscription


def cooperative(*topics, owned=None):
    return ("cooperative-sticky", subscription(*topics, owned=owned))


def test_a_state_event_names_both_states_cause_trigger_and_rule(coordinator):
    (leader,) = coordinator.form(1)
    assert [(e["from"], e["to"], e["cause"], e["trigger"], e["rule"]) for e in coordinator.of("state")] == [
        ("Empty", "PreparingRebalance", "NEW_MEMBER", leader, "add"),
        ("PreparingRebalance", "CompletingRebalance", "NEW_MEMBER", leader, "end-round"),
        ("CompletingRebalance", "Stable", "NEW_MEMBER", leader, "assign"),
    ]
    assert [e["generation"] for e in coordinator.of("state")] == [0, 1, 1]


def test_a_round_names_its_last_members_and_their_delay(coordinator):
    leader, follower, late = coordinator.form(3, session=100_000, rebalance=10_000)
    coordinator.join(leader, rebalance=10_000)
    coordinator.advance(4000)
    coordinator.join(follower, rebalance=10_000)
    coordinator.advance(6000)
    event = coordinator.of("round")[-1]
    assert event["waited_for"] == [{"member_id": follower, "ms": 4000.0}, {"member_id": leader, "ms": 0.0}]
    assert (event["dropped"], event["members"]) == ([late], [leader, follower])
    assert event["ended"] - event["started"] == 10.0
    assert (event["leader"], event["protocol"], event["cause"]) == (leader, "range", "LEADER_REJOINED")


def test_an_assignment_is_decoded_and_the_leader_timed(coordinator):
    ids = coordinator.prepare(2)
    coordinator.end_round()
    coordinator.advance(250)
    owned = assignment_to_bytes(ConsumerProtocolAssignment([TopicPartition("topic", [0, 2])]), 0)
    coordinator.sync(ids[0], 1, {ids[0]: owned, ids[1]: b"?"})
    event = coordinator.of("assignment")[-1]
    assert event["assignments"] == {ids[0]: {"topic": [0, 2]}, ids[1]: 1}
    assert event["leader_ms"] == 250.0


def test_members_come_and_go_in_the_trace(coordinator):
    ids = coordinator.form(instances=["a", "b"])
    again = coordinator.join(instance="b").member_id
    coordinator.left(("", "a"))
    coordinator.advance(60_000)
    assert [(e["member_id"], e["change"]) for e in coordinator.of("member")] == [
        (ids[0], "added"),
        (ids[1], "added"),
        (ids[1], "fenced"),
        (again, "replaced"),
        (ids[0], "removed"),
        (again, "expired"),
    ]


def test_pending_ids_show_with_their_client(coordinator):
    pending = coordinator.join().member_id
    coordinator.advance(10_000)
    assert [(e["member_id"], e["change"], e["client_host"]) for e in coordinator.of("member")] == [
        (pending, "pending", "/127.0.0.1"),
        (pending, "expired", ""),
    ]


def test_heartbeats_leave_no_timer_events(coordinator):
    _, follower = coordinator.form()
    before = len(coordinator.events)
    for _ in range(5):
        coordinator.advance(3000)
        for member_id in coordinator.group.members:
            coordinator.heartbeat(member_id, 1)
    assert len(coordinator.events) == before
    coordinator.advance(10_000)
    assert follower in [e["member_id"] for e in coordinator.of("timer") if e["change"] == "fired"]


def test_no_event_is_built_without_a_listener(coordinator):
    coordinator.outbox.listening = coordinator.outbox.tracing = False
    coordinator.events.clear()
    coordinator.leave(*coordinator.form())
    assert coordinator.events == []


@pytest.mark.parametrize(
    ("who", "protocol", "cause"),
    [
        (0, RANGE, "LEADER_REJOINED"),
        (1, ("range", subscription("topic", "more")), "SUBSCRIPTION_CHANGED"),
        (0, ("range", subscription("topic", "more")), "SUBSCRIPTION_CHANGED"),
        (0, ("range", subscription("topic", owned={"topic": [0]})), "LEADER_REJOINED"),
        (1, ("range", subscription("topic", owned={"topic": [0]})), "SUBSCRIPTION_CHANGED"),
        (1, ("range", b""), "SUBSCRIPTION_CHANGED"),
    ],
)
def test_a_rejoin_has_its_cause(coordinator, who, protocol, cause):
    ids = coordinator.form()
    coordinator.join(ids[who], protocol)
    assert coordinator.causes()[-1] == cause


@pytest.mark.parametrize("who", [0, 1])
def test_a_cooperative_member_that_gave_partitions_up_follows_up(coordinator, who):
    before = cooperative("topic", owned={"topic": [0, 1, 2]})
    replies = [coordinator.join("", before, version=3) for _ in range(2)]
    coordinator.end_round()
    ids = [reply.member_id for reply in replies]
    coordinator.sync_all(ids)
    coordinator.join(ids[who], cooperative("topic", owned={"topic": [0]}))
    assert coordinator.causes()[-1] == "COOPERATIVE_FOLLOWUP"


def test_other_protocol_types_are_not_looked_into(coordinator):
    replies = [coordinator.join("", ("eager", b"1"), version=3, protocol_type="connect") for _ in range(2)]
    coordinator.end_round()
    ids = [reply.member_id for reply in replies]
    coordinator.sync(ids[0], 1, {ids[0]: b"12345"}, protocol_type="connect", protocol_name="eager")
    coordinator.join(ids[1], ("eager", b"2"), protocol_type="connect")
    assert coordinator.causes()[-1] == "SUBSCRIPTION_CHANGED"
    assert coordinator.of("assignment")[-1]["assignments"] == {ids[0]: 5, ids[1]: 0}

"""One connection's conversation, without a socket."""

import logging
from math import inf
from typing import Any

import pytest

from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_shim.apis.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_shim.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_request_header
from kafka_shim.server.remembered.fetches import RememberedFetch
from kafka_shim.server.session import WAITING_BYTES, client_host
from tests.server.wire import Wire, cluster, read, request


def join(member_id: str = "", session_timeout_ms: int = 30_000) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="billing",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"")],
    )


def in_group(wire: Wire, now: float = 100.0) -> str:
    """Make the connection's client the one member of a stable group; return its member id."""
    wire.receive(request(join(), 2), now)
    wire.cluster.ticks.fire(now + 0.1)
    _, joined = wire.answer(JoinGroupResponse, 2)
    wire.receive(request(SyncGroupRequest("billing", joined.generation_id, joined.member_id), 1), now)
    assert wire.answer(SyncGroupResponse, 1)[1].error_code == 0
    return joined.member_id


def heartbeat(member_id: str, correlation_id: int, generation: int = 1) -> bytes:
    return request(HeartbeatRequest("billing", generation, member_id), 4, correlation_id)


async def test_requests_sent_together_are_answered_in_their_order() -> None:
    wire = Wire(cluster())
    wire.receive(
        request(ApiVersionsRequest(), 0, 1) + request(ListGroupsRequest(), 0, 2) + request(ListGroupsRequest(), 4, 3)
    )
    first, second, third = wire.answers()
    assert read(first, ApiVersionsResponse, 0)[0] == 1
    assert read(second, ListGroupsResponse, 0)[0] == 2
    assert read(third, ListGroupsResponse, 4)[0] == 3


async def test_a_request_may_come_byte_by_byte() -> None:
    wire = Wire(cluster())
    whole = request(ListGroupsRequest(), 4, 77)
    for position in range(len(whole)):
        assert wire.sent == b""
        wire.receive(whole[position : position + 1])
    assert wire.answer(ListGroupsResponse, 4)[0] == 77


async def test_later_requests_wait_while_one_is_parked() -> None:
    wire = Wire(cluster(group_initial_rebalance_delay_ms="1000"))
    wire.receive(request(join(), 2, 1))
    wire.receive(request(ListGroupsRequest(), 0, 2))
    assert wire.answers() == []
    wire.cluster.ticks.fire(101.5)
    first, second = wire.answers()
    assert read(first, JoinGroupResponse, 2)[0] == 1
    assert read(second, ListGroupsResponse, 0)[0] == 2


async def test_the_end_of_a_client_waits_for_the_answers_to_its_requests() -> None:
    wire = Wire(cluster(group_initial_rebalance_delay_ms="1000"))
    wire.receive(request(join(), 2, 1))
    wire.receive(request(ListGroupsRequest(), 0, 2))
    # Its transport may report the end twice.
    wire.session.end()
    wire.session.end()
    assert not wire.is_closed
    wire.cluster.ticks.fire(101.5)
    assert wire.is_closed
    first, second = wire.answers()
    assert read(first, JoinGroupResponse, 2)[0] == 1
    assert read(second, ListGroupsResponse, 0)[0] == 2


async def test_the_end_of_a_client_waits_for_a_parked_request_alone() -> None:
    wire = Wire(cluster(group_initial_rebalance_delay_ms="1000"))
    wire.receive(request(join(), 2, 1))
    wire.session.end()
    wire.cluster.ticks.fire(101.5)
    assert wire.answer(JoinGroupResponse, 2)[0] == 1
    assert wire.is_closed


async def test_the_end_of_a_client_waits_until_it_has_read() -> None:
    wire = Wire(cluster())
    wire.takes_all = False
    wire.receive(request(ListGroupsRequest(), 0, 1))
    wire.session.end()
    assert not wire.is_closed
    wire.drained()
    assert wire.is_closed


async def test_a_client_ends_at_once_inside_a_request() -> None:
    wire = Wire(cluster())
    wire.receive(request(ListGroupsRequest(), 0, 1)[:-1])
    wire.session.end()
    assert wire.is_closed
    assert wire.sent == b""


async def test_reading_stops_at_a_limit_while_a_request_is_parked() -> None:
    wire = Wire(cluster(group_initial_rebalance_delay_ms="1000"))
    wire.receive(request(join(), 2))
    small = request(ListGroupsRequest(), 0, 2)
    while not wire.is_paused:
        wire.receive(small * 100)
        assert wire.session.waiting_bytes < 2 * WAITING_BYTES
    wire.cluster.ticks.fire(101.5)
    assert not wire.is_paused
    assert len(wire.answers()) > 1000


async def test_nothing_more_is_served_until_the_client_reads() -> None:
    wire = Wire(cluster())
    wire.takes_all = False
    wire.receive(request(ListGroupsRequest(), 0, 1) + request(ListGroupsRequest(), 0, 2))
    assert len(wire.answers()) == 1
    wire.receive(request(ListGroupsRequest(), 0, 3))
    assert wire.answers() == []
    wire.drained()
    assert [read(each, ListGroupsResponse, 0)[0] for each in wire.answers()] == [2, 3]


async def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest_form() -> None:
    wire = Wire(cluster())
    wire.receive(frame(b"\x00\x12\x00\x63\x00\x00\x00\x07\xff\xff and what nobody knows"))
    # size, correlation id, error 35, one key: 18, versions 0 to 5
    assert wire.sent.hex() == "0000001000000007002300000001001200000005"
    assert not wire.is_closed


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (frame(encode_request_header(12, 9, 1, "x")), "client 'x' asks for HEARTBEAT version 9, which is not served"),
        (frame(encode_request_header(12, -1, 1, "x")), "client 'x' asks for HEARTBEAT version -1, which is not served"),
        (
            frame(encode_request_header(999, 0, 1, "x")),
            "client 'x' asks for API key 999 version 0, which is not served",
        ),
        (frame(b"\x00\x0c\x00"), "a request of 3 bytes"),
        (frame(b""), "a request of 0 bytes"),
        (frame(encode_request_header(12, 4, 1, "x") + b"\x7fabc"), "malformed Heartbeat request, version 4"),
        (frame(b"\x00\x0c\x00\x00\x00\x00\x00\x01\x7f\xff"), "malformed Heartbeat request, version 0"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
    ],
)
async def test_invalid_bytes_end_the_connection_and_the_log_says_why(
    sent: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire(cluster())
    with caplog.at_level(logging.WARNING, "kafka_shim.server"):
        wire.receive(sent)
    assert wire.is_closed
    assert wire.sent == b""
    (record,) = caplog.records
    assert "127.0.0.1:1" in record.message
    assert reason in record.message


async def test_requests_before_a_bad_frame_are_still_answered() -> None:
    wire = Wire(cluster())
    wire.receive(request(ListGroupsRequest(), 0, 5) + b"\xff\xff\xff\xff")
    assert wire.answer(ListGroupsResponse, 0)[0] == 5
    assert wire.is_closed


async def test_a_failing_rule_is_answered_and_the_connection_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire(cluster())
    wire.receive(request(ListGroupsRequest(), 4))
    wire.answers()
    endpoint = next(iter(wire.session.node.table.endpoints.values()))
    rule, endpoint.rule = endpoint.rule, lambda request, call: 1 / 0
    with caplog.at_level(logging.CRITICAL):
        wire.receive(request(ListGroupsRequest(), 4, 8))
    endpoint.rule = rule
    assert wire.answer(ListGroupsResponse, 4) == (8, ListGroupsResponse(error_code=-1))
    wire.receive(request(ListGroupsRequest(), 4, 9))
    assert wire.answer(ListGroupsResponse, 4)[1].error_code == 0


# The same request again and again


async def test_a_repeated_heartbeat_goes_to_the_same_rule() -> None:
    shared = cluster()
    wire, other, third = Wire(shared), Wire(shared), Wire(shared)
    member_id = in_group(wire)
    for correlation_id in (5, 6, -7):
        wire.receive(heartbeat(member_id, correlation_id))
        assert wire.answer(HeartbeatResponse, 4) == (correlation_id, HeartbeatResponse(0, 0))
    other.receive(request(join(), 2))
    wire.receive(heartbeat(member_id, 8))
    assert wire.answer(HeartbeatResponse, 4) == (8, HeartbeatResponse(0, 27))
    third.receive(request(LeaveGroupRequest("billing", members=[MemberIdentity(member_id)]), 4))
    wire.receive(heartbeat(member_id, 9))
    assert wire.answer(HeartbeatResponse, 4) == (9, HeartbeatResponse(0, 25))


async def test_a_heartbeat_that_differs_is_another_one() -> None:
    wire = Wire(cluster())
    member_id = in_group(wire)
    wire.receive(heartbeat(member_id, 1))
    wire.answers()
    wire.receive(heartbeat(member_id, 2, generation=2))
    assert wire.answer(HeartbeatResponse, 4) == (2, HeartbeatResponse(0, 22))
    wire.receive(heartbeat(member_id, 3) + heartbeat(member_id, 4))
    assert [read(each, HeartbeatResponse, 4)[0] for each in wire.answers()] == [3, 4]
    half = heartbeat(member_id, 5)
    wire.receive(half[:20])
    wire.receive(half[20:])
    assert wire.answer(HeartbeatResponse, 4) == (5, HeartbeatResponse(0, 0))


async def test_a_repeated_heartbeat_renews_the_session() -> None:
    wire = Wire(cluster())
    member_id = in_group(wire, 100.0)
    for now in range(110, 300, 10):
        wire.cluster.ticks.fire(now)
        wire.receive(heartbeat(member_id, now), now)
        assert wire.answer(HeartbeatResponse, 4)[1].error_code == 0
    wire.cluster.ticks.fire(400)
    wire.receive(heartbeat(member_id, 1), 400)
    assert wire.answer(HeartbeatResponse, 4)[1].error_code == 25


def fetch(version: int, session_id: int, epoch: int, correlation_id: int, max_wait_ms: int = 500) -> bytes:
    topics = [FetchTopic("orders", bytes(16), [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)])]
    return request(
        FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=session_id,
            session_epoch=epoch,
            topics=topics if epoch <= 0 else [],
        ),
        version,
        correlation_id,
    )


@pytest.mark.parametrize("version", [7, 11, 12])
async def test_the_epoch_of_a_repeated_fetch_counts(version: int) -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    wire.receive(fetch(version, 0, 0, 1, max_wait_ms=0))
    _, opened = wire.answer(FetchResponse, version)
    assert opened.session_id != 0
    for epoch in (1, 2, 3):
        wire.receive(fetch(version, opened.session_id, epoch, 10 + epoch))
        assert wire.answers() == []
        wire.cluster.ticks.fire(100.6)
        assert wire.answer(FetchResponse, version) == (10 + epoch, FetchResponse(session_id=opened.session_id))
    # An epoch twice is one too many (71), whether or not the bytes were seen before.
    wire.receive(fetch(version, opened.session_id, 3, 20))
    assert wire.answer(FetchResponse, version)[1].error_code == 71


@pytest.mark.parametrize("version", [4, 11])
async def test_a_repeated_fetch_without_a_session_is_held_every_time(version: int) -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    for correlation_id in range(1, 5):
        now = 100.0 + correlation_id
        wire.receive(fetch(version, 0, -1, correlation_id), now)
        wire.cluster.ticks.fire(now + 0.4)
        assert wire.answers() == []
        wire.cluster.ticks.fire(now + 0.5)
        found, response = wire.answer(FetchResponse, version)
        assert found == correlation_id
        assert response.responses[0].partitions[0].high_watermark == 0


async def test_only_a_fetch_that_will_be_repeated_is_remembered() -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    moved = [FetchTopic("orders", bytes(16), [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=900)])]
    gone = [ForgottenTopic("orders", partitions=[5])]

    def ask(wait_ms: int, session_id: int, epoch: int, **changes: Any) -> Any:
        fields = {"max_wait_ms": wait_ms, "min_bytes": 1, "session_id": session_id, "session_epoch": epoch}
        wire.receive(request(FetchRequest(**fields, **changes), 11))
        return None if wait_ms else wire.answer(FetchResponse, 11)[1]

    session_id = ask(0, 0, 0, topics=moved).session_id
    assert ask(0, session_id, 1, topics=moved).error_code == 0
    assert ask(0, session_id, 2, forgotten_topics_data=gone).error_code == 0
    assert ask(0, 0, -1, topics=moved).error_code == 0
    assert not wire.session.remembered
    assert ask(0, session_id, 3).error_code == 0
    ask(500, 0, -1, topics=moved)
    assert [type(each) for each in wire.session.remembered.values()] == [RememberedFetch] * 2


async def test_a_lost_connection_takes_its_fetch_with_it() -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    wire.receive(fetch(11, 0, -1, 1))
    assert wire.cluster.nodes[1].broker.next_deadline() < inf
    wire.close()
    assert wire.cluster.nodes[1].broker.next_deadline() == inf
    wire.cluster.ticks.fire(101.0)
    assert wire.sent == b""


async def test_a_member_with_a_lost_connection_stays_until_its_session_ends() -> None:
    shared = cluster()
    wire, other = Wire(shared), Wire(shared)
    in_group(wire)
    wire.close()
    other.receive(request(ListGroupsRequest(), 4))
    assert other.answer(ListGroupsResponse, 4)[1].groups[0].group_state == "Stable"
    shared.ticks.fire(140.0)
    other.receive(request(ListGroupsRequest(), 4))
    assert other.answer(ListGroupsResponse, 4)[1].groups[0].group_state == "Empty"


@pytest.mark.parametrize(
    ("address", "spelled"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.7", "/10.0.0.7"),
        ("fe80::12:a%eth0", "/fe80:0:0:0:0:0:12:a"),
    ],
)
def test_addresses_are_spelled_as_java_does(address: str, spelled: str) -> None:
    assert client_host((address, 1234)) == spelled

"""Cases about malformed frames, and about the order of answers to well-formed ones."""

from __future__ import annotations

import struct

from kafka_shim.apis.api_versions import ApiVersionsRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.metadata import MetadataRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.member import user_metadata
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level
from kafka_shim.conformance.wire import Connection, header

SOURCE = "proved on Apache Kafka 4.2"


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def heartbeat(group: bytes, member: bytes = b"\x00\x01m") -> bytes:
    """Return the body of a Heartbeat v0 from the bytes of its strings."""
    return group + struct.pack(">i", 1) + member


def request(
    key: int, version: int, body: bytes, *, flexible: bool = False, client_id: str | None = "conformance"
) -> bytes:
    return header(key, version, 5, client_id, flexible=flexible) + body


def refuses(t: Trial, data: bytes, what: str, *, framed: bool = True) -> None:
    """Check that the target closes the connection without an answer, and still serves others."""
    wire = t.connect("broken")
    if framed:
        wire.send_frame(data, what)
    else:
        wire.send_bytes(data, what)
    t.check(wire.wait_closed(), f"{what}: answered instead of closed")
    t.expect(t.call(ApiVersionsRequest(), 0), error_code=0)


def answers(t: Trial, data: bytes, what: str) -> bytes:
    """Send a frame; return the body of the answer."""
    wire = t.connect("odd")
    wire.send_frame(data, what)
    answer = wire.receive_frame()
    t.equal(answer[:4], struct.pack(">i", 5), f"{what}: the correlation id")
    return answer[4:]


@case("wire/key/1", "A request of an API that does not exist closes the connection", source=SOURCE)
def unknown_key(t: Trial) -> None:
    for key in (999, -1, 32767):
        refuses(t, request(key, 0, b""), f"API key {key}")


@case("wire/key/2", "A version that is not advertised closes the connection", source="semantics 1; " + SOURCE)
def unknown_version(t: Trial) -> None:
    for key in (8, 9, 10, 11, 12, 13, 14, 15, 16, 42):
        if key in t.peer.versions:
            newest = t.peer.versions[key][1]
            refuses(t, request(key, newest + 1, b"\0" * 64, flexible=True), f"API key {key} version {newest + 1}")


@case("wire/key/3", "A negative version closes the connection", source=SOURCE, level=Level.SHOULD)
def negative_version(t: Trial) -> None:
    refuses(t, request(12, -1, heartbeat(text("g"))), "Heartbeat version -1")


@case("wire/body/1", "A body that ends too soon closes the connection", source=SOURCE)
def truncated(t: Trial) -> None:
    body = heartbeat(text("g"))
    for length in range(len(body)):
        refuses(t, request(12, 0, body[:length]), f"Heartbeat v0 of {length} bytes")


@case("wire/body/2", "Bytes after a body are ignored", source=SOURCE, level=Level.SHOULD)
def trailing(t: Trial) -> None:
    t.equal(len(answers(t, request(12, 0, heartbeat(text("g")) + b"xyz"), "trailing bytes")), 2, "length of the answer")


@case("wire/body/3", "Null where a string must be closes the connection", source=SOURCE)
def null_string(t: Trial) -> None:
    refuses(t, request(12, 0, heartbeat(b"\xff\xff")), "a null group id")
    refuses(t, request(12, 0, heartbeat(text("g"), b"\xff\xff")), "a null member id")
    flexible = b"\x00" + struct.pack(">i", 1) + b"\x02m\x00\x00"
    refuses(t, request(12, 4, flexible, flexible=True), "a null compact group id")


@case("wire/body/4", "A string that ends beyond the frame closes the connection", source=SOURCE)
def long_string(t: Trial) -> None:
    refuses(t, request(12, 0, struct.pack(">h", 30_000) + b"g"), "a string of 30000 bytes that has one")
    refuses(t, request(12, 4, b"\xff\x7fg", flexible=True), "a compact string beyond the frame")


@case("wire/body/5", "A string of negative length closes the connection", source=SOURCE)
def negative_string(t: Trial) -> None:
    refuses(t, request(12, 0, heartbeat(struct.pack(">h", -16))), "a string of length -16")


def join_body(protocols: bytes) -> bytes:
    return text("g") + struct.pack(">i", 10_000) + text("") + text("consumer") + protocols


@case(
    "wire/array/1",
    "An array that promises more than the frame holds closes the connection, and takes no memory",
    source=SOURCE,
)
def huge_array(t: Trial) -> None:
    for count in (2**31 - 1, 10_000_000, 2):
        refuses(t, request(11, 0, join_body(struct.pack(">i", count))), f"an array of {count}")


@case("wire/array/2", "A null or negative array where there must be one closes the connection", source=SOURCE)
def null_array(t: Trial) -> None:
    for count in (-1, -2, -(2**31)):
        refuses(t, request(11, 0, join_body(struct.pack(">i", count))), f"an array of {count}")


def flexible_join(protocols: bytes) -> bytes:
    return b"\x02g" + struct.pack(">ii", 10_000, 10_000) + b"\x01\x00\x09consumer" + protocols + b"\x00"


@case(
    "wire/array/3",
    "A compact array that is null, huge or of a length that never ends closes the connection",
    source=SOURCE,
)
def compact_array(t: Trial) -> None:
    for name, count in (("null", b"\x00"), ("huge", b"\xff\xff\xff\xff\x0f"), ("endless", b"\xff" * 10 + b"\x01")):
        refuses(t, request(11, 6, flexible_join(count), flexible=True), f"a {name} compact array")


@case(
    "wire/bytes/1",
    "Bytes that end beyond the frame, or are null where there must be some, close the connection",
    source=SOURCE,
)
def long_bytes(t: Trial) -> None:
    one = struct.pack(">i", 1) + text("range")
    refuses(t, request(11, 0, join_body(one + struct.pack(">i", 1000) + b"ab")), "bytes beyond the frame")
    refuses(t, request(11, 0, join_body(one + struct.pack(">i", -1))), "null metadata")


@case("wire/tags/1", "Unknown tagged fields are ignored, in header and body", source="KIP-482; " + SOURCE)
def unknown_tags(t: Trial) -> None:
    body = b"\x02g" + struct.pack(">i", 1) + b"\x02m\x00"
    tag = b"\x01\x2a\x03abc"
    head = header(12, 4, 5, "conformance", flexible=False)
    expected = answers(t, head + b"\x00" + body + b"\x00", "no tag")
    t.equal(answers(t, head + b"\x00" + body + tag, "a tag in the body"), expected, "the answer")
    t.equal(answers(t, head + tag + body + b"\x00", "a tag in the header"), expected, "the answer")


@case("wire/text/1", "Text that is not UTF-8 is no reason to close", source=SOURCE, level=Level.MAY)
def not_utf8(t: Trial) -> None:
    answer = answers(t, request(12, 0, heartbeat(b"\x00\x02\xff\xfe")), "a group id that is no text")
    t.equal(len(answer), 2, "length of the answer")


@case("wire/header/1", "A header that ends too soon closes the connection", source=SOURCE)
def short_header(t: Trial) -> None:
    for length in range(8):
        refuses(t, struct.pack(">hhi", 12, 0, 1)[:length], f"a header of {length} bytes")


@case("wire/header/2", "A null client id is a client id like another", source=SOURCE)
def null_client(t: Trial) -> None:
    answer = answers(t, request(12, 0, heartbeat(text("g")), client_id=None), "a null client id")
    t.equal(len(answer), 2, "length of the answer")


@case("wire/header/3", "Every correlation id comes back unchanged", source="semantics 1")
def correlation(t: Trial) -> None:
    wire = t.connect()
    for number in (0, -1, 2**31 - 1, -(2**31)):
        wire.send_frame(header(12, 0, number, "c", flexible=False) + heartbeat(text("g")), f"correlation id {number}")
        t.equal(wire.receive_frame()[:4], struct.pack(">i", number), "the correlation id")


@case("wire/frame/1", "A frame of size zero or less closes the connection", source=SOURCE)
def no_size(t: Trial) -> None:
    for size in (0, -1, -(2**31)):
        refuses(t, struct.pack(">i", size), f"a frame of size {size}", framed=False)


@case("wire/frame/2", "A frame above the limit closes the connection before it has come", source=SOURCE)
def too_large(t: Trial) -> None:
    for size in (t.limits.request_max_bytes + 1, 2**31 - 1):
        refuses(t, struct.pack(">i", size), f"a frame of size {size}", framed=False)


@case("wire/frame/3", "Another protocol's first bytes close the connection", source=SOURCE)
def other_protocol(t: Trial) -> None:
    refuses(t, b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "an HTTP request", framed=False)
    refuses(t, bytes.fromhex("1603010200010001fc0303") + bytes(100), "a TLS hello", framed=False)


@case("wire/frame/4", "A frame may come byte by byte", source="semantics 8.2")
def byte_by_byte(t: Trial) -> None:
    wire = t.connect("slow")
    frame = request(12, 0, heartbeat(text("g")))
    for byte in struct.pack(">i", len(frame)) + frame:
        wire.send_bytes(bytes([byte]), "one byte")
    t.equal(wire.receive_frame()[:4], struct.pack(">i", 5), "the correlation id")


@case("wire/frame/5", "Many frames may come in one piece, and are answered in order", source="semantics 8.2")
def pipelined(t: Trial) -> None:
    wire = t.connect("fast")
    frames = [header(12, 0, n, "c", flexible=False) + heartbeat(text("g")) for n in range(200)]
    wire.send_bytes(b"".join(struct.pack(">i", len(each)) + each for each in frames), "200 heartbeats")
    numbers = [struct.unpack(">i", wire.receive_frame()[:4])[0] for _ in frames]
    t.equal(numbers, list(range(200)), "correlation ids")


@case("wire/frame/6", "Half a frame does not hold up other connections", source="semantics 8.2")
def half(t: Trial) -> None:
    wire = t.connect("half")
    frame = request(12, 0, heartbeat(text("g")))
    wire.send_bytes(struct.pack(">i", len(frame)) + frame[:7], "half a frame")
    t.expect(t.call(ApiVersionsRequest(), 0), error_code=0)
    t.check(wire.is_silent(), "half a frame was answered")
    wire.send_bytes(frame[7:], "the other half")
    t.equal(wire.receive_frame()[:4], struct.pack(">i", 5), "the correlation id")


@case("wire/frame/7", "A connection that breaks in the middle of a frame is forgotten", source="semantics 8.2")
def broken_off(t: Trial) -> None:
    for _ in range(5):
        wire = t.connect("gone")
        wire.send_bytes(struct.pack(">i", 100) + b"half", "half a frame")
        wire.reset()
    t.expect(t.call(ApiVersionsRequest(), 0), error_code=0)


@case("wire/order/1", "Answers come in the order of the requests, even if one takes longer", source="semantics 8.2")
def in_order(t: Trial) -> None:
    wire = t.connect()
    for number in range(30):
        if number % 2:
            wire.send(MetadataRequest(None), t.version_of("Metadata"))
        else:
            wire.send(HeartbeatRequest(t.group, 1, "nobody"), 0)
    for _ in range(30):
        wire.receive()


@case("wire/order/2", "Requests after a parked JoinGroup are answered after it", source="semantics 8.2")
def behind_a_parked_join(t: Trial) -> None:
    (leader,) = t.stable(1)
    second = t.member()
    second.send_join()
    t.await_members(2)
    second.wire.send(HeartbeatRequest(t.group, 1, "nobody"), 0)
    t.describe()
    t.parked(second, "a JoinGroup waits before it")
    leader.send_join()
    t.expect(second.receive_join(), error_code=0, generation_id=2)
    t.expect(second.wire.receive(), error_code=E.UNKNOWN_MEMBER_ID)


@case(
    "wire/order/3",
    "Join, sync, heartbeat and leave sent in one go are handled in that order",
    source="semantics 8.2",
    api="JoinGroup",
    versions=(0, 3),
)
def whole_life(t: Trial) -> None:
    member = t.member()
    member.join()
    wire = member.wire
    wire.send(member.sync_request({member: b"all"}), t.version_of("SyncGroup"))
    wire.send(HeartbeatRequest(t.group, 1, member.id), 0)
    wire.send(HeartbeatRequest(t.group, 2, member.id), 0)
    t.expect(wire.receive(), error_code=0, assignment=b"all")
    t.expect(wire.receive(), error_code=0)
    t.expect(wire.receive(), error_code=E.ILLEGAL_GENERATION)


@case(
    "wire/order/4",
    "A connection that closes while its JoinGroup waits leaves the member in the group",
    source="semantics 2.7",
)
def closes_while_parked(t: Trial) -> None:
    leader, follower = t.stable(2)
    follower.protocols = (("range", user_metadata(b"changed")),)
    follower.send_join()
    t.await_state("PreparingRebalance")
    follower.wire.reset()
    leader.send_join()
    response = leader.receive_join()
    t.equal({each.member_id for each in response.members}, {leader.id, follower.id}, "members in the leader's answer")


def join_of(size: int, group: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group, 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", bytes(size))]
    )


@case("wire/size/1", "A JoinGroup with a megabyte of metadata is handled", source="semantics 2.2", level=Level.SHOULD)
def megabyte(t: Trial) -> None:
    size = min(1_000_000, t.limits.request_max_bytes // 2)
    answer = t.connect().call(join_of(size, t.group), 0)
    t.expect(answer, error_code=0)
    t.equal(len(answer.members[0].metadata), size, "length of the metadata in the leader's answer")


def many_connections(t: Trial, count: int) -> list[Connection]:
    return [t.connect(f"idle{n}") for n in range(count)]


@case("wire/idle/1", "A hundred silent connections disturb no other client", source="semantics 8.2", level=Level.SHOULD)
def idle(t: Trial) -> None:
    many_connections(t, 100)
    (member,) = t.stable(1)
    t.equal(member.heartbeat(), 0, "a heartbeat")


@case(
    "wire/throttle/1",
    "A client without a quota is not throttled",
    source="semantics 1",
    api="Heartbeat",
    versions=(1, 4),
)
def no_throttle(t: Trial) -> None:
    t.expect(t.call(HeartbeatRequest(t.group, 1, "nobody")), throttle_time_ms=0)

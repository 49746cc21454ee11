"""Cases about SASL on a connection: the order of requests, refusals with text and delay, frames without headers."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from kafka_shim.apis.api_versions import ApiVersionsRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.sasl_authenticate import SaslAuthenticateRequest
from kafka_shim.apis.sasl_handshake import SaslHandshakeRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance import sasl, tokens
from kafka_shim.conformance.case import case
from kafka_shim.conformance.targets.secured import FAILURE_DELAY_MS, LOGIN, MAX_FRAME, MECHANISMS, PASSWORDS, SECURITY
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.wire import Connection, header

USER, PASSWORD = next(iter(PASSWORDS.items()))
RIGHT = tokens.plain(USER, PASSWORD)
WRONG = tokens.plain(USER, "wrong")
REFUSED = "Authentication failed: Invalid username or password"
AFTER_COMPLETION = "SaslAuthenticate request received after successful authentication"

sasl_case = partial(case, source="semantics 6.4", profile=SECURITY)


def heartbeat(group: str) -> HeartbeatRequest:
    return HeartbeatRequest(group, 1, "nobody")


def is_open(t: Trial, wire: Connection) -> None:
    """Check that a request is served."""
    # The users of PLAIN have no ACLs; a plain connection may do everything.
    served = {E.GROUP_AUTHORIZATION_FAILED, E.UNKNOWN_MEMBER_ID}
    t.expect(wire.call(heartbeat(t.group), t.peer.newest("Heartbeat")), error_code=served)


def closes(t: Trial, wire: Connection) -> None:
    """Check that the target closes the connection and sends nothing before."""
    t.check(wire.wait_closed(), "the target sent bytes where it must only close the connection")


def only_after_delay(t: Trial, happen: Callable[[], object]) -> None:
    """Check that something does not happen before the delay of a failed authentication."""
    began = time.monotonic()
    happen()
    elapsed = (time.monotonic() - began) * 1000
    t.check(elapsed >= FAILURE_DELAY_MS * 0.95, f"it came after {elapsed:.0f} ms, must wait {FAILURE_DELAY_MS} ms")


def at_once(t: Trial, happen: Callable[[], object]) -> None:
    """Check that something happens before the delay of a failed authentication is over."""
    t.is_timed = True
    began = time.monotonic()
    happen()
    elapsed = (time.monotonic() - began) * 1000
    t.check(elapsed < FAILURE_DELAY_MS * 0.95, f"it came after {elapsed:.0f} ms, must come at once")


def refused(t: Trial, token: bytes, text: str, mechanism: str = "PLAIN") -> None:
    """Check that a first token is refused late, with a text, and the connection closed."""
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, mechanism), error_code=0)

    def receive() -> None:
        answer = sasl.authenticate(wire, token)
        t.expect(answer, error_code=E.SASL_AUTHENTICATION_FAILED, error_message=text, auth_bytes=b"")

    only_after_delay(t, receive)
    closes(t, wire)


@sasl_case("sasl/first/1", "A request before authentication ends the connection at once, without answer and effect")
def request_first(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    join = JoinGroupRequest(t.group, 30_000, 30_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    wire.send(join, t.peer.newest("JoinGroup"))
    at_once(t, lambda: closes(t, wire))
    t.equal(t.describe().group_state, "Dead", "the state of the group")


@sasl_case("sasl/first/2", "SaslAuthenticate without a handshake ends the connection without an answer")
def token_first(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    wire.send(SaslAuthenticateRequest(RIGHT), 2)
    closes(t, wire)


@sasl_case("sasl/first/3", "An unknown API key before authentication ends the connection without an answer")
def unknown_key_first(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    wire.send_frame(header(9_999, 0, 1, "c", flexible=False))
    closes(t, wire)


@sasl_case("sasl/versions/1", "ApiVersions before authentication lists what it lists on a plain listener")
def versions_first(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    version = t.peer.newest("ApiVersions")
    request = ApiVersionsRequest("suite", "1")
    before = t.expect(wire.call(request, version), error_code=0)
    plain = t.call(request, version)
    t.equal(
        sorted((each.api_key, each.min_version, each.max_version) for each in before.api_keys),
        sorted((each.api_key, each.min_version, each.max_version) for each in plain.api_keys),
        "the list of APIs",
    )
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=0)
    t.expect(sasl.authenticate(wire, RIGHT), error_code=0)
    is_open(t, wire)


@sasl_case("sasl/versions/2", "A second ApiVersions after a good one ends the connection at once")
def versions_twice(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(wire.call(ApiVersionsRequest("suite", "1"), 3), error_code=0)
    wire.send(ApiVersionsRequest("suite", "1"), 3)
    at_once(t, lambda: closes(t, wire))


@sasl_case("sasl/versions/3", "An unknown version of ApiVersions is 35 in the oldest form, and a client may try again")
def versions_unknown(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    for _ in range(2):
        wire.send_frame(header(18, 99, 7, "c", flexible=True))
        answer = wire.receive_frame()
        t.equal(answer[:6], (7).to_bytes(4) + (35).to_bytes(2), "the correlation id and error")
    t.expect(wire.call(ApiVersionsRequest("suite", "1"), 3), error_code=0)
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=0)


@sasl_case("sasl/versions/4", "An invalid name of a client's software is 42, and a client may try again")
def versions_invalid(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(wire.call(ApiVersionsRequest("not valid!", "1"), 3), error_code=E.INVALID_REQUEST)
    t.expect(wire.call(ApiVersionsRequest("suite", "1"), 3), error_code=0)
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=0)


@sasl_case(
    "sasl/handshake/1",
    "A mechanism that is not enabled is 33 with the enabled ones after the delay, then the connection ends",
    api="SaslHandshake",
)
def unknown_mechanism(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)

    def receive() -> None:
        answer = t.expect(sasl.handshake(wire, "GSSAPI", t.version), error_code=E.UNSUPPORTED_SASL_MECHANISM)
        t.equal(sorted(answer.mechanisms), sorted(MECHANISMS), "the enabled mechanisms")

    only_after_delay(t, receive)
    closes(t, wire)


@sasl_case(
    "sasl/handshake/2", "A handshake may be the first request, and lists the enabled mechanisms", api="SaslHandshake"
)
def handshake_first(t: Trial) -> None:
    answer = t.expect(sasl.handshake(t.connect_securely(LOGIN), "PLAIN", t.version), error_code=0)
    t.equal(sorted(answer.mechanisms), sorted(MECHANISMS), "the enabled mechanisms")


@sasl_case("sasl/handshake/3", "An unknown version of SaslHandshake ends the connection without an answer")
def handshake_version(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    wire.send_frame(header(17, 9, 1, "c", flexible=False) + b"\0\x05PLAIN")
    closes(t, wire)


@sasl_case("sasl/handshake/4", "A second handshake in place of a token is 34 after the delay, then the connection ends")
def handshake_twice(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=0)
    only_after_delay(t, lambda: t.expect(sasl.handshake(wire, "PLAIN"), error_code=E.ILLEGAL_SASL_STATE))
    closes(t, wire)


@sasl_case("sasl/handshake/5", "The name of a mechanism counts letter by letter: `plain` is not enabled")
def mechanism_case(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, "plain"), error_code=E.UNSUPPORTED_SASL_MECHANISM)


@sasl_case(
    "sasl/plain/1", "The right password: no error, no bytes, and a session without an end", api="SaslAuthenticate"
)
def right_password(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=0)
    answer = sasl.authenticate(wire, RIGHT, t.version)
    t.expect(answer, error_code=0, error_message="", auth_bytes=b"", session_lifetime_ms=0)
    is_open(t, wire)


@sasl_case(
    "sasl/plain/2",
    "A wrong password is 58 with a text after the delay, then the connection ends",
    api="SaslAuthenticate",
)
def wrong_password(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=0)
    wire.send(SaslAuthenticateRequest(WRONG), t.version)
    # A request behind it is not served.
    wire.send(heartbeat(t.group), t.peer.newest("Heartbeat"))
    answer = wire.receive()
    t.expect(answer, error_code=E.SASL_AUTHENTICATION_FAILED, error_message=REFUSED, auth_bytes=b"")
    closes(t, wire)


@sasl_case("sasl/plain/3", "The text for an unknown user is that for a wrong password")
def unknown_user(t: Trial) -> None:
    refused(t, tokens.plain("nobody", PASSWORD), REFUSED)


@sasl_case("sasl/plain/4", "A token of PLAIN that has not three parts is 58 with their number, and ten count as four")
def parts_of_plain(t: Trial) -> None:
    for token, parts in ((b"carol", 1), (b"\0carol", 2), (b"\0carol\0secret\0", 4), (b"\0a" * 9, 4)):
        refused(t, token, f"Invalid SASL/PLAIN response: expected 3 tokens, got {parts}")


@sasl_case("sasl/plain/5", "A token of PLAIN without a name or a password is 58 with a text")
def empty_parts_of_plain(t: Trial) -> None:
    refused(t, b"\0\0secret", "Authentication failed: username not specified")
    refused(t, b"\0carol\0", "Authentication failed: password not specified")


@sasl_case("sasl/plain/6", "An authorization id of PLAIN must be empty or the user; the password is checked first")
def authorization_id(t: Trial) -> None:
    text = "Authentication failed: Client requested an authorization id that is different from username"
    refused(t, tokens.plain(USER, PASSWORD, "dave"), text)
    refused(t, tokens.plain(USER, "wrong", "dave"), REFUSED)
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=0)
    t.expect(sasl.authenticate(wire, tokens.plain(USER, PASSWORD, USER)), error_code=0)


@sasl_case("sasl/raw/1", "After handshake 0 tokens have no header: a good one is answered by four zero bytes")
def raw_token(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, "PLAIN", 0), error_code=0)
    wire.send_frame(RIGHT, "a token of PLAIN")
    t.equal(wire.receive_frame(), b"", "the answer")
    is_open(t, wire)


@sasl_case("sasl/raw/2", "After handshake 0 a wrong password is silence, and after the delay the end of the connection")
def raw_wrong_password(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, "PLAIN", 0), error_code=0)
    wire.send_frame(WRONG, "a token of PLAIN")
    only_after_delay(t, lambda: closes(t, wire))


@sasl_case("sasl/raw/3", "After handshake 0 a refusal by SCRAM ends the connection at once")
def raw_scram(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, "SCRAM-SHA-256", 0), error_code=0)
    wire.send_frame(b"n,,n=nobody,r=fyko", "a token of SCRAM")
    at_once(t, lambda: closes(t, wire))


@sasl_case(
    "sasl/state/1", "Another request in place of a token is answered by its own 34 after the delay, then the end"
)
def other_request(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=0)
    version = t.peer.newest("Heartbeat")
    only_after_delay(t, lambda: t.expect(wire.call(heartbeat(t.group), version), error_code=E.ILLEGAL_SASL_STATE))
    closes(t, wire)


@sasl_case("sasl/state/2", "An unknown version of SaslAuthenticate ends the connection at once, without an answer")
def token_version(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=0)
    wire.send_frame(header(36, 9, 2, "c", flexible=True) + bytes([len(RIGHT) + 1]) + RIGHT + b"\0")
    at_once(t, lambda: closes(t, wire))


@sasl_case("sasl/state/3", "After authentication SaslHandshake is 34 without mechanisms, and the connection goes on")
def handshake_after(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.log_in(wire, "PLAIN", USER, PASSWORD), error_code=0)
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=E.ILLEGAL_SASL_STATE, mechanisms=[])
    is_open(t, wire)


@sasl_case(
    "sasl/state/4",
    "After authentication SaslAuthenticate is 34 with a text, and the connection goes on",
    api="SaslAuthenticate",
)
def token_after(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.log_in(wire, "PLAIN", USER, PASSWORD, t.version), error_code=0)
    answer = sasl.authenticate(wire, RIGHT, t.version)
    t.expect(answer, error_code=E.ILLEGAL_SASL_STATE, error_message=AFTER_COMPLETION)
    is_open(t, wire)


@sasl_case("sasl/state/5", "On a plain listener SaslHandshake and SaslAuthenticate are 34, and the connection goes on")
def sasl_in_the_open(t: Trial) -> None:
    wire = t.connect()
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=E.ILLEGAL_SASL_STATE, mechanisms=[])
    answer = sasl.authenticate(wire, RIGHT)
    t.expect(answer, error_code=E.ILLEGAL_SASL_STATE, error_message=AFTER_COMPLETION)
    is_open(t, wire)


@sasl_case("sasl/frame/1", "A frame above sasl.server.max.receive.size before authentication ends the connection")
def long_frame(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    wire.send_bytes((MAX_FRAME + 1).to_bytes(4) + b"\0\x12\0\0")
    closes(t, wire)


@sasl_case("sasl/frame/2", "A request of HTTP on a listener with SASL ends the connection without an answer")
def request_of_http(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    wire.send_bytes(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    closes(t, wire)


@sasl_case("sasl/frame/3", "A frame without a whole header before authentication ends the connection")
def short_frame(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    wire.send_frame(b"\0\x11")
    closes(t, wire)


@sasl_case("sasl/frame/4", "Frames above sasl.server.max.receive.size are served after authentication")
def long_frame_after(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.log_in(wire, "PLAIN", USER, PASSWORD), error_code=0)
    wire.send(JoinGroupRequest("", 30_000, 30_000, "", None, "c", [JoinGroupRequestProtocol("p", bytes(MAX_FRAME))]), 5)
    wire.receive()
    is_open(t, wire)


@sasl_case("sasl/pipeline/1", "Handshake, token and a request may be sent at once: each is answered in its turn")
def pipeline(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    wire.send(SaslHandshakeRequest("PLAIN"), 1)
    wire.send(SaslAuthenticateRequest(RIGHT), 2)
    wire.send(heartbeat(t.group), t.peer.newest("Heartbeat"))
    t.expect(wire.receive(), error_code=0)
    t.expect(wire.receive(), error_code=0)
    t.check(wire.receive().error_code != 0, "the heartbeat of an unknown member succeeds")


@sasl_case("sasl/scram/1", "SCRAM refuses an unknown user at its first message, with a text that does not say so")
def unknown_scram_user(t: Trial) -> None:
    for mechanism in tokens.HASHES:
        refused(t, b"n,,n=nobody,r=fyko", generic(mechanism), mechanism)


@sasl_case("sasl/scram/2", "SCRAM with channel binding, or malformed, is refused with the same text")
def malformed_scram(t: Trial) -> None:
    for token in (b"y,,n=nobody,r=fyko", b"p=tls-unique,,n=nobody,r=fyko", b"n,,r=fyko", b"", b"\xff"):
        refused(t, token, generic("SCRAM-SHA-256"), "SCRAM-SHA-256")


def generic(mechanism: str, process: str = "authentication") -> str:
    return f"Authentication failed during {process} due to invalid credentials with SASL mechanism {mechanism}"

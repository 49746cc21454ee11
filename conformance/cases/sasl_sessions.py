"""Cases about sessions of SASL: tokens of OAUTHBEARER, the end of a session, and authentication again."""

from __future__ import annotations

import base64
import json
import time
from functools import partial
from typing import Any

from kafka_shim.apis.sasl_authenticate import SaslAuthenticateRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance import sasl, tokens
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.sasl_states import (
    PASSWORD,
    RIGHT,
    USER,
    closes,
    generic,
    heartbeat,
    is_open,
    only_after_delay,
    refused,
)
from kafka_shim.conformance.targets.secured import BRIEF, BRIEF_MS, LOGIN, PASSWORDS, SECURITY
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.user import User
from kafka_shim.conformance.wire import Connection

SLACK_MS = 5_000
session_case = partial(case, source="semantics 6.4", profile=SECURITY)


def token_of(claims: dict[str, Any], algorithm: str = "none") -> str:
    """Return an unsecured token with these claims."""
    parts = [json.dumps(part).encode() for part in ({"alg": algorithm}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


def brief(t: Trial) -> Connection:
    """Open a connection with a session of `BRIEF_MS`."""
    wire = t.connect_securely(BRIEF)
    t.expect(sasl.log_in(wire, "PLAIN", USER, PASSWORD), error_code=0)
    return wire


def refused_token(t: Trial, token: str) -> None:
    """Check that a token is answered by a document, and the next message by the refusal."""
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, "OAUTHBEARER"), error_code=0)
    answer = t.expect(sasl.authenticate(wire, tokens.bearer(token)), error_code=0, session_lifetime_ms=0)
    t.equal(json.loads(answer.auth_bytes)["status"], "invalid_token", "the status")
    text = answer.auth_bytes.decode()

    def receive() -> None:
        last = sasl.authenticate(wire, b"\x01")
        t.expect(last, error_code=E.SASL_AUTHENTICATION_FAILED, error_message=text, auth_bytes=b"")

    only_after_delay(t, receive)
    closes(t, wire)


@session_case(
    "sasl/token/1", "A session ends with its token, without a setting that bounds sessions", api="SaslAuthenticate"
)
def end_of_token(t: Trial) -> None:
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, "OAUTHBEARER"), error_code=0)
    token = tokens.unsecured_token(f"alice-{t.unique}", 600)
    answer = t.expect(sasl.authenticate(wire, tokens.bearer(token), t.version), error_code=0, auth_bytes=b"")
    if t.version >= 1:
        lifetime = answer.session_lifetime_ms
        t.check(600_000 - SLACK_MS <= lifetime <= 600_000, f"the session lasts {lifetime} ms, its token 600,000")
    is_open(t, wire)


@session_case("sasl/token/2", "An expired token is answered by a document, then by 58 with the document as its text")
def expired_token(t: Trial) -> None:
    now = time.time()
    refused_token(t, token_of({"sub": "alice", "iat": now - 100, "exp": now - 50}))


@session_case("sasl/token/3", "A token without a subject or an end, or issued in the future, is invalid")
def invalid_claims(t: Trial) -> None:
    now = time.time()
    for claims in ({"exp": now + 60}, {"sub": "alice"}, {"sub": "alice", "iat": now + 50, "exp": now + 60}):
        refused_token(t, token_of(claims))


@session_case("sasl/token/4", "A token that says it is signed is invalid")
def signed_token(t: Trial) -> None:
    refused_token(t, token_of({"sub": "alice", "exp": time.time() + 60}, "HS256"))


@session_case("sasl/token/5", "A malformed first message of OAUTHBEARER is 58 with the general text")
def malformed_message(t: Trial) -> None:
    token = tokens.unsecured_token("alice")
    for message in (b"", b"n,,\x01\x01", f"n,,auth=Bearer {token}\x01\x01".encode(), f"n,,\x01auth={token}".encode()):
        refused(t, message, generic("OAUTHBEARER"), "OAUTHBEARER")


@session_case("sasl/token/6", "An authorization id of OAUTHBEARER must be the subject; extensions are accepted")
def subject_of_token(t: Trial) -> None:
    token = tokens.unsecured_token("alice")
    text = (
        "Authentication failed: Client requested an authorization id (bob) that is different from the token's "
        "principal name (alice)"
    )
    refused(t, f"n,a=bob,\x01auth=Bearer {token}\x01\x01".encode(), text, "OAUTHBEARER")
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, "OAUTHBEARER"), error_code=0)
    message = f"n,a=alice,\x01auth=Bearer {token}\x01trace=yes\x01\x01".encode()
    t.expect(sasl.authenticate(wire, message), error_code=0)


@session_case(
    "sasl/again/1", "connections.max.reauth.ms bounds a session, and the answer says so", api="SaslAuthenticate"
)
def bounded_session(t: Trial) -> None:
    wire = t.connect_securely(BRIEF)
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=0)
    answer = t.expect(sasl.authenticate(wire, RIGHT, t.version), error_code=0)
    if t.version >= 1:
        t.equal(answer.session_lifetime_ms, BRIEF_MS, "the lifetime")


@session_case("sasl/again/2", "A client authenticates again on its connection, and requests go on")
def authenticates_again(t: Trial) -> None:
    wire = brief(t)
    is_open(t, wire)
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=0)
    t.expect(sasl.authenticate(wire, RIGHT), error_code=0, session_lifetime_ms=BRIEF_MS)
    is_open(t, wire)


@session_case("sasl/again/3", "A second authentication within a second is 34, and the connection goes on")
def again_too_soon(t: Trial) -> None:
    t.is_timed = True
    wire = brief(t)
    t.expect(sasl.log_in(wire, "PLAIN", USER, PASSWORD), error_code=0)
    t.expect(sasl.handshake(wire, "PLAIN"), error_code=E.ILLEGAL_SASL_STATE)
    is_open(t, wire)


@session_case("sasl/again/4", "With another mechanism than before the handshake is answered, and a token is not")
def another_mechanism(t: Trial) -> None:
    wire = brief(t)
    t.expect(sasl.handshake(wire, "OAUTHBEARER"), error_code=0)
    wire.send(SaslAuthenticateRequest(tokens.bearer(tokens.unsecured_token(USER))), 2)
    only_after_delay(t, lambda: closes(t, wire))


@session_case("sasl/again/5", "Another user on the same connection is 58, and the connection ends")
def another_user(t: Trial) -> None:
    wire = brief(t)
    other, password = list(PASSWORDS.items())[1]
    answer = sasl.log_in(wire, "PLAIN", other, password)
    text = f"Cannot change principals during re-authentication from User.{USER}: User.{other}"
    t.expect(answer, error_code=E.SASL_AUTHENTICATION_FAILED, error_message=text)
    closes(t, wire)


@session_case("sasl/again/6", "A wrong password in a second authentication is 58, and the connection ends")
def wrong_password_again(t: Trial) -> None:
    wire = brief(t)
    answer = sasl.log_in(wire, "PLAIN", USER, "wrong")
    text = "Authentication failed: Invalid username or password"
    t.expect(answer, error_code=E.SASL_AUTHENTICATION_FAILED, error_message=text)
    closes(t, wire)


@session_case("sasl/again/7", "After the end of a session a request ends the connection without an answer")
def request_after_the_end(t: Trial) -> None:
    wire = brief(t)
    is_open(t, wire)
    t.lapse(BRIEF_MS + 300)
    wire.send(heartbeat(t.group), t.peer.newest("Heartbeat"))
    closes(t, wire)


@session_case("sasl/again/8", "After the end of a session a client may still authenticate, and requests go on")
def authenticates_after_the_end(t: Trial) -> None:
    wire = brief(t)
    t.lapse(BRIEF_MS + 300)
    t.expect(sasl.log_in(wire, "PLAIN", USER, PASSWORD), error_code=0, session_lifetime_ms=BRIEF_MS)
    is_open(t, wire)


@session_case(
    "sasl/again/9", "A session ends while JoinGroup waits: the answer comes, and the member goes on elsewhere"
)
def end_while_parked(t: Trial) -> None:
    (leader,) = t.stable(1)
    shared = User(t, USER, is_shared=True)
    shared.allow("READ", group=t.group)
    member = t.member()
    member.wire = brief(t)
    member.send_join()
    t.await_members(2)
    t.lapse(BRIEF_MS + 300, lambda: leader.heartbeat())
    leader.send_join()
    t.expect(member.receive_join(), error_code=0)
    t.expect(leader.receive_join(), error_code=0)
    t.expect(leader.sync({leader: b"", member: b""}), error_code=0)
    member.wire.send(member.sync_request(), t.version_of("SyncGroup"))
    closes(t, member.wire)
    member.wire = brief(t)
    t.expect(member.sync(), error_code=0)
    t.equal(member.heartbeat(), 0, "the heartbeat on a new connection")

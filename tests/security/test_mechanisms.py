"""The mechanisms of SASL without sockets: right tokens, wrong ones, and any bytes at all."""

import base64
import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient

from kafka_shim.security.config import MECHANISMS, SecurityConfig
from kafka_shim.security.login import Login, LoginFailed, LoginState
from kafka_shim.security.mechanism import Authenticated, Challenge, Rejected
from kafka_shim.security.oauthbearer import OAuthBearer
from kafka_shim.security.plain import Plain
from kafka_shim.security.scram import Scram
from kafka_shim.security.users import SCRAM_HASHES, Users

NOW = 1_800_000_000.0
USERS = Users({"alice": "pencil", "a,b=c": "pencil"})


def refusal(token: bytes, mechanism: object) -> Rejected:
    with pytest.raises(Rejected) as caught:
        mechanism.step(token, NOW)  # type: ignore[attr-defined]
    return caught.value


@pytest.mark.parametrize("token", [b"\0alice\0pencil", b"alice\0alice\0pencil"])
def test_plain_knows_the_user(token: bytes) -> None:
    assert Plain(USERS).step(token, NOW) == Authenticated(b"", "User:alice")


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"alice\0pencil", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0pen\0cil", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0pencil", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0pencil", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0pencil",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_plain_refuses_with_the_text_of_kafka(token: bytes, text: str) -> None:
    assert refusal(token, Plain(USERS)).text == text


def test_plain_accepts_anything_on_request() -> None:
    users = Users({}, accepts_anything=True)
    assert Plain(users).step(b"\0anybody\0at all", NOW).principal == "User:anybody"


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
@pytest.mark.parametrize("user", ["alice", "a,b=c"])
def test_scram_of_another_client_authenticates(mechanism: str, user: str) -> None:
    client = ScramClient(user.replace("=", "=3D").replace(",", "=2C"), "pencil", mechanism)
    server = Scram(USERS, mechanism)
    challenge = server.step(client.first_message(), NOW)
    assert isinstance(challenge, Challenge)
    client.process_server_first_message(challenge.token)
    outcome = server.step(client.final_message(), NOW)
    assert isinstance(outcome, Authenticated)
    assert outcome.principal == f"User:{user}"
    client.process_server_final_message(outcome.token)


def test_scram_agrees_with_the_example_of_the_rfc() -> None:
    # RFC 7677, section 3.
    users = Users({})
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    from kafka_shim.security.users import credential_of

    users._scram["user", "SCRAM-SHA-256"] = credential_of("sha256", "pencil", salt)
    server = Scram(users, "SCRAM-SHA-256", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = server.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", NOW)
    assert first.token == (b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    last = server.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        NOW,
    )
    assert last == Authenticated(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "User:user")


@pytest.mark.parametrize(
    "first", [b"", b"y,,n=alice,r=x", b"p=tls-unique,,n=alice,r=x", b"n,,n=nobody,r=x", b"n,,n=alice,r=", b"\xff"]
)
def test_scram_does_not_tell_its_reason(first: bytes) -> None:
    assert refusal(first, Scram(USERS, "SCRAM-SHA-256")).text is None


def test_scram_refuses_another_proof_and_another_nonce() -> None:
    for change in (lambda final: final[:-4] + b"AAA=", lambda final: final.replace(b"r=", b"r=x")):
        client = ScramClient("alice", "pencil", "SCRAM-SHA-256")
        server = Scram(USERS, "SCRAM-SHA-256")
        client.process_server_first_message(server.step(client.first_message(), NOW).token)
        assert refusal(change(client.final_message()), server).text is None


def token_of(**claims: object) -> bytes:
    parts = ({"alg": "none"}, {"sub": "alice", "iat": NOW - 1, "exp": NOW + 60} | claims)
    text = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"n,,\x01auth=Bearer {text}.\x01\x01".encode()


def test_bearer_has_the_end_of_its_token() -> None:
    assert OAuthBearer().step(token_of(), NOW) == Authenticated(b"", "User:alice", NOW + 60)


@pytest.mark.parametrize(
    "claims",
    [{"exp": NOW}, {"exp": None}, {"exp": True}, {"exp": "soon"}, {"exp": float("inf")}, {"sub": ""}, {"sub": 3},
     {"iat": NOW + 10}, {"iat": NOW + 90}],
)  # fmt: skip
def test_bearer_answers_a_bad_token_first_and_fails_then(claims: dict[str, object]) -> None:
    mechanism = OAuthBearer()
    assert mechanism.step(token_of(**claims), NOW) == Challenge(b'{"status":"invalid_token"}')
    assert refusal(b"\x01", mechanism).text == '{"status":"invalid_token"}'


def test_bearer_refuses_a_signed_token() -> None:
    signed = token_of().replace(base64.urlsafe_b64encode(b'{"alg": "none"}').rstrip(b"="), b"eyJhbGciOiJSUzI1NiJ9")
    assert isinstance(OAuthBearer().step(signed, NOW), Challenge)


@given(
    st.sampled_from(MECHANISMS), st.lists(st.binary(max_size=300) | st.text().map(str.encode), min_size=1, max_size=3)
)
def test_any_bytes_are_refused(name: str, tokens: list[bytes]) -> None:
    mechanism = SecurityConfig(listeners=(), users=USERS).factories()[name]()
    try:
        for token in tokens:
            assert isinstance(mechanism.step(token, NOW), Challenge)
    except Rejected:
        pass


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_document_in_a_token_is_refused(header: bytes, claims: bytes) -> None:
    text = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (header, claims))
    outcome = OAuthBearer().step(f"n,,\x01auth=Bearer {text or 'x'}.\x01\x01".encode(), NOW)
    assert isinstance(outcome, Challenge)


def test_a_deep_document_in_a_token_is_refused() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 99_999).decode()
    assert isinstance(OAuthBearer().step(f"n,,\x01auth=Bearer {deep}.{deep}.\x01\x01".encode(), NOW), Challenge)


def login(max_lifetime: float = 0.0) -> Login:
    return Login(SecurityConfig(listeners=(), users=USERS).factories(), dict.fromkeys(MECHANISMS, max_lifetime))


def test_a_session_ends_with_its_token_or_its_setting() -> None:
    for setting, expected in ((0.0, 60.0), (10.0, 10.0), (100.0, 60.0)):
        made = login(setting)
        assert made.handshake("OAUTHBEARER", raw=False)
        assert made.token(token_of(), 5.0, NOW).lifetime_ms == expected * 1000
        assert (made.state, made.ends) == (LoginState.COMPLETE, 5.0 + expected)


def test_a_second_authentication_keeps_mechanism_and_principal() -> None:
    made = login(10.0)
    made.handshake("PLAIN", raw=False)
    made.token(b"\0alice\0pencil", 0.0, NOW)
    assert made.may_begin_again(1.0)
    assert not made.may_begin_again(1.5)
    assert made.may_begin_again(2.1)
    made.handshake("PLAIN", raw=False)
    with pytest.raises(LoginFailed) as caught:
        made.token(b"\0a,b=c\0pencil", 2.2, NOW)
    assert caught.value.text == "Cannot change principals during re-authentication from User.alice: User.a,b=c"
    made.handshake("OAUTHBEARER", raw=False)
    with pytest.raises(LoginFailed) as caught:
        made.token(token_of(), 2.3, NOW)
    assert caught.value.text is None


def test_a_credential_holds_no_password() -> None:
    credential = USERS.scram_credential("alice", "SCRAM-SHA-256")
    assert credential is not None
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", credential.salt, credential.iterations)
    assert credential.server_key == hmac.digest(salted, b"Server Key", "sha256")
    assert "pencil" not in repr(USERS)

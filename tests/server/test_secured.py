"""The states of SASL and the listeners of a running server, by the bytes of a client."""

import logging
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.metadata import MetadataRequest, MetadataResponse
from kafka_shim.apis.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_shim.apis.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.frames import frame
from kafka_shim.security.certificates import TestAuthority
from kafka_shim.testing import CoordinatorServer
from kafka_shim.testing.secured import unsecured_token
from tests.server.wire import Client, request

DELAY = 0.05
LISTENERS = {
    "listeners": "OPEN://127.0.0.1:0,LOGIN://127.0.0.1:0",
    "listener.security.protocol.map": "OPEN:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
    "connection.failed.authentication.delay.ms": "50",
}
RIGHT = b"\0alice\0wonderland"


@pytest.fixture(scope="module")
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 2}, config=LISTENERS, users={"alice": "wonderland"}) as made:
        yield made


@pytest.fixture
def client(server: CoordinatorServer) -> Iterator[Client]:
    with Client(server.bootstrap_of("LOGIN")) as made:
        yield made


def choose(client: Client, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
    answer: SaslHandshakeResponse = client.ask(SaslHandshakeRequest(mechanism), version, SaslHandshakeResponse)
    return answer


def prove(client: Client, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    answer: SaslAuthenticateResponse = client.ask(SaslAuthenticateRequest(token), version, SaslAuthenticateResponse)
    return answer


def heartbeat(client: Client) -> int:
    answer: HeartbeatResponse = client.ask(HeartbeatRequest("g", 1, "m"), 4, HeartbeatResponse)
    return answer.error_code


def test_requests_wait_for_no_authentication_and_end_the_connection(client: Client) -> None:
    client.socket.sendall(request(HeartbeatRequest("g", 1, "m"), 4))
    assert client.is_closed_by_server()


def test_versions_come_once_and_again_after_a_refusal(client: Client, server: CoordinatorServer) -> None:
    unknown = request(ApiVersionsRequest(), 4).replace(b"\0\x12\0\x04", b"\0\x12\0\x63")
    client.socket.sendall(unknown)
    assert client.read(ApiVersionsResponse, 0)[1].error_code == ErrorCode.UNSUPPORTED_VERSION
    invalid = client.ask(ApiVersionsRequest("not valid!", "1"), 4, ApiVersionsResponse)
    assert invalid.error_code == ErrorCode.INVALID_REQUEST
    full = client.ask(ApiVersionsRequest("name", "1"), 4, ApiVersionsResponse)
    assert {17, 36} < {each.api_key for each in full.api_keys}
    assert choose(client).error_code == 0
    assert prove(client, RIGHT).error_code == 0
    assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID
    with Client(server.bootstrap_of("LOGIN")) as other:
        other.ask(ApiVersionsRequest("name", "1"), 4, ApiVersionsResponse)
        other.socket.sendall(request(ApiVersionsRequest("name", "1"), 4))
        assert other.is_closed_by_server()


def test_a_wrong_password_is_answered_late_and_ends_the_connection(client: Client) -> None:
    choose(client)
    began = time.monotonic()
    client.socket.sendall(request(SaslAuthenticateRequest(b"\0alice\0wrong"), 2) + request(ApiVersionsRequest(), 0))
    answer = client.read(SaslAuthenticateResponse, 2)[1]
    assert time.monotonic() - began >= DELAY
    assert (answer.error_code, answer.error_message) == (58, "Authentication failed: Invalid username or password")
    assert client.is_closed_by_server()


def test_an_unknown_mechanism_is_answered_with_the_enabled_ones(client: Client) -> None:
    answer = choose(client, "GSSAPI")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert sorted(answer.mechanisms) == ["OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert client.is_closed_by_server()


def test_tokens_without_headers_follow_the_first_handshake(client: Client) -> None:
    assert choose(client, version=0).error_code == 0
    client.socket.sendall(frame(RIGHT))
    assert client.read_frame() == b""
    assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_wrong_token_without_header_ends_the_connection_in_silence(client: Client) -> None:
    choose(client, version=0)
    client.socket.sendall(frame(b"\0alice\0wrong"))
    assert client.is_closed_by_server()


def test_another_request_between_tokens_gets_its_own_refusal(client: Client) -> None:
    choose(client)
    assert heartbeat(client) == ErrorCode.ILLEGAL_SASL_STATE
    assert client.is_closed_by_server()


@pytest.mark.parametrize("listener", ["OPEN", "LOGIN"])
def test_sasl_after_authentication_is_an_illegal_state(server: CoordinatorServer, listener: str) -> None:
    with Client(server.bootstrap_of(listener)) as client:
        if listener == "LOGIN":
            choose(client)
            prove(client, RIGHT)
        assert (choose(client).error_code, choose(client).mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        refused = prove(client, RIGHT)
        assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert refused.error_message == "SaslAuthenticate request received after successful authentication"
        assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_long_frame_before_authentication_ends_the_connection(client: Client) -> None:
    client.socket.sendall((524289).to_bytes(4))
    assert client.is_closed_by_server()


def test_a_session_ends_with_its_token(server: CoordinatorServer) -> None:
    with Client(server.bootstrap_of("LOGIN")) as client:
        choose(client, "OAUTHBEARER")
        token = f"n,,\x01auth=Bearer {unsecured_token('alice', 100)}\x01\x01".encode()
        assert 95_000 < prove(client, token).session_lifetime_ms <= 100_000
        assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID
        assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID
        server.clock.advance(99)
        assert choose(client, "OAUTHBEARER").error_code == 0
        token = f"n,,\x01auth=Bearer {unsecured_token('alice', 300)}\x01\x01".encode()
        assert prove(client, token).session_lifetime_ms > 100_000
        server.clock.advance(50)
        assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID
        server.clock.advance(200)
        client.socket.sendall(request(HeartbeatRequest("g", 1, "m"), 4))
        assert client.is_closed_by_server()


def test_another_principal_cannot_take_a_session_over(server: CoordinatorServer) -> None:
    with Client(server.bootstrap_of("LOGIN")) as client:
        for user, code in (("alice", 0), ("bob", ErrorCode.SASL_AUTHENTICATION_FAILED)):
            choose(client, "OAUTHBEARER")
            token = f"n,,\x01auth=Bearer {unsecured_token(user, 3000)}\x01\x01".encode()
            answer = prove(client, token)
            assert answer.error_code == code
        assert answer.error_message == ("Cannot change principals during re-authentication from User.alice: User.bob")
        assert client.is_closed_by_server()


@pytest.mark.parametrize("listener", ["OPEN", "LOGIN"])
def test_brokers_have_the_address_of_the_listener(server: CoordinatorServer, listener: str) -> None:
    address = server.bootstrap_of(listener)
    with Client(address) as client:
        if listener == "LOGIN":
            choose(client)
            prove(client, RIGHT)
        (broker,) = client.ask(MetadataRequest(topics=[]), 12, MetadataResponse).brokers
        asked = FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h"])
        found = client.ask(asked, 6, FindCoordinatorResponse).coordinators
        assert {f"{each.host}:{each.port}" for each in (broker, *found)} == {address}


def test_no_secret_is_left_behind(caplog: pytest.LogCaptureFixture, tmp_path: Any) -> None:
    secret = "correct-horse-battery"
    with (
        caplog.at_level(logging.DEBUG),
        CoordinatorServer(
            config=LISTENERS | {"connection.failed.authentication.delay.ms": "0"}, users={"alice": secret}, control=True
        ) as server,
    ):
        frames = server.call(lambda: watched(server))
        for listener in ("LOGIN", "OPEN"):
            with Client(server.bootstrap_of(listener)) as client:
                choose(client)
                prove(client, f"\0alice\0{secret}".encode())
                heartbeat(client)
        for token in (f"\0alice\0{secret}x".encode(), f"\0\0{secret}".encode(), secret.encode()):
            with Client(server.bootstrap_of("LOGIN")) as client:
                choose(client)
                prove(client, token)
        server.write_trace(tmp_path / "trace")
        left = server.call(lambda: repr([(each.request, each.answer) for each in frames])) + repr(server.events())
        assert "Heartbeat" in left or b"\0\x0c" in b"".join(each.request for each in frames)
        left += caplog.text + (tmp_path / "trace").read_text() + repr(server.security) + repr(server.server.config)
    assert secret not in left
    assert secret.encode().hex() not in left


def watched(server: CoordinatorServer) -> Any:
    from kafka_shim.server.frames import FrameHistory

    history = FrameHistory(server.kit.cluster.nodes.values)
    history.start()
    return history


def test_certificates_name_their_clients(tmp_path: Any) -> None:
    authority, other = TestAuthority(), TestAuthority()
    issued = authority.server()
    config = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.key": issued.key,
        "ssl.keystore.certificate.chain": issued.certificate,
        "ssl.truststore.certificates": authority.certificate,
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),O=Acme$/$1/",
    }

    def wrap(certificate: Any) -> Any:
        context = ssl.create_default_context(cadata=authority.certificate)
        if certificate is not None:
            (tmp_path / "client.pem").write_text(certificate.key + certificate.certificate)
            context.load_cert_chain(tmp_path / "client.pem")
        return lambda sock: context.wrap_socket(sock, server_hostname="127.0.0.1")

    with CoordinatorServer(config=config) as server:
        with Client(server.bootstrap, wrap(authority.client("alice", "Acme"))) as client:
            assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID
            sessions = server.call(lambda: [each.client.principal for each in server.kit.cluster.sessions()])
            assert sessions == ["User:alice"]
        for certificate in (None, other.client("alice", "Acme"), authority.client("alice", "Other")):
            with Client(server.bootstrap, wrap(certificate)) as client, pytest.raises((OSError, EOFError)):
                heartbeat(client)

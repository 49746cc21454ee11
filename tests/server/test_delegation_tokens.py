"""Delegation tokens of a running server: logins, sessions, rights, restarts, and secrets (KIP-48)."""

import logging
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_shim.apis.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafka_shim.apis.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from kafka_shim.apis.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kafka_shim.apis.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kafka_shim.conformance.tokens import scram
from kafka_shim.persistence.stores import open_store
from kafka_shim.security.config import STANDARD_AUTHORIZER
from kafka_shim.testing import CoordinatorServer
from tests.server.test_secured import LISTENERS, choose, heartbeat, prove, watched
from tests.server.wire import Client, request

KEY = "a key of many words"
TOKENS = LISTENERS | {"delegation.token.secret.key": KEY}
USERS = {"alice": "wonderland", "bob": "builder"}
NOT_ALLOWED = 64


@pytest.fixture(scope="module")
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(config=TOKENS, users=USERS) as made:
        yield made


class As(Client):
    """A connection of a user."""

    def __init__(self, server: CoordinatorServer, user: str) -> None:
        super().__init__(server.bootstrap_of("LOGIN"))
        assert choose(self).error_code == 0
        assert prove(self, f"\0{user}\0{USERS[user]}".encode()).error_code == 0


def create(client: Client, *renewers: str, owner: str | None = None) -> CreateDelegationTokenResponse:
    wanted = [CreatableRenewers("User", renewer) for renewer in renewers]
    asked = CreateDelegationTokenRequest(owner and "User", owner, wanted, -1)
    answer: CreateDelegationTokenResponse = client.ask(asked, 3, CreateDelegationTokenResponse)
    return answer


def described(client: Client) -> list[str]:
    answer = client.ask(DescribeDelegationTokenRequest(None), 3, DescribeDelegationTokenResponse)
    assert answer.error_code == 0
    return [token.token_id for token in answer.tokens]


def renew(client: Client, hmac: bytes) -> int:
    answer: RenewDelegationTokenResponse = client.ask(
        RenewDelegationTokenRequest(hmac, -1), 2, RenewDelegationTokenResponse
    )
    return answer.error_code


def expire(client: Client, hmac: bytes, period: int = -1) -> int:
    answer: ExpireDelegationTokenResponse = client.ask(
        ExpireDelegationTokenRequest(hmac, period), 2, ExpireDelegationTokenResponse
    )
    return answer.error_code


def log_in(client: Client, made: CreateDelegationTokenResponse, mechanism: str = "SCRAM-SHA-512") -> Any:
    """Authenticate by a token; return the last answer."""
    choose(client, mechanism)
    exchange = scram(mechanism, made.token_id, b64encode(made.hmac).decode(), ",tokenauth=true")
    answer = prove(client, next(exchange))
    return answer if answer.error_code else prove(client, exchange.send(answer.auth_bytes))


def test_a_token_logs_in_as_its_owner_and_makes_no_other(server: CoordinatorServer) -> None:
    with As(server, "alice") as alice:
        made = create(alice, "bob")
        assert described(alice) == [made.token_id]
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        with Client(server.bootstrap_of("LOGIN")) as client:
            answer = log_in(client, made, mechanism)
            assert (answer.error_code, answer.error_message) == (0, "")
            assert 86_390_000 < answer.session_lifetime_ms <= 86_400_000
            assert heartbeat(client) == 25
            refused = create(client)
            assert (refused.error_code, refused.principal_name, refused.hmac) == (NOT_ALLOWED, "alice", b"")
            assert renew(client, made.hmac) == expire(client, made.hmac) == NOT_ALLOWED
            answer = client.ask(DescribeDelegationTokenRequest(None), 3, DescribeDelegationTokenResponse)
            assert (answer.error_code, answer.tokens) == (NOT_ALLOWED, [])
    with As(server, "bob") as bob:
        assert renew(bob, made.hmac) == expire(bob, made.hmac) == 0
        assert described(bob) == []


def test_a_removed_token_logs_in_no_more_and_connections_go_on(server: CoordinatorServer) -> None:
    with As(server, "alice") as alice, Client(server.bootstrap_of("LOGIN")) as before:
        made = create(alice)
        assert log_in(before, made).error_code == 0
        assert expire(alice, made.hmac) == 0
        with Client(server.bootstrap_of("LOGIN")) as after:
            refused = log_in(after, made)
            text = "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            assert (refused.error_code, refused.error_message) == (58, f"{text}SCRAM-SHA-512")
        assert heartbeat(before) == 25


def test_a_session_ends_with_its_token_by_the_clock_of_the_coordinator() -> None:
    with CoordinatorServer(config=TOKENS, users=USERS) as server:
        server.clock.freeze()
        with As(server, "alice") as alice, Client(server.bootstrap_of("LOGIN")) as client:
            made = create(alice)
            assert expire(alice, made.hmac, 60_000) == 0
            # The time of the clock has fractions of a millisecond, and that of a token has none.
            assert 59_998 <= log_in(client, made).session_lifetime_ms <= 60_000
            server.clock.advance(59.9)
            assert heartbeat(client) == 25
            server.clock.advance(0.2)
            # The server has not removed it yet.
            assert renew(alice, made.hmac) == 66
            assert described(alice) == [made.token_id]
            client.socket.sendall(request(DescribeDelegationTokenRequest(None), 3))
            assert client.is_closed_by_server()


def test_ended_tokens_are_removed_by_the_clock_of_the_coordinator() -> None:
    config = TOKENS | {
        "delegation.token.expiry.time.ms": "10000",
        "delegation.token.expiry.check.interval.ms": "60000",
    }
    with CoordinatorServer(config=config, users=USERS) as server:
        server.clock.freeze()
        with As(server, "alice") as alice:
            made = create(alice)
            server.clock.advance(30)
            assert described(alice) == [made.token_id]
            server.clock.advance(31)
            assert described(alice) == []
            assert renew(alice, made.hmac) == 62
            assert server.server.cluster.topics.settings.tokens == {}


def test_tokens_survive_a_restart_without_their_hmacs(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    made = other = None
    for is_first in (True, False):
        store = open_store(f"sqlite:{path}", 50)
        with CoordinatorServer(config=TOKENS, users=USERS, store=store) as server:
            with As(server, "alice") as alice:
                if is_first:
                    made, other = create(alice, "bob"), create(alice)
                    assert expire(alice, other.hmac) == 0
                assert made is not None
                assert other is not None
                assert described(alice) == [made.token_id]
                assert renew(alice, other.hmac) == 62
                assert renew(alice, made.hmac) == 0
            with Client(server.bootstrap_of("LOGIN")) as client:
                assert log_in(client, made).error_code == 0
        store.close()
    assert made is not None
    for file in tmp_path.iterdir():
        for secret in (made.hmac, made.hmac.hex().encode(), b64encode(made.hmac), KEY.encode()):
            assert secret not in file.read_bytes()


@pytest.mark.parametrize(
    ("config", "listener", "code"),
    [
        (None, None, NOT_ALLOWED),
        (TOKENS, "OPEN", NOT_ALLOWED),
        (LISTENERS, "LOGIN", 61),
    ],
)
def test_every_server_lists_the_requests_and_refuses_them_as_kafka(
    config: dict[str, str] | None, listener: str | None, code: int
) -> None:
    with CoordinatorServer(config=config, users=USERS if config else None) as server:
        place = server.bootstrap if listener is None else server.bootstrap_of(listener)
        with As(server, "alice") if listener == "LOGIN" else Client(place) as client:
            refused = create(client)
            assert (refused.error_code, refused.token_id) == (code, "")
            assert (refused.principal_name == "alice") == (listener == "LOGIN")
            assert renew(client, b"x") == expire(client, b"x") == code
            answer = client.ask(DescribeDelegationTokenRequest(None), 3, DescribeDelegationTokenResponse)
            assert (answer.error_code, answer.tokens) == (code, [])
            if listener != "LOGIN":
                listed = client.ask(ApiVersionsRequest("name", "1"), 4, ApiVersionsResponse).api_keys
                versions = {each.api_key: (each.min_version, each.max_version) for each in listed}
                assert [versions[key] for key in (38, 39, 40, 41)] == [(1, 3), (1, 2), (1, 2), (1, 3)]


def test_other_owners_and_foreign_tokens_need_a_right() -> None:
    config = TOKENS | {"authorizer.class.name": STANDARD_AUTHORIZER}
    with (
        CoordinatorServer(config=config, users=USERS) as server,
        As(server, "alice") as alice,
        As(server, "bob") as bob,
    ):
        refused = create(alice, owner="bob")
        assert (refused.error_code, refused.principal_name, refused.hmac) == (65, "bob", b"")
        server.allow("alice", "CREATE_TOKENS", user="User:bob")
        made = create(alice, owner="bob")
        assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")
        own = create(bob)
        assert described(bob) == [made.token_id, own.token_id]
        # She has asked for the first.
        assert described(alice) == [made.token_id]
        server.allow("alice", "DESCRIBE", delegation_token=own.token_id)
        assert described(alice) == [made.token_id, own.token_id]
        server.clear_acls()
        assert described(alice) == [made.token_id]
        server.allow("alice", "DESCRIBE_TOKENS", user="User:bob")
        assert described(alice) == [made.token_id, own.token_id]
        with Client(server.bootstrap_of("LOGIN")) as client:
            assert log_in(client, made).error_code == 0
            assert create(client).error_code == NOT_ALLOWED


def test_no_hmac_is_left_behind(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with (
        caplog.at_level(logging.DEBUG),
        CoordinatorServer(config=TOKENS, users=USERS, control=True) as server,
    ):
        frames = server.call(lambda: watched(server))
        with As(server, "alice") as alice:
            made = create(alice)
            assert described(alice) == [made.token_id]
            assert renew(alice, made.hmac) == 0
            assert expire(alice, made.hmac, 1_000_000) == 0
            assert heartbeat(alice) == 25
        with Client(server.bootstrap_of("LOGIN")) as client:
            assert log_in(client, made).error_code == 0
        with Client(server.bootstrap_of("OPEN")) as client:
            data = request(RenewDelegationTokenRequest(made.hmac, -1), 2)[:-3]
            client.socket.sendall((len(data) - 4).to_bytes(4) + data[4:])
            assert client.is_closed_by_server()
        server.write_trace(tmp_path / "trace")
        left = server.call(lambda: repr([(each.request, each.answer) for each in frames])) + repr(server.events())
        left += caplog.text + (tmp_path / "trace").read_text() + repr(server.security) + repr(server.server.config)
        left += repr(vars(server.server.cluster.topics.settings))
        assert "malformed RenewDelegationToken request" in caplog.text
        # Frames were watched.
        assert b"\0\x0c" in b"".join(server.call(lambda: [each.request for each in frames]))
    secrets = (repr(made.hmac)[2:-1], made.hmac.hex(), b64encode(made.hmac).decode(), KEY)
    assert [secret for secret in secrets if secret in left] == []

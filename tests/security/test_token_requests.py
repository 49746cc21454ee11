"""The rules about delegation tokens, against the answers of Apache Kafka 4.4.0 to the same requests."""

from base64 import b64encode
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.apis.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafka_shim.apis.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from kafka_shim.apis.expire_delegation_token import ExpireDelegationTokenRequest
from kafka_shim.apis.renew_delegation_token import RenewDelegationTokenRequest
from kafka_shim.broker.settings import Settings
from kafka_shim.security.config import security_of, tokens_of
from kafka_shim.security.delegation import Removal, Tokens
from kafka_shim.security.mechanism import Authenticated, Challenge, Rejected
from kafka_shim.security.scram import Scram
from kafka_shim.security.token_requests import create_token, describe_tokens, expire_token, renew_token
from kafka_shim.security.users import Users

NOW = 1_000_000
LIFE, PERIOD = 7000, 1000
DISABLED, NOT_FOUND, MISMATCH, NOT_ALLOWED, EXPIRED, WRONG_TYPE = 61, 62, 63, 64, 66, 67


class Asker(NamedTuple):
    principal: str = "User:alice"
    is_proved: bool = True


ALICE, BOB, EVE = Asker(), Asker("User:bob"), Asker("User:eve")


def made(key: str | None = "key") -> Tokens:
    tokens = Tokens(key, LIFE, PERIOD, 500)
    tokens.place = Settings()
    return tokens


def create(tokens: Tokens, *renewers: str, client: Asker = ALICE, life: int = -1) -> CreateDelegationTokenResponse:
    wanted = [CreatableRenewers(*renewer.split(":")) for renewer in renewers]
    return create_token(CreateDelegationTokenRequest(None, None, wanted, life), client, tokens, NOW)


def renew(tokens: Tokens, hmac: bytes, period: int = -1, client: Asker = ALICE, now: int = NOW) -> tuple[int, int]:
    answer = renew_token(RenewDelegationTokenRequest(hmac, period), client, tokens, now)
    return answer.error_code, answer.expiry_timestamp_ms


def expire(tokens: Tokens, hmac: bytes, period: int = -1, client: Asker = ALICE, now: int = NOW) -> tuple[int, int]:
    answer = expire_token(ExpireDelegationTokenRequest(hmac, period), client, tokens, now)
    return answer.error_code, answer.expiry_timestamp_ms


def described(tokens: Tokens, *owners: str) -> list[str]:
    wanted = [DescribeDelegationTokenOwner(*owner.split(":")) for owner in owners] or None
    answer = describe_tokens(DescribeDelegationTokenRequest(wanted), ALICE, tokens)
    assert answer.error_code == 0
    return [token.token_id for token in answer.tokens]


@pytest.mark.parametrize(
    ("asked", "life"), [(-1, LIFE), (0, LIFE), (-9, LIFE), (LIFE + 1, LIFE), (2**63 - 1, LIFE), (300, 300)]
)
def test_a_token_lives_no_longer_than_asked_and_allowed(asked: int, life: int) -> None:
    answer = create(made(), life=asked)
    assert (answer.error_code, answer.issue_timestamp_ms) == (0, NOW)
    assert answer.max_timestamp_ms == NOW + life
    assert answer.expiry_timestamp_ms == NOW + min(life, PERIOD)
    assert (len(answer.token_id), len(answer.hmac)) == (22, 64)
    assert (answer.principal_name, answer.token_requester_principal_name) == ("alice", "alice")


def test_a_renewer_that_is_no_user_makes_no_token() -> None:
    tokens = made()
    answer = create(tokens, "User:bob", "Group:x")
    assert (answer.error_code, answer.issue_timestamp_ms, answer.token_id, answer.hmac) == (WRONG_TYPE, -1, "", b"")
    assert described(tokens) == []


def test_an_owner_without_a_type_is_an_error() -> None:
    for client in (ALICE, Asker(is_proved=False)):
        answer = create_token(CreateDelegationTokenRequest(None, "bob", [], -1), client, made(), NOW)
        assert (answer.error_code, answer.principal_name, answer.issue_timestamp_ms) == (-1, "ANONYMOUS", -1)
    for kind, name in (("User", None), ("User", ""), (None, "")):
        answer = create_token(CreateDelegationTokenRequest(kind, name, [], -1), ALICE, made(), NOW)
        assert (answer.error_code, answer.principal_name) == (0, "alice")


def test_all_tokens_together_have_a_limit() -> None:
    tokens = made()
    half = [CreatableRenewers("User", "x" * 500_000)]
    codes = [
        create_token(CreateDelegationTokenRequest(None, None, half, -1), ALICE, tokens, NOW).error_code
        for _ in range(3)
    ]
    assert codes == [0, 0, 44]
    small = create(tokens)
    assert small.error_code == 0
    assert expire(tokens, small.hmac) == (0, NOW)
    assert len(described(tokens)) == 2


def test_without_a_key_every_request_is_refused() -> None:
    tokens = made(None)
    answer = create(tokens)
    assert (answer.error_code, answer.max_timestamp_ms, answer.principal_name) == (DISABLED, 0, "alice")
    assert create(tokens, "Group:x").error_code == WRONG_TYPE
    assert renew(tokens, b"x") == expire(tokens, b"x") == (DISABLED, 0)
    assert describe_tokens(DescribeDelegationTokenRequest(None), ALICE, tokens).error_code == DISABLED


@pytest.mark.parametrize("key", [None, "key"])
def test_a_client_without_a_proof_of_its_own_is_refused_first(key: str | None) -> None:
    tokens, client = made(key), Asker(is_proved=False)
    answer = create(tokens, "Group:x", client=client)
    assert (answer.error_code, answer.issue_timestamp_ms, answer.max_timestamp_ms) == (NOT_ALLOWED, -1, -1)
    assert renew(tokens, b"x", client=client) == expire(tokens, b"x", client=client) == (NOT_ALLOWED, -1)
    assert describe_tokens(DescribeDelegationTokenRequest(None), client, tokens).error_code == NOT_ALLOWED


@pytest.mark.parametrize(("period", "ends"), [(-1, 1000), (0, 1000), (400, 400), (5000, 1000), (2**63 - 1, 1000)])
def test_a_renewal_is_bounded_by_the_period_of_the_server(period: int, ends: int) -> None:
    tokens = made()
    hmac = create(tokens).hmac
    assert renew(tokens, hmac, period, now=NOW + 500) == (0, NOW + 500 + ends)


def test_nothing_moves_an_end_past_the_life_of_a_token() -> None:
    tokens = made()
    hmac = create(tokens, life=1200).hmac
    assert renew(tokens, hmac, now=NOW + 900) == (0, NOW + 1200)
    assert expire(tokens, hmac, 2**63 - 1, now=NOW + 900) == (0, NOW + 1200)


def test_only_owner_and_renewers_change_a_token() -> None:
    tokens = made()
    hmac = create(tokens, "User:bob").hmac
    assert renew(tokens, hmac, client=BOB)[0] == 0
    assert renew(tokens, hmac, client=EVE) == expire(tokens, hmac, client=EVE) == (MISMATCH, 0)
    for unknown in (b"", b"x", hmac[:-1]):
        assert renew(tokens, unknown) == expire(tokens, unknown) == (NOT_FOUND, 0)
    assert expire(tokens, hmac, -7, client=BOB) == (0, NOW)
    assert renew(tokens, hmac) == (NOT_FOUND, 0)


def test_an_ended_token_is_known_until_its_removal() -> None:
    tokens = made()
    first, second = create(tokens, life=300), create(tokens)
    assert renew(tokens, first.hmac, now=NOW + 300)[0] == 0
    assert renew(tokens, first.hmac, now=NOW + 301) == expire(tokens, first.hmac, 0, now=NOW + 301) == (EXPIRED, 0)
    # As in Kafka, its end counts before its owner in the one request, and after it in the other.
    assert renew(tokens, first.hmac, client=EVE, now=NOW + 301)[0] == EXPIRED
    assert expire(tokens, first.hmac, 0, client=EVE, now=NOW + 301)[0] == MISMATCH
    assert described(tokens) == [first.token_id, second.token_id]
    removal = Removal(tokens, lambda now: NOW + int(now * 1000), 0.0)
    assert removal.due == 0.5
    removal.look(0.5)
    assert removal.due == 1.0
    assert described(tokens) == [second.token_id]
    assert renew(tokens, first.hmac) == (NOT_FOUND, 0)
    removal.look(1.5)
    assert described(tokens) == []
    assert removal.due == float("inf")


def test_an_ended_token_can_be_removed() -> None:
    tokens = made()
    token = create(tokens, life=300)
    assert expire(tokens, token.hmac, -1, now=NOW + 301) == (0, NOW + 301)
    assert described(tokens) == []


def test_a_filter_finds_requesters_too() -> None:
    tokens = made()
    made_for = CreateDelegationTokenRequest("User", "bob", [], -1)
    token = create_token(made_for, ALICE, tokens, NOW)
    assert (token.principal_name, token.token_requester_principal_name) == ("bob", "alice")
    assert described(tokens, "User:bob") == described(tokens, "User:alice") == [token.token_id]
    # The requester may see it, and may not change it.
    assert renew(tokens, token.hmac) == expire(tokens, token.hmac) == (MISMATCH, 0)


def test_a_filter_finds_owners_and_renewers() -> None:
    tokens = made()
    own, foreign = create(tokens).token_id, create(tokens, "User:alice", client=BOB).token_id
    assert described(tokens) == described(tokens, "User:alice") == [own, foreign]
    assert described(tokens, "User:bob") == [foreign]
    assert described(tokens, "User:eve") == described(tokens, "Group:alice") == []
    assert describe_tokens(DescribeDelegationTokenRequest([]), ALICE, tokens).tokens == []


def exchange(tokens: Tokens | None, user: str, password: str, extensions: str) -> Any:
    """Authenticate; return the last answer of the server."""
    from kafka_shim.conformance.tokens import scram

    server = Scram(Users({}), "SCRAM-SHA-512", tokens=tokens)
    client = scram("SCRAM-SHA-512", user, password, extensions)
    challenge = server.step(next(client), 0.0)
    assert isinstance(challenge, Challenge)
    return server.step(client.send(challenge.token), 0.0)


@pytest.mark.parametrize("extensions", [",tokenauth=true", ",tokenauth=TRUE", ",x=1,tokenauth=true"])
def test_a_token_authenticates_as_its_owner_until_its_end(extensions: str) -> None:
    tokens = made()
    token = create(tokens, client=BOB)
    for _ in range(2):
        outcome = exchange(tokens, token.token_id, b64encode(token.hmac).decode(), extensions)
        assert isinstance(outcome, Authenticated)
        assert outcome[1:] == ("User:bob", (NOW + PERIOD) / 1000, True)


@pytest.mark.parametrize("extensions", ["", ",tokenauth=false", ",other=true"])
def test_without_the_extension_a_token_is_no_user(extensions: str) -> None:
    tokens = made()
    token = create(tokens)
    with pytest.raises(Rejected, match="no such user"):
        exchange(tokens, token.token_id, b64encode(token.hmac).decode(), extensions)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30), st.sampled_from(["n=", "n=x"]))
def test_any_extensions_are_read_or_refused(extensions: str, name: str) -> None:
    tokens = made()
    token = create(tokens)
    for user in (token.token_id, "x"):
        server = Scram(Users({}), "SCRAM-SHA-256", tokens=tokens)
        try:
            answer = server.step(f"n,,{name}{user},r=nonce{extensions}".encode(), 0.0)
        except Rejected:
            continue
        assert isinstance(answer, Challenge)
        assert "tokenauth=true" in extensions.lower()
        assert name + user == f"n={token.token_id}"


def test_a_removed_token_or_another_password_is_refused() -> None:
    tokens = made()
    token = create(tokens)
    with pytest.raises(Rejected, match="a wrong password"):
        exchange(tokens, token.token_id, b64encode(token.hmac[:-1]).decode(), ",tokenauth=true")
    expire(tokens, token.hmac)
    for place in (tokens, made(None), None):
        with pytest.raises(Rejected, match="no such delegation token"):
            exchange(place, token.token_id, b64encode(token.hmac).decode(), ",tokenauth=true")


def test_another_key_makes_other_hmacs_of_stored_tokens() -> None:
    tokens, other = made(), made("other key")
    token = create(tokens)
    other.place = tokens.place
    assert described(other) == [token.token_id]
    assert renew(other, token.hmac) == (NOT_FOUND, 0)


def test_the_settings_are_those_of_kafka() -> None:
    tokens = tokens_of({})
    assert (tokens.are_on, tokens.longest, tokens.period, tokens.interval) == (False, 604800000, 86400000, 3600000)
    chosen = security_of(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "delegation.token.secret.key": "a secret",
            "delegation.token.max.lifetime.ms": "3",
            "delegation.token.expiry.time.ms": "2",
            "delegation.token.expiry.check.interval.ms": "1",
        }
    )
    assert chosen is not None
    tokens = chosen.tokens
    assert (tokens.are_on, tokens.longest, tokens.period, tokens.interval) == (True, 3, 2, 1)
    assert "a secret" not in repr(tokens) + repr(chosen)


@pytest.mark.parametrize("value", ["0", "-1", "", "1.5", "x", "٣", "9" * 30])
def test_a_time_that_cannot_be_is_refused_at_the_start(value: str) -> None:
    with pytest.raises(ValueError, match=r"expiry\.time\.ms is .* not a number from 1"):
        tokens_of({"delegation.token.expiry.time.ms": value})


def test_no_text_of_a_message_has_the_hmac() -> None:
    tokens = made()
    token = create(tokens)
    listed = describe_tokens(DescribeDelegationTokenRequest(None), ALICE, tokens)
    texts = [token, listed, RenewDelegationTokenRequest(token.hmac, 1), ExpireDelegationTokenRequest(token.hmac, 1)]
    assert token.token_id in repr(listed)
    assert repr(token.hmac)[2:-1] not in "".join(map(repr, texts))

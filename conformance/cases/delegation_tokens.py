"""Cases about delegation tokens: the requests about them, and a login by one."""

from __future__ import annotations

import base64
import time
from functools import partial
from typing import Any, Final

from kafka_shim.apis.api_versions import ApiVersionsRequest
from kafka_shim.apis.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kafka_shim.apis.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kafka_shim.apis.expire_delegation_token import ExpireDelegationTokenRequest
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.renew_delegation_token import RenewDelegationTokenRequest
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance import sasl
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.sasl_states import closes, generic
from kafka_shim.conformance.targets.secured import LOGIN, SECURITY, TOKEN_LIFE_MS, TOKEN_PERIOD_MS
from kafka_shim.conformance.tokens import scram
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.user import User
from kafka_shim.conformance.wire import Connection

SHA_512: Final = "SCRAM-SHA-512"
NOT_ALLOWED: Final = E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
_SECONDS: Final = 25.0
_LIFE_MS: Final = 4_000

token_case = partial(case, source="semantics 6.10", profile=SECURITY)
create_case = partial(token_case, api="CreateDelegationToken", uses=("DescribeDelegationToken",))
renew_case = partial(token_case, api="RenewDelegationToken", uses=("CreateDelegationToken", "DescribeDelegationToken"))
expire_case = partial(
    token_case, api="ExpireDelegationToken", uses=("CreateDelegationToken", "DescribeDelegationToken")
)
describe_case = partial(token_case, api="DescribeDelegationToken", uses=("CreateDelegationToken",))
login_case = partial(token_case, uses=("CreateDelegationToken", "DescribeDelegationToken", "ExpireDelegationToken"))


def call(t: Trial, user: User, request: Message) -> Any:
    """Send a request of the user, in the version of the cell if it is of its API."""
    return user.call(request, t.version_of(request))


def ask_for(t: Trial, user: User, *renewers: User, life: int = -1, owner: str | None = None) -> Any:
    """Ask for a token; return the answer."""
    kind = None if owner is None else "User"
    names = [CreatableRenewers("User", renewer.name) for renewer in renewers]
    return call(t, user, CreateDelegationTokenRequest(kind, owner, names, life))


def create(t: Trial, user: User, *renewers: User, life: int = -1, owner: str | None = None) -> Any:
    """Create a token, and wait until the broker shows it; return the answer."""
    token = t.expect(ask_for(t, user, *renewers, life=life, owner=owner), error_code=0)
    if owner is None:
        await_token(t, user, token.token_id)
    return token


def visible(t: Trial, user: User, *owners: str) -> dict[str, DescribedDelegationToken]:
    """Return the tokens that the user may see, of these owners or of all."""
    names = [DescribeDelegationTokenOwner("User", owner) for owner in owners] or None
    answer = t.expect(call(t, user, DescribeDelegationTokenRequest(names)), error_code=0)
    return {token.token_id: token for token in answer.tokens}


def await_token(t: Trial, user: User, token_id: str, expiry: int | None = None) -> None:
    """Wait until the broker shows a token, and with this end."""
    t.until(
        lambda: visible(t, user),
        lambda now: token_id in now and expiry in (None, now[token_id].expiry_timestamp),
        "the token never showed",
        _SECONDS,
    )


def await_end(t: Trial, user: User, token_id: str, expiry: int) -> None:
    """Wait until the broker shows a token with this end, or no more."""
    t.until(
        lambda: visible(t, user).get(token_id),
        lambda now: now is None or now.expiry_timestamp == expiry,
        "the end never showed",
        _SECONDS,
    )


def await_removal(t: Trial, user: User, token_id: str) -> None:
    """Wait until the broker shows a token no more."""
    t.until(lambda: visible(t, user), lambda now: token_id not in now, "the token never went", _SECONDS)


def renew(t: Trial, user: User, hmac: bytes, period: int = -1) -> Any:
    """Renew a token; return the answer."""
    return call(t, user, RenewDelegationTokenRequest(hmac, period))


def expire(t: Trial, user: User, hmac: bytes, period: int = -1) -> Any:
    """Let a token end; return the answer."""
    return call(t, user, ExpireDelegationTokenRequest(hmac, period))


def log_in(
    t: Trial, token_id: str, hmac: bytes, mechanism: str = SHA_512, extensions: str = ",tokenauth=true"
) -> tuple[Connection, Any]:
    """Authenticate by a token; return the connection and the last answer."""
    wire = t.connect_securely(LOGIN)
    t.expect(sasl.handshake(wire, mechanism), error_code=0)
    exchange = scram(mechanism, token_id, base64.b64encode(hmac).decode(), extensions)
    answer = sasl.authenticate(wire, next(exchange))
    if answer.error_code == 0:
        answer = sasl.authenticate(wire, exchange.send(answer.auth_bytes))
    return wire, answer


# The four requests


@create_case("tokens/create/1", "A token has its owner and its requester, and ends after the period of the broker")
def creation(t: Trial) -> None:
    alice, bob = User(t), User(t, "bob")
    token = create(t, alice, bob)
    t.equal((token.principal_type, token.principal_name), ("User", alice.name), "the owner")
    if t.version >= 3:
        requester = token.token_requester_principal_type, token.token_requester_principal_name
        t.equal(requester, ("User", alice.name), "the requester")
    t.equal(token.expiry_timestamp_ms - token.issue_timestamp_ms, TOKEN_PERIOD_MS, "the time until the end")
    t.equal(token.max_timestamp_ms - token.issue_timestamp_ms, TOKEN_LIFE_MS, "the longest life")
    t.equal((len(token.token_id), len(token.hmac)), (22, 64), "the lengths of id and HMAC")
    listing = visible(t, alice)[token.token_id]
    t.expect(
        listing,
        principal_name=alice.name,
        issue_timestamp=token.issue_timestamp_ms,
        expiry_timestamp=token.expiry_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        hmac=token.hmac,
    )
    renewers = [(each.principal_type, each.principal_name) for each in listing.renewers]
    t.equal(renewers, [("User", bob.name)], "the renewers")


@create_case("tokens/create/2", "A client may ask for a shorter life, not for a longer one; 0 and less ask for none")
def lives(t: Trial) -> None:
    alice = User(t)
    for request_ms, life in (
        (60_000, 60_000),
        (TOKEN_LIFE_MS + 1, TOKEN_LIFE_MS),
        (0, TOKEN_LIFE_MS),
        (-5, TOKEN_LIFE_MS),
    ):
        token = t.expect(ask_for(t, alice, life=request_ms), error_code=0)
        t.equal(token.max_timestamp_ms - token.issue_timestamp_ms, life, f"the longest life after {request_ms}")
        t.equal(
            token.expiry_timestamp_ms - token.issue_timestamp_ms,
            min(life, TOKEN_PERIOD_MS),
            f"the time until the end after {request_ms}",
        )


@create_case("tokens/create/3", "A renewer of another type than User is 67, and there is no token")
def renewer_of_another_type(t: Trial) -> None:
    alice = User(t)
    request = CreateDelegationTokenRequest(None, None, [CreatableRenewers("Group", "x")], -1)
    answer = t.expect(call(t, alice, request), error_code=E.INVALID_PRINCIPAL_TYPE, token_id="", hmac=b"")
    t.equal((answer.principal_type, answer.principal_name), ("User", alice.name), "the owner")
    times = answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms
    t.equal(times, (-1, -1, -1), "the times")
    t.equal(visible(t, alice), {}, "the tokens")


@create_case(
    "tokens/create/4", "A token for another owner needs CREATE_TOKENS on that user, else it is 65", versions=(3, 3)
)
def other_owner(t: Trial) -> None:
    alice, bob = User(t), User(t, "bob")
    refused = t.expect(
        ask_for(t, alice, owner=bob.name), error_code=E.DELEGATION_TOKEN_AUTHORIZATION_FAILED, token_id="", hmac=b""
    )
    times = refused.issue_timestamp_ms, refused.expiry_timestamp_ms, refused.max_timestamp_ms
    t.equal(times, (-1, -1, -1), "the times")
    t.equal(refused.principal_name, bob.name, "the owner of the refused token")
    alice.allow("CREATE_TOKENS", user=bob.principal)
    token = create(t, alice, owner=bob.name)
    t.expect(token, principal_name=bob.name, token_requester_principal_name=alice.name)
    await_token(t, bob, token.token_id)
    t.expect(visible(t, bob)[token.token_id], principal_name=bob.name, token_requester_principal_name=alice.name)
    t.equal({*visible(t, alice)}, {token.token_id}, "the tokens of the requester")
    t.equal({*visible(t, bob, alice.name)}, {token.token_id}, "the tokens that alice has asked for")
    t.expect(expire(t, alice, token.hmac), error_code=E.DELEGATION_TOKEN_OWNER_MISMATCH)


@create_case("tokens/create/5", "On a plain listener each request about tokens is 64")
def plain_listener(t: Trial) -> None:
    token = t.expect(t.call(CreateDelegationTokenRequest()), error_code=NOT_ALLOWED, token_id="", hmac=b"")
    t.equal((token.principal_type, token.principal_name), ("User", "ANONYMOUS"), "the owner")
    times = token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms
    t.equal(times, (-1, -1, -1), "the times")
    for request in (RenewDelegationTokenRequest(b"x", -1), ExpireDelegationTokenRequest(b"x", -1)):
        t.expect(t.call(request), error_code=NOT_ALLOWED, expiry_timestamp_ms=-1)
    t.expect(t.call(DescribeDelegationTokenRequest(None)), error_code=NOT_ALLOWED, tokens=[])


@renew_case(
    "tokens/renew/1", "A renewal lets a token end after the asked period, at most that of the broker or its life"
)
def renewal(t: Trial) -> None:
    alice = User(t)
    token = create(t, alice, life=600_000)
    for period, limit in ((60_000, 60_000), (300_000, 300_000)):
        before = time.time() * 1000
        ends = t.expect(renew(t, alice, token.hmac, period), error_code=0).expiry_timestamp_ms
        t.check(-2_000 < ends - before - limit < 20_000, f"the token ends {ends - before} ms later, not {limit}")
        await_token(t, alice, token.token_id, ends)
    for period in (TOKEN_LIFE_MS * 2, 0, -1, -7):
        answer = t.expect(renew(t, alice, token.hmac, period), error_code=0)
        t.equal(answer.expiry_timestamp_ms, token.max_timestamp_ms, f"the end after {period}")


@renew_case("tokens/renew/2", "Owner and renewers may renew a token, others get 63; an unknown HMAC is 62")
def renewers(t: Trial) -> None:
    alice, bob, eve = User(t), User(t, "bob"), User(t, "eve")
    token = create(t, alice, bob)
    t.expect(renew(t, bob, token.hmac), error_code=0)
    t.expect(renew(t, eve, token.hmac), error_code=E.DELEGATION_TOKEN_OWNER_MISMATCH, expiry_timestamp_ms=0)
    for unknown in (b"", b"x", token.hmac[:-1], token.hmac[:-1] + bytes([token.hmac[-1] ^ 1])):
        t.expect(renew(t, alice, unknown), error_code=E.DELEGATION_TOKEN_NOT_FOUND, expiry_timestamp_ms=0)


@renew_case("tokens/renew/3", "A token that has ended is 66 until the broker removes it, then 62", cap=60)
def renewal_of_ended(t: Trial) -> None:
    alice = User(t)
    codes: set[int] = set()
    for _ in range(20):
        token = create(t, alice)
        ends = t.expect(expire(t, alice, token.hmac, 0), error_code=0).expiry_timestamp_ms
        await_end(t, alice, token.token_id, ends)
        t.lapse(50)
        # The broker may remove it at once: then the next token is tried.
        code = renew(t, alice, token.hmac).error_code
        t.check(code in (E.DELEGATION_TOKEN_EXPIRED, E.DELEGATION_TOKEN_NOT_FOUND), f"the error is {code}")
        codes.add(code)
        if E.DELEGATION_TOKEN_EXPIRED in codes:
            break
    t.check(E.DELEGATION_TOKEN_EXPIRED in codes, "no token was 66")
    await_removal(t, alice, token.token_id)
    t.expect(renew(t, alice, token.hmac), error_code=E.DELEGATION_TOKEN_NOT_FOUND)


@expire_case("tokens/expire/1", "A period ends a token earlier or later, within its life; a negative one removes it")
def expiry(t: Trial) -> None:
    alice = User(t)
    token = create(t, alice, life=600_000)
    before = time.time() * 1000
    ends = t.expect(expire(t, alice, token.hmac, 120_000), error_code=0).expiry_timestamp_ms
    t.check(-2_000 < ends - before - 120_000 < 20_000, f"the token ends {ends - before} ms later, not 120,000")
    await_token(t, alice, token.token_id, ends)
    answer = t.expect(expire(t, alice, token.hmac, 900_000), error_code=0)
    t.equal(answer.expiry_timestamp_ms, token.max_timestamp_ms, "the end after a longer period")
    removed = t.expect(expire(t, alice, token.hmac, -9), error_code=0).expiry_timestamp_ms
    t.check(abs(removed - time.time() * 1000) < 20_000, f"the time of a removal is {removed}")
    await_removal(t, alice, token.token_id)
    t.expect(expire(t, alice, token.hmac), error_code=E.DELEGATION_TOKEN_NOT_FOUND, expiry_timestamp_ms=0)


@expire_case("tokens/expire/2", "Owner and renewers may end a token, others get 63")
def expiry_by_others(t: Trial) -> None:
    alice, bob, eve = User(t), User(t, "bob"), User(t, "eve")
    token = create(t, alice, bob)
    t.expect(expire(t, eve, token.hmac), error_code=E.DELEGATION_TOKEN_OWNER_MISMATCH, expiry_timestamp_ms=0)
    t.expect(expire(t, bob, token.hmac), error_code=0)
    await_removal(t, alice, token.token_id)


@describe_case(
    "tokens/describe/1", "A filter by owners finds tokens that they own or may renew; an empty list finds none"
)
def filters(t: Trial) -> None:
    alice, bob = User(t), User(t, "bob")
    own, foreign = create(t, alice), create(t, bob, alice)
    await_token(t, alice, foreign.token_id)
    t.equal({*visible(t, alice)}, {own.token_id, foreign.token_id}, "all tokens of alice")
    t.equal({*visible(t, bob)}, {foreign.token_id}, "all tokens of bob")
    t.equal({*visible(t, alice, alice.name)}, {own.token_id, foreign.token_id}, "those of or for alice")
    t.equal({*visible(t, alice, bob.name)}, {foreign.token_id}, "those of bob that alice may see")
    t.equal({*visible(t, bob, alice.name)}, {foreign.token_id}, "those of or for alice that bob may see")
    nobody: list[DescribeDelegationTokenOwner] = []
    t.expect(call(t, alice, DescribeDelegationTokenRequest(nobody)), error_code=0, tokens=[])
    if t.version >= 3:
        token = visible(t, alice)[foreign.token_id]
        t.expect(token, token_requester_principal_type="User", token_requester_principal_name=bob.name)


@describe_case(
    "tokens/describe/2", "DESCRIBE on a token shows it, and DESCRIBE_TOKENS on a user those that the user owns"
)
def rights(t: Trial) -> None:
    alice, bob, eve = User(t), User(t, "bob"), User(t, "eve")
    first, second = create(t, alice), create(t, alice, bob)
    t.equal(visible(t, eve), {}, "the tokens without a right")
    eve.allow("DESCRIBE", delegation_token=first.token_id)
    t.until(lambda: {*visible(t, eve)}, lambda now: now == {first.token_id}, "the token of the ACL never showed")
    eve.revoke()
    eve.allow("DESCRIBE_TOKENS", user=bob.principal)
    t.equal(visible(t, eve), {}, "the tokens of a renewer")
    eve.allow("DESCRIBE_TOKENS", user=alice.principal)
    both = {first.token_id, second.token_id}
    t.until(lambda: {*visible(t, eve)}, lambda now: now == both, "the tokens of the owner never showed")


@token_case("tokens/versions/1", "The four requests are advertised", api="ApiVersions", versions=(3, 5))
def advertised(t: Trial) -> None:
    listed = {each.api_key for each in t.call(ApiVersionsRequest("suite", "1")).api_keys}
    keys = {
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
    t.equal(keys - listed, set(), "those that are not advertised")


# A login by a token


@login_case("tokens/login/1", "A token logs in by SCRAM as its owner, and the session ends with it")
def login(t: Trial) -> None:
    alice = User(t)
    token = create(t, alice)
    for mechanism in ("SCRAM-SHA-256", SHA_512):
        wire, answer = log_in(t, token.token_id, token.hmac, mechanism)
        t.expect(answer, error_code=0, error_message="")
        rest = token.expiry_timestamp_ms - time.time() * 1000
        lifetime = answer.session_lifetime_ms
        t.check(abs(lifetime - rest) < 10_000, f"the session lasts {lifetime} ms, the token {rest}")
        version = t.version_of("CreateDelegationToken")
        answer = wire.call(CreateDelegationTokenRequest(), version)
        t.expect(answer, error_code=NOT_ALLOWED, principal_name=alice.name)
        t.equal(answer.token_requester_principal_name, alice.name if version >= 3 else "", "the requester")
        for request in (RenewDelegationTokenRequest(token.hmac, -1), ExpireDelegationTokenRequest(token.hmac, -1)):
            t.expect(wire.call(request, t.version_of(request)), error_code=NOT_ALLOWED, expiry_timestamp_ms=-1)
        t.expect(
            wire.call(DescribeDelegationTokenRequest(None), t.version_of("DescribeDelegationToken")),
            error_code=NOT_ALLOWED,
            tokens=[],
        )


@login_case("tokens/login/2", "An unknown token, a wrong password and a missing extension are 58, with the same text")
def wrong_logins(t: Trial) -> None:
    alice = User(t)
    token = create(t, alice)
    wrong = bytes([token.hmac[0] ^ 1]) + token.hmac[1:]
    attempts = (
        (token.token_id, wrong, ",tokenauth=true"),
        ("AAAAAAAAAAAAAAAAAAAAAA", token.hmac, ",tokenauth=true"),
        (token.token_id, token.hmac, ""),
        (token.token_id, token.hmac, ",tokenauth=false"),
        (token.token_id, token.hmac, ",other=true"),
    )
    for token_id, hmac, extensions in attempts:
        _, answer = log_in(t, token_id, hmac, SHA_512, extensions)
        t.expect(answer, error_code=E.SASL_AUTHENTICATION_FAILED, error_message=generic(SHA_512), auth_bytes=b"")
    _, answer = log_in(t, token.token_id, token.hmac, SHA_512, ",tokenauth=TRUE")
    t.expect(answer, error_code=0)


@login_case("tokens/login/3", "A renewal and a removal of a token do not touch sessions; no login follows a removal")
def login_after_removal(t: Trial) -> None:
    alice = User(t)
    token = create(t, alice)
    wire, answer = log_in(t, token.token_id, token.hmac)
    t.expect(answer, error_code=0)
    ends = t.expect(expire(t, alice, token.hmac, 600_000), error_code=0).expiry_timestamp_ms
    await_token(t, alice, token.token_id, ends)
    _, later = log_in(t, token.token_id, token.hmac)
    t.check(later.session_lifetime_ms <= 600_000, f"the session lasts {later.session_lifetime_ms} ms")
    t.expect(expire(t, alice, token.hmac), error_code=0)
    await_removal(t, alice, token.token_id)
    _, refused = log_in(t, token.token_id, token.hmac)
    t.expect(refused, error_code=E.SASL_AUTHENTICATION_FAILED, error_message=generic(SHA_512))
    t.expect(
        wire.call(DescribeDelegationTokenRequest(None), t.version_of("DescribeDelegationToken")), error_code=NOT_ALLOWED
    )


@login_case("tokens/login/4", "A session of a token ends with it: the next request closes the connection")
def end_of_session(t: Trial) -> None:
    alice = User(t)
    token = create(t, alice)
    ends = t.expect(expire(t, alice, token.hmac, _LIFE_MS), error_code=0).expiry_timestamp_ms
    await_token(t, alice, token.token_id, ends)
    wire, answer = log_in(t, token.token_id, token.hmac)
    t.expect(answer, error_code=0)
    t.check(0 < answer.session_lifetime_ms <= _LIFE_MS, f"the session lasts {answer.session_lifetime_ms} ms")
    t.lapse(answer.session_lifetime_ms + 300)
    wire.send(DescribeDelegationTokenRequest(None), t.version_of("DescribeDelegationToken"))
    closes(t, wire)

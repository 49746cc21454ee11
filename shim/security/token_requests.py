"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken on the tokens of a
server (KIP-48, KIP-373).

Sources: Kafka's `KafkaApis.allowTokenRequests`, `DelegationTokenControlManager`; the answers of a running Kafka 4.4.0.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Final, Protocol
from uuid import uuid4

from kafka_shim.apis.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    error,
)
from kafka_shim.apis.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafka_shim.apis.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kafka_shim.apis.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.security.delegation import USER, Principal, Token, Tokens, principal_of


class Client(Protocol):
    """The sender of a request. `is_proved`: it has proved its name, and not by a token."""

    @property
    def principal(self) -> str: ...

    @property
    def is_proved(self) -> bool: ...


OFF: Final = Tokens(None, 1, 1, 1)
"""The tokens of a server without any."""
_NO_TIME: Final = -1


def owner_of(request: CreateDelegationTokenRequest, client: Client) -> Principal:
    """Return the owner of the token that a request asks for."""
    if request.owner_principal_name:
        return request.owner_principal_type or "", request.owner_principal_name
    return principal_of(client.principal)


def has_no_type(request: CreateDelegationTokenRequest) -> bool:
    """Return True for an owner without a type."""
    return bool(request.owner_principal_name) and request.owner_principal_type is None


def creation_refused(
    request: CreateDelegationTokenRequest, client: Client, code: int, time: int = _NO_TIME
) -> CreateDelegationTokenResponse:
    """Return the answer without a token."""
    owner, requester = owner_of(request, client), principal_of(client.principal)
    return CreateDelegationTokenResponse(code, *owner, *requester, time, time, time)


def create_token(
    request: CreateDelegationTokenRequest, client: Client, tokens: Tokens, now: int
) -> CreateDelegationTokenResponse:
    """Create a token.

    Errors, in this order: UNKNOWN_SERVER_ERROR (-1) for an owner without a type,
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (64) for a client without a proof of its own, INVALID_PRINCIPAL_TYPE (67) for a
    renewer that is no user, DELEGATION_TOKEN_AUTH_DISABLED (61), POLICY_VIOLATION (44) beyond the limit of all tokens.
    """
    if has_no_type(request):
        return error(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    if not client.is_proved:
        return creation_refused(request, client, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if any(renewer.principal_type != USER for renewer in request.renewers):
        return creation_refused(request, client, ErrorCode.INVALID_PRINCIPAL_TYPE)
    if not tokens.are_on:
        return creation_refused(request, client, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0)
    life = tokens.longest
    if request.max_lifetime_ms > 0:
        life = min(life, request.max_lifetime_ms)
    token = Token(
        _new_id(),
        owner_of(request, client),
        principal_of(client.principal),
        tuple((renewer.principal_type, renewer.principal_name) for renewer in request.renewers),
        issued=now,
        ends=now + min(life, tokens.period),
        latest=now + life,
    )
    if not tokens.have_room_for(token):
        return creation_refused(request, client, ErrorCode.POLICY_VIOLATION)
    tokens.put(token)
    return CreateDelegationTokenResponse(
        0, *token.owner, *token.requester, now, token.ends, token.latest, token.id, tokens.hmac_of(token)
    )


def _new_id() -> str:
    # Kafka's spelling of a random id.
    return urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")


def renew_token(
    request: RenewDelegationTokenRequest, client: Client, tokens: Tokens, now: int
) -> RenewDelegationTokenResponse:
    """Let a token end later: after the period of the request or that of the server, if it is shorter.

    Errors, in this order: see `_by_hmac`; DELEGATION_TOKEN_EXPIRED (66); DELEGATION_TOKEN_OWNER_MISMATCH (63).
    """
    token = _by_hmac(request.hmac, client, tokens)
    if not isinstance(token, Token):
        return RenewDelegationTokenResponse(*token)
    if token.has_ended(now):
        return RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not token.changes_by(principal_of(client.principal)):
        return RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    period = tokens.period
    if request.renew_period_ms > 0:
        period = min(period, request.renew_period_ms)
    ends = min(token.latest, now + period)
    tokens.put(token._replace(ends=ends))
    return RenewDelegationTokenResponse(0, ends)


def expire_token(
    request: ExpireDelegationTokenRequest, client: Client, tokens: Tokens, now: int
) -> ExpireDelegationTokenResponse:
    """Let a token end after a period, or remove it, also after its end, if the period is negative.

    Errors, in this order: see `_by_hmac`; DELEGATION_TOKEN_OWNER_MISMATCH (63); DELEGATION_TOKEN_EXPIRED (66).
    """
    token = _by_hmac(request.hmac, client, tokens)
    if not isinstance(token, Token):
        return ExpireDelegationTokenResponse(*token)
    if not token.changes_by(principal_of(client.principal)):
        return ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    if request.expiry_time_period_ms < 0:
        tokens.remove({token.id})
        return ExpireDelegationTokenResponse(0, now)
    if token.has_ended(now):
        return ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    ends = min(token.latest, now + request.expiry_time_period_ms)
    tokens.put(token._replace(ends=ends))
    return ExpireDelegationTokenResponse(0, ends)


def _by_hmac(hmac: bytes, client: Client, tokens: Tokens) -> Token | tuple[int, int]:
    """Return the token with an HMAC, or the error and the time of the answer: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (64)
    for a client without a proof of its own, DELEGATION_TOKEN_AUTH_DISABLED (61), DELEGATION_TOKEN_NOT_FOUND (62)."""
    if not client.is_proved:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, _NO_TIME
    if not tokens.are_on:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0
    return tokens.with_hmac(hmac) or (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


def describe_tokens(
    request: DescribeDelegationTokenRequest, client: Client, tokens: Tokens
) -> DescribeDelegationTokenResponse:
    """Describe the tokens of which one of the owners in the request is owner, requester or renewer, or all without
    owners.

    Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (64) for a client without a proof of its own,
    DELEGATION_TOKEN_AUTH_DISABLED (61).
    """
    if not client.is_proved:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not tokens.are_on:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None if request.owners is None else {(each.principal_type, each.principal_name) for each in request.owners}
    return DescribeDelegationTokenResponse(
        tokens=[
            DescribedDelegationToken(
                *token.owner,
                *token.requester,
                token.issued,
                token.ends,
                token.latest,
                token.id,
                tokens.hmac_of(token),
                [DescribedDelegationTokenRenewer(*renewer) for renewer in token.renewers],
            )
            for token in tokens.all().values()
            if owners is None or not owners.isdisjoint((token.owner, token.requester, *token.renewers))
        ]
    )

"""DescribeDelegationToken (41): the tokens of some owners that the client may see (KIP-48). Its answer is secret.

v0  the first
v1  throttled after the answer
v2  flexible
v3  the client that asked for the token (KIP-373)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, bytes_, field, int16, int32, int64, string

_KEY = ApiKey.DESCRIBE_DELEGATION_TOKEN


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = field(string)
    principal_name: str = field(string)


class DescribeDelegationTokenRequest(Message, key=_KEY, versions="0-3", flexible="2+"):
    """Without owners all tokens are meant."""

    owners: list[DescribeDelegationTokenOwner] | None = field(array(DescribeDelegationTokenOwner), nullable="0+")


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = field(string)
    principal_name: str = field(string)


class DescribedDelegationToken(Struct):
    principal_type: str = field(string)
    principal_name: str = field(string)
    token_requester_principal_type: str = field(string, versions="3+", ignorable=True)
    token_requester_principal_name: str = field(string, versions="3+", ignorable=True)
    issue_timestamp: int = field(int64)
    expiry_timestamp: int = field(int64)
    max_timestamp: int = field(int64)
    token_id: str = field(string)
    hmac: bytes = field(bytes_)
    renewers: list[DescribedDelegationTokenRenewer] = field(array(DescribedDelegationTokenRenewer))

    def __repr__(self) -> str:
        return f"DescribedDelegationToken(token_id={self.token_id!r})"


class DescribeDelegationTokenResponse(Message, key=_KEY, versions="0-3", flexible="2+"):
    error_code: int = field(int16)
    tokens: list[DescribedDelegationToken] = field(array(DescribedDelegationToken))
    throttle_time_ms: int = field(int32)


def error(request: DescribeDelegationTokenRequest, code: int) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(code)


API = Api(_KEY, "DescribeDelegationToken", DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, error)

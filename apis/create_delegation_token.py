"""CreateDelegationToken (38): makes a token by which other clients log in as its owner (KIP-48). Its answer is secret.

v0  the first
v1  throttled after the answer
v2  flexible
v3  an owner other than the client (KIP-373)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, bytes_, field, int16, int32, int64, string

_KEY = ApiKey.CREATE_DELEGATION_TOKEN


class CreatableRenewers(Struct):
    principal_type: str = field(string)
    principal_name: str = field(string)


class CreateDelegationTokenRequest(Message, key=_KEY, versions="0-3", flexible="2+"):
    """Without an owner the client is the owner. `max_lifetime_ms` is -1 for the longest life of the broker."""

    owner_principal_type: str | None = field(string, versions="3+", nullable="3+", default=None)
    owner_principal_name: str | None = field(string, versions="3+", nullable="3+", default=None)
    renewers: list[CreatableRenewers] = field(array(CreatableRenewers))
    max_lifetime_ms: int = field(int64)


class CreateDelegationTokenResponse(Message, key=_KEY, versions="0-3", flexible="2+"):
    error_code: int = field(int16)
    principal_type: str = field(string)
    principal_name: str = field(string)
    token_requester_principal_type: str = field(string, versions="3+", ignorable=True)
    token_requester_principal_name: str = field(string, versions="3+", ignorable=True)
    issue_timestamp_ms: int = field(int64)
    expiry_timestamp_ms: int = field(int64)
    max_timestamp_ms: int = field(int64)
    token_id: str = field(string)
    hmac: bytes = field(bytes_)
    throttle_time_ms: int = field(int32)

    def __repr__(self) -> str:
        return f"CreateDelegationTokenResponse(error_code={self.error_code}, token_id={self.token_id!r})"


def error(request: CreateDelegationTokenRequest, code: int) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(code, "User", "ANONYMOUS", "User", "ANONYMOUS", -1, -1, -1)


API = Api(_KEY, "CreateDelegationToken", CreateDelegationTokenRequest, CreateDelegationTokenResponse, error)

"""ExpireDelegationToken (40): moves the end of a token, or removes it (KIP-48). Its bytes are secret.

v0  the first
v1  throttled after the answer
v2  flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, bytes_, field, int16, int32, int64

_KEY = ApiKey.EXPIRE_DELEGATION_TOKEN


class ExpireDelegationTokenRequest(Message, key=_KEY, versions="0-2", flexible="2+"):
    """A negative period removes the token."""

    hmac: bytes = field(bytes_)
    expiry_time_period_ms: int = field(int64)

    def __repr__(self) -> str:
        return f"ExpireDelegationTokenRequest(expiry_time_period_ms={self.expiry_time_period_ms})"


class ExpireDelegationTokenResponse(Message, key=_KEY, versions="0-2", flexible="2+"):
    error_code: int = field(int16)
    expiry_timestamp_ms: int = field(int64)
    throttle_time_ms: int = field(int32)


def error(request: ExpireDelegationTokenRequest, code: int) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(code)


API = Api(_KEY, "ExpireDelegationToken", ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, error)

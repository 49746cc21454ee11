"""RenewDelegationToken (39): moves the end of a token (KIP-48). Its bytes are secret.

v0  the first
v1  throttled after the answer
v2  flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, bytes_, field, int16, int32, int64

_KEY = ApiKey.RENEW_DELEGATION_TOKEN


class RenewDelegationTokenRequest(Message, key=_KEY, versions="0-2", flexible="2+"):
    """`renew_period_ms` is -1 for the longest period of the broker."""

    hmac: bytes = field(bytes_)
    renew_period_ms: int = field(int64)

    def __repr__(self) -> str:
        return f"RenewDelegationTokenRequest(renew_period_ms={self.renew_period_ms})"


class RenewDelegationTokenResponse(Message, key=_KEY, versions="0-2", flexible="2+"):
    error_code: int = field(int16)
    expiry_timestamp_ms: int = field(int64)
    throttle_time_ms: int = field(int32)


def error(request: RenewDelegationTokenRequest, code: int) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(code)


API = Api(_KEY, "RenewDelegationToken", RenewDelegationTokenRequest, RenewDelegationTokenResponse, error)

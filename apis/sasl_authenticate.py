"""SaslAuthenticate (36): carries one token of a SASL mechanism (KIP-152). Its bytes are secret.

v0  the first
v1  the answer has the lifetime of the session (KIP-368)
v2  flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, bytes_, field, int16, int64, string


class SaslAuthenticateRequest(Message, key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    auth_bytes: bytes = field(bytes_)


class SaslAuthenticateResponse(Message, key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    auth_bytes: bytes = field(bytes_)
    session_lifetime_ms: int = field(int64, versions="1+", default=0, ignorable=True)


def error(request: SaslAuthenticateRequest, code: int) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code)


API = Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", SaslAuthenticateRequest, SaslAuthenticateResponse, error)

"""SaslHandshake (17): chooses the mechanism of SASL (KIP-43).

v0  the first; the tokens that follow have no header
v1  the tokens that follow are SaslAuthenticate requests (KIP-152)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, array, field, int16, string


class SaslHandshakeRequest(Message, key=ApiKey.SASL_HANDSHAKE, versions="0-1", flexible="none"):
    mechanism: str = field(string)


class SaslHandshakeResponse(Message, key=ApiKey.SASL_HANDSHAKE, versions="0-1", flexible="none"):
    error_code: int = field(int16)
    mechanisms: list[str] = field(array(string))


def error(request: SaslHandshakeRequest, code: int) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code)


API = Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", SaslHandshakeRequest, SaslHandshakeResponse, error)

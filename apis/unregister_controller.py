"""UnregisterController (94): removes the registration of a controller that has gone for good.

v0  the first; flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, field, int16, int32, string


class UnregisterControllerRequest(Message, key=ApiKey.UNREGISTER_CONTROLLER, versions="0", flexible="0+"):
    controller_id: int = field(int32)


class UnregisterControllerResponse(Message, key=ApiKey.UNREGISTER_CONTROLLER, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


def error(request: UnregisterControllerRequest, code: int) -> UnregisterControllerResponse:
    return UnregisterControllerResponse(error_code=code)


API = Api(
    ApiKey.UNREGISTER_CONTROLLER,
    "UnregisterController",
    UnregisterControllerRequest,
    UnregisterControllerResponse,
    error,
)

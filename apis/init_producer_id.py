"""InitProducerId (22): gives a producer its id and epoch, for idempotence or for transactions.

v0  the first
v1  throttle time is taken after the answer is sent
v2  flexible
v3  a producer may ask for the next epoch of the id it has (KIP-360)
v4  PRODUCER_FENCED (90) may be answered; before, INVALID_PRODUCER_EPOCH (47)
v5  TRANSACTION_ABORTABLE (120) may be answered (KIP-890)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import ErrorCode, Message, field, int16, int32, int64, string


class InitProducerIdRequest(Message, key=ApiKey.INIT_PRODUCER_ID, versions="0-5", flexible="2+"):
    """A null `transactional_id` asks only for idempotence."""

    transactional_id: str | None = field(string, nullable="0+")
    transaction_timeout_ms: int = field(int32)
    producer_id: int = field(int64, versions="3+", default=-1)
    producer_epoch: int = field(int16, versions="3+", default=-1)


class InitProducerIdResponse(Message, key=ApiKey.INIT_PRODUCER_ID, versions="0-5", flexible="2+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    producer_id: int = field(int64, default=-1)
    producer_epoch: int = field(int16)


def shape(response: InitProducerIdResponse, version: int) -> InitProducerIdResponse:
    """Before version 4, replace PRODUCER_FENCED by INVALID_PRODUCER_EPOCH."""
    if version < 4 and response.error_code == ErrorCode.PRODUCER_FENCED:
        response.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return response


def error(request: InitProducerIdRequest, code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


API = Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", InitProducerIdRequest, InitProducerIdResponse, error, shape=shape)

"""AddOffsetsToTxn (25): makes the offsets of a group part of a transaction.

v0  the first
v1  throttle time is taken after the answer is sent
v2  PRODUCER_FENCED (90) may be answered; before, INVALID_PRODUCER_EPOCH (47)
v3  flexible
v4  TRANSACTION_ABORTABLE (120) may be answered (KIP-890)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import ErrorCode, Message, field, int16, int32, int64, string


class AddOffsetsToTxnRequest(Message, key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"):
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    group_id: str = field(string)


class AddOffsetsToTxnResponse(Message, key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)


def shape(response: AddOffsetsToTxnResponse, version: int) -> AddOffsetsToTxnResponse:
    """Before version 2, replace PRODUCER_FENCED by INVALID_PRODUCER_EPOCH."""
    if version < 2 and response.error_code == ErrorCode.PRODUCER_FENCED:
        response.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return response


def error(request: AddOffsetsToTxnRequest, code: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=code)


API = Api(
    ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, error, shape=shape
)

"""EndTxn (26): commits or aborts a transaction.

v0  the first
v1  throttle time is taken after the answer is sent
v2  PRODUCER_FENCED (90) may be answered; before, INVALID_PRODUCER_EPOCH (47)
v3  flexible
v4  TRANSACTION_ABORTABLE (120) may be answered (KIP-890)
v5  the epoch grows with each transaction, and the answer has the new one (KIP-890)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import ErrorCode, Message, boolean, field, int16, int32, int64, string


class EndTxnRequest(Message, key=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    committed: bool = field(boolean)


class EndTxnResponse(Message, key=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    producer_id: int = field(int64, versions="5+", default=-1, ignorable=True)
    producer_epoch: int = field(int16, versions="5+", default=-1, ignorable=True)


def shape(response: EndTxnResponse, version: int) -> EndTxnResponse:
    """Before version 2, replace PRODUCER_FENCED by INVALID_PRODUCER_EPOCH."""
    if version < 2 and response.error_code == ErrorCode.PRODUCER_FENCED:
        response.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return response


def error(request: EndTxnRequest, code: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)


API = Api(ApiKey.END_TXN, "EndTxn", EndTxnRequest, EndTxnResponse, error, shape=shape)

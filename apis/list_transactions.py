"""ListTransactions (66): the transactional ids that one broker coordinates (KIP-664).

v0  the first; flexible
v1  a filter by duration (KIP-994)
v2  a filter by a pattern of the id (KIP-1152)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, string


class ListTransactionsRequest(Message, key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"):
    """An empty filter, a `duration_filter` (ms) below 0 and a null pattern match all transactions."""

    state_filters: list[str] = field(array(string))
    producer_id_filters: list[int] = field(array(int64))
    duration_filter: int = field(int64, versions="1+", default=-1)
    transactional_id_pattern: str | None = field(string, versions="2+", nullable="2+", default=None)


class TransactionState(Struct):
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    transaction_state: str = field(string)


class ListTransactionsResponse(Message, key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    unknown_state_filters: list[str] = field(array(string))
    transaction_states: list[TransactionState] = field(array(TransactionState))


def error(request: ListTransactionsRequest, code: int) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=code)


API = Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", ListTransactionsRequest, ListTransactionsResponse, error)

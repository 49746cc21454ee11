"""DescribeTransactions (65): the state of transactional ids (KIP-664).

v0  the first; flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, string


class DescribeTransactionsRequest(Message, key=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"):
    transactional_ids: list[str] = field(array(string))


class TopicData(Struct):
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


class TransactionState(Struct):
    """`topics` has the partitions of the open transaction; once its end is decided, those that still lack the
    marker.
    """

    error_code: int = field(int16)
    transactional_id: str = field(string)
    transaction_state: str = field(string)
    transaction_timeout_ms: int = field(int32)
    transaction_start_time_ms: int = field(int64)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    topics: list[TopicData] = field(array(TopicData))


class DescribeTransactionsResponse(Message, key=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    transaction_states: list[TransactionState] = field(array(TransactionState))


def error(request: DescribeTransactionsRequest, code: int) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(code, each) for each in request.transactional_ids]
    )


API = Api(
    ApiKey.DESCRIBE_TRANSACTIONS,
    "DescribeTransactions",
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    error,
)

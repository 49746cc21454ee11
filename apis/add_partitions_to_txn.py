"""AddPartitionsToTxn (24): adds partitions to a transaction, or checks that they are in it.

v0  the first
v1  throttle time is taken after the answer is sent
v2  PRODUCER_FENCED (90) may be answered; before, INVALID_PRODUCER_EPOCH (47)
v3  flexible
v4  many transactions in one request; `verify_only`; used between brokers (KIP-890)
v5  TRANSACTION_ABORTABLE (120) may be answered (KIP-890)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import ErrorCode, Message, Struct, array, boolean, field, int16, int32, int64, string


class AddPartitionsToTxnTopic(Struct):
    name: str = field(string)
    partitions: list[int] = field(array(int32))


class AddPartitionsToTxnTransaction(Struct):
    """One transaction. With `verify_only`, check that the partitions are in it and add none."""

    transactional_id: str = field(string, versions="4+")
    producer_id: int = field(int64, versions="4+")
    producer_epoch: int = field(int16, versions="4+")
    verify_only: bool = field(boolean, versions="4+")
    topics: list[AddPartitionsToTxnTopic] = field(array(AddPartitionsToTxnTopic), versions="4+")


class AddPartitionsToTxnRequest(Message, key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnTransaction] = field(array(AddPartitionsToTxnTransaction), versions="4+")
    v3_and_below_transactional_id: str = field(string, versions="0-3")
    v3_and_below_producer_id: int = field(int64, versions="0-3")
    v3_and_below_producer_epoch: int = field(int16, versions="0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(array(AddPartitionsToTxnTopic), versions="0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = field(int32)
    partition_error_code: int = field(int16)


class AddPartitionsToTxnTopicResult(Struct):
    name: str = field(string)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(array(AddPartitionsToTxnPartitionResult))


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = field(string, versions="4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = field(array(AddPartitionsToTxnTopicResult), versions="4+")


class AddPartitionsToTxnResponse(Message, key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, versions="4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(array(AddPartitionsToTxnResult), versions="4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        array(AddPartitionsToTxnTopicResult), versions="0-3"
    )


def normalise(request: AddPartitionsToTxnRequest, version: int) -> AddPartitionsToTxnRequest:
    """Before version 4, move the single transaction into `transactions`. Changes `request` in place."""
    if version < 4:
        request.transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    return request


def shape(response: AddPartitionsToTxnResponse, version: int) -> AddPartitionsToTxnResponse:
    """Before version 4, answer with the results of the single transaction; before version 2, without
    PRODUCER_FENCED.
    """
    if version < 4 and response.results_by_transaction:
        (result,) = response.results_by_transaction
        response.results_by_transaction = []
        response.results_by_topic_v3_and_below = result.topic_results
    if version < 2:
        for topic in response.results_by_topic_v3_and_below:
            for partition in topic.results_by_partition:
                if partition.partition_error_code == ErrorCode.PRODUCER_FENCED:
                    partition.partition_error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return response


def error(request: AddPartitionsToTxnRequest, code: int) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        error_code=code,
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        topic.name, [AddPartitionsToTxnPartitionResult(index, code) for index in topic.partitions]
                    )
                    for topic in transaction.topics
                ],
            )
            for transaction in request.transactions
        ],
    )


API = Api(
    ApiKey.ADD_PARTITIONS_TO_TXN,
    "AddPartitionsToTxn",
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    error,
    normalise=normalise,
    shape=shape,
)

"""WriteTxnMarkers (27): a transaction coordinator tells partition leaders the end of a transaction: commit or abort.

v0  the first
v1  flexible
v2  transaction version
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Struct):
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


class WritableTxnMarker(Struct):
    """`transaction_result`: True for committed, False for aborted."""

    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    transaction_result: bool = field(boolean)
    topics: list[WritableTxnMarkerTopic] = field(array(WritableTxnMarkerTopic))
    coordinator_epoch: int = field(int32)
    transaction_version: int = field(int8, versions="2+", ignorable=True)


class WriteTxnMarkersRequest(Message, key=ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+"):
    markers: list[WritableTxnMarker] = field(array(WritableTxnMarker))


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)


class WritableTxnMarkerTopicResult(Struct):
    name: str = field(string)
    partitions: list[WritableTxnMarkerPartitionResult] = field(array(WritableTxnMarkerPartitionResult))


class WritableTxnMarkerResult(Struct):
    producer_id: int = field(int64)
    topics: list[WritableTxnMarkerTopicResult] = field(array(WritableTxnMarkerTopicResult))


class WriteTxnMarkersResponse(Message, key=ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = field(array(WritableTxnMarkerResult))


def error(request: WriteTxnMarkersRequest, code: int) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [WritableTxnMarkerPartitionResult(index, code) for index in topic.partition_indexes],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


API = Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", WriteTxnMarkersRequest, WriteTxnMarkersResponse, error)

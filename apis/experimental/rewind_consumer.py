"""RewindConsumer: sets the offsets from which a group continues.

v0  the only one

Source: Client Rewrite (https://cwiki.apache.org/confluence/display/KAFKA/Client+Rewrite), before Kafka 0.9. Its
version, correlation id and client id are those of Kafka's header.
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.experimental.register_consumer import PartitionToOwn
from kafka_shim.apis.keys import ExperimentalKey
from kafka_shim.apis.wire import Message, array, field, int16, string

KEY = ExperimentalKey.REWIND_CONSUMER


class RewindConsumerRequest(Message, key=KEY, versions="0"):
    group_id: str = field(string)
    offsets: list[PartitionToOwn] = field(array(PartitionToOwn))


class RewindConsumerResponse(Message, key=KEY, versions="0"):
    """The new `offsets` take effect when the owners of the partitions have registered again."""

    group_id: str = field(string)
    offsets: list[PartitionToOwn] = field(array(PartitionToOwn))
    error_code: int = field(int16)


def error(request: RewindConsumerRequest, code: int) -> RewindConsumerResponse:
    return RewindConsumerResponse(request.group_id, error_code=code)


API = Api(KEY, "RewindConsumer", RewindConsumerRequest, RewindConsumerResponse, error)

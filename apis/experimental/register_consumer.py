"""RegisterConsumer: a consumer joins, and gets its partitions once all members have registered.

v0  the only one

Source: Client Rewrite (https://cwiki.apache.org/confluence/display/KAFKA/Client+Rewrite), before Kafka 0.9. Its
version, correlation id and client id are those of Kafka's header.
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ExperimentalKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int64, string

KEY = ExperimentalKey.REGISTER_CONSUMER


class RegisterConsumerRequest(Message, key=KEY, versions="0"):
    """The consumer makes its own id."""

    group_id: str = field(string)
    consumer_id: str = field(string)


class PartitionToOwn(Struct):
    """`offset` is the first offset to read, -1 if the group has committed none."""

    topic: str = field(string)
    partition: int = field(int16)
    offset: int = field(int64)


class RegisterConsumerResponse(Message, key=KEY, versions="0"):
    """The generation, which heartbeats and commits carry, is in the proposal's text but missing from its layout."""

    group_id: str = field(string)
    generation_id: int = field(int64)
    partitions: list[PartitionToOwn] = field(array(PartitionToOwn))
    error_code: int = field(int16)


def error(request: RegisterConsumerRequest, code: int) -> RegisterConsumerResponse:
    return RegisterConsumerResponse(request.group_id, -1, error_code=code)


API = Api(KEY, "RegisterConsumer", RegisterConsumerRequest, RegisterConsumerResponse, error)

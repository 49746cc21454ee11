"""DescribeLogDirs (35): the folders of a broker, and the size of each partition in them (KIP-113).

v0  the first
v1  throttle time is taken after the answer is sent
v2  flexible
v3  an error for the whole answer
v4  total and free bytes of the volume (KIP-827)
v5  whether new partitions are kept out of the folder
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int16, int32, int64, string


class DescribableLogDirTopic(Struct):
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


class DescribeLogDirsRequest(Message, key=ApiKey.DESCRIBE_LOG_DIRS, versions="0-5", flexible="2+"):
    """Null `topics` mean all topics."""

    topics: list[DescribableLogDirTopic] | None = field(array(DescribableLogDirTopic), nullable="0+")


class DescribeLogDirsPartition(Struct):
    """`partition_size` in bytes; `offset_lag` is the distance of this replica to the log end; `is_future_key` is set
    while the replica moves here from another folder.
    """

    partition_index: int = field(int32)
    partition_size: int = field(int64)
    offset_lag: int = field(int64)
    is_future_key: bool = field(boolean)


class DescribeLogDirsTopic(Struct):
    name: str = field(string)
    partitions: list[DescribeLogDirsPartition] = field(array(DescribeLogDirsPartition))


class DescribeLogDirsResult(Struct):
    error_code: int = field(int16)
    log_dir: str = field(string)
    topics: list[DescribeLogDirsTopic] = field(array(DescribeLogDirsTopic))
    total_bytes: int = field(int64, versions="4+", ignorable=True, default=-1)
    usable_bytes: int = field(int64, versions="4+", ignorable=True, default=-1)
    is_cordoned: bool = field(boolean, versions="5+", ignorable=True)


class DescribeLogDirsResponse(Message, key=ApiKey.DESCRIBE_LOG_DIRS, versions="0-5", flexible="2+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, versions="3+", ignorable=True)
    results: list[DescribeLogDirsResult] = field(array(DescribeLogDirsResult))


def error(request: DescribeLogDirsRequest, code: int) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=code, results=[DescribeLogDirsResult(code)])


API = Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", DescribeLogDirsRequest, DescribeLogDirsResponse, error)

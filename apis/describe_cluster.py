"""DescribeCluster (60): cluster id, controller and brokers, without any topic (KIP-700).

v0  the first; flexible
v1  the client chooses brokers or controllers (KIP-919)
v2  fenced brokers too, on request (KIP-1073)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int8, int16, int32, string


class DescribeClusterRequest(Message, key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"):
    """`endpoint_type`: 1 brokers, 2 controllers."""

    include_cluster_authorized_operations: bool = field(boolean)
    endpoint_type: int = field(int8, versions="1+", default=1)
    include_fenced_brokers: bool = field(boolean, versions="2+")


class DescribeClusterBroker(Struct):
    broker_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, nullable="0+", default=None)
    is_fenced: bool = field(boolean, versions="2+")


class DescribeClusterResponse(Message, key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    endpoint_type: int = field(int8, versions="1+", default=1)
    cluster_id: str = field(string)
    controller_id: int = field(int32, default=-1)
    brokers: list[DescribeClusterBroker] = field(array(DescribeClusterBroker))
    cluster_authorized_operations: int = field(int32, default=-(2**31))


def error(request: DescribeClusterRequest, code: int) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, endpoint_type=request.endpoint_type)


API = Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", DescribeClusterRequest, DescribeClusterResponse, error)

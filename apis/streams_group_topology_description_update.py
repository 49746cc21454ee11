"""StreamsGroupTopologyDescriptionUpdate (93): a member describes the topology of its application (KIP-1331).

v0  the first; flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int8, int16, int32, string


class Node(Struct):
    """A node of a topology. `node_type`: 1 source, 2 processor, 3 sink; `successors` are names of nodes."""

    name: str = field(string)
    node_type: int = field(int8)
    source_topics: list[str] = field(array(string))
    sink_topic: str | None = field(string, nullable="0+", default=None)
    stores: list[str] = field(array(string))
    successors: list[str] = field(array(string))


class Subtopology(Struct):
    subtopology_id: str = field(string)
    nodes: list[Node] = field(array(Node))


class GlobalStore(Struct):
    source: Node = field(Node)
    processor: Node = field(Node)


class TopologyDescription(Struct):
    subtopologies: list[Subtopology] = field(array(Subtopology))
    global_stores: list[GlobalStore] = field(array(GlobalStore))


class StreamsGroupTopologyDescriptionUpdateRequest(
    Message, key=ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, versions="0", flexible="0+"
):
    group_id: str = field(string)
    member_id: str = field(string)
    topology_epoch: int = field(int32)
    topology_description: TopologyDescription = field(TopologyDescription)


class StreamsGroupTopologyDescriptionUpdateResponse(
    Message, key=ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, versions="0", flexible="0+"
):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


def error(
    request: StreamsGroupTopologyDescriptionUpdateRequest, code: int, message: str | None = None
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=code, error_message=message)


API = Api(
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    "StreamsGroupTopologyDescriptionUpdate",
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    error,
)

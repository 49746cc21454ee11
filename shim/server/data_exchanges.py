"""Produce, Fetch and ListOffsets as events of the trace, for a coordinator of tests that wants them.

They show the reads of a consumer and their places, in few fields. A Fetch that brings nothing new, the most frequent
request of all, has no event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from kafka_shim.apis.fetch import FetchRequest, FetchResponse
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka_shim.apis.produce import ProduceRequest, ProduceResponse

DATA_KEYS: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS})
DATA_APIS: Final = ("Produce", "Fetch", "ListOffsets")
MOST: Final = 100
"""Topics of a request, and partitions of a topic, that an event shows at most."""

TopicName = Callable[[bytes], str | None]
"""Returns the name of a topic by its id."""
Fields = dict[str, Any]


def data_as_json(request: Any, response: Any, name_of: TopicName) -> tuple[Fields, Fields] | None:
    """Return the request and the answer as JSON objects with Kafka's names; None for a Fetch without news."""
    match request, response:
        case FetchRequest(), FetchResponse():
            return _fetch(request, response, name_of)
        case ListOffsetsRequest(), ListOffsetsResponse():
            return _list_offsets(request, response)
        case ProduceRequest(), ProduceResponse():
            return _produce(request, response, name_of)
        case _:
            return None


def _fetch(request: FetchRequest, response: FetchResponse, name_of: TopicName) -> tuple[Fields, Fields] | None:
    if not request.topics and not response.responses and not response.error_code:
        return None
    topics = [
        {"topic": each.topic or name_of(each.topic_id), "partitions": _some(each.partitions, "partition fetch_offset")}
        for each in islice(request.topics, MOST)
    ]
    answered = [
        {
            "topic": each.topic or name_of(each.topic_id),
            "partitions": [
                {
                    "partition_index": part.partition_index,
                    "error_code": part.error_code,
                    "high_watermark": part.high_watermark,
                    "records": len(part.records or b""),
                }
                for part in islice(each.partitions, MOST)
            ],
        }
        for each in islice(response.responses, MOST)
    ]
    fields = {"session_id": request.session_id, "session_epoch": request.session_epoch, "topics": topics}
    return fields, {"session_id": response.session_id, "error_code": response.error_code, "responses": answered}


def _list_offsets(request: ListOffsetsRequest, response: ListOffsetsResponse) -> tuple[Fields, Fields]:
    return (
        {
            "isolation_level": request.isolation_level,
            "topics": [
                {"name": each.name, "partitions": _some(each.partitions, "partition_index timestamp")}
                for each in islice(request.topics, MOST)
            ],
        },
        {
            "topics": [
                {"name": each.name, "partitions": _some(each.partitions, "partition_index error_code timestamp offset")}
                for each in islice(response.topics, MOST)
            ]
        },
    )


def _produce(request: ProduceRequest, response: ProduceResponse, name_of: TopicName) -> tuple[Fields, Fields]:
    produced = [
        {
            "name": each.name or name_of(each.topic_id),
            "partition_data": [
                {"index": part.index, "records": len(part.records or b"")} for part in islice(each.partition_data, MOST)
            ],
        }
        for each in islice(request.topic_data, MOST)
    ]
    answered = [
        {
            "name": each.name or name_of(each.topic_id),
            "partition_responses": _some(each.partition_responses, "index error_code base_offset"),
        }
        for each in islice(response.responses, MOST)
    ]
    fields = {"transactional_id": request.transactional_id, "acks": request.acks, "topic_data": produced}
    return fields, {"responses": answered}


def _some(structs: Iterable[Any], names: str) -> list[Fields]:
    """Return these fields of the first structs."""
    return [{name: getattr(each, name) for name in names.split()} for each in islice(structs, MOST)]

"""The answers of a target to one case in one version, as plain data that can be compared between targets.

Leaves out times, addresses and wording, and replaces ids by numbers in order of appearance. Plain data can be kept in a
file: the record of Apache Kafka consists of stories.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka_shim.apis.join_group import JoinGroupResponse
from kafka_shim.apis.wire import Struct
from kafka_shim.conformance.plain import error_name
from kafka_shim.conformance.protocol import api_of
from kafka_shim.conformance.wire import RoundTrip

NO_ANSWER: Final = "no answer"
_LONG: Final = 120

_IGNORED_FIELDS: Final = frozenset(
    {"throttle_time_ms", "error_message", "host", "port", "node_id", "rack", "cluster_id", "controller_id", "brokers"}
    | {"client_host", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "offline_replicas"}
    | {"finalized_features_epoch", "node_endpoints"}
)
_ID: Final = re.compile(r"^(?:.*-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$|^[A-Za-z0-9_-]{22}$")
_SUFFIX: Final = re.compile(r"-RUN-[0-9a-f]{8}\b")
_KEYS: Final = ("group_id", "name", "topic_id", "partition_index", "member_id", "key", "api_key", "transactional_id")
_IDS: Final = frozenset({"member_id", "leader", "producer_id"})

Step = tuple[str, str, int, Any]
"""Connection, API, version, and the answer as plain data; `NO_ANSWER` for a missing one."""


@dataclass(frozen=True)
class Difference:
    """One field of an answer that differs from Kafka's, with both values.

    `place` is the index of the step in the story. Differences with the same `key` probably have one cause.
    """

    place: int
    api: str
    field: str
    actual: Any
    expected: Any

    @property
    def key(self) -> tuple[str, str, str]:
        kind = f"{self.expected}>{self.actual}" if self.field.endswith("error_code") else ""
        return self.api, self.field, kind if self.actual != NO_ANSWER else NO_ANSWER

    @property
    def text(self) -> str:
        if self.actual == NO_ANSWER:
            return f"{self.api} is not answered, where Kafka answers"
        return f"{self.api}.{self.field} is {self._text(self.actual)}, Kafka answers {self._text(self.expected)}"

    def _text(self, value: Any) -> str:
        if self.field.endswith("error_code") and isinstance(value, int):
            return error_name(value)
        return "absent" if value is None else repr(value)


class Names:
    """Replaces values that change between runs: the name of the run, and ids, numbered in order of appearance."""

    def __init__(self, run: str, topic_ids: Mapping[bytes, str]) -> None:
        self._run = run
        self._topic_ids = topic_ids
        self._ids: dict[tuple[str, Any], str] = {}

    def plain(self, value: Any, name: str = "") -> Any:
        """Return a value of a message as plain data."""
        if isinstance(value, Struct) or hasattr(value, "fields"):
            kept_fields = [each.name for each in value.fields if each.name not in _IGNORED_FIELDS]
            return {name: self.plain(getattr(value, name), name) for name in kept_fields}
        if isinstance(value, list):
            return sorted((self.plain(each, name) for each in value), key=_order)
        if isinstance(value, bytes):
            topic = self._topic_ids.get(value)
            return f"id of {self._text(topic)}" if topic else self._text(value.decode("latin-1"))
        if isinstance(value, str):
            if name in _IDS and (("member", value) in self._ids or _ID.match(value)):
                return self._numbered("member", value)
            return self._text(value)
        if name == "producer_id" and isinstance(value, int) and value >= 0:
            return self._numbered("producer", value)
        return int(value) if isinstance(value, int) and not isinstance(value, bool) else value

    def learn(self, response: Any) -> None:
        """Note the member id in a JoinGroup answer, in any format."""
        if isinstance(response, JoinGroupResponse) and response.member_id:
            self._numbered("member", response.member_id)

    def _numbered(self, kind: str, value: Any) -> str:
        number = sum(key[0] == kind for key in self._ids) + 1
        return self._ids.setdefault((kind, value), f"{kind} {number}")

    def _text(self, value: str) -> str:
        return shortened(_SUFFIX.sub("-RUN", value.replace(self._run, "RUN")))


def shortened(text: str) -> str:
    """Replace a long text by its beginning, length and checksum: short records, and still distinct texts."""
    if len(text) <= _LONG:
        return text
    return f"{text[: _LONG // 2]}... {len(text)} characters, CRC {zlib.crc32(text.encode('utf-8', 'replace')):08x}"


def story_of(trips: list[RoundTrip], run: str, group: str, topics: Mapping[bytes, str]) -> list[Step]:
    """Return the story of a cell.

    `run` is a part of all names of this run; `group` is the prefix of its groups; `topics` has names of topics by id. A
    request repeated on its connection is polling: only its last answer counts.
    """
    names = Names(run, topics)
    steps: list[Step] = []
    last: dict[str, tuple[str, int]] = {}
    for trip in trips:
        names.learn(trip.response)
        api = api_of(trip.request).name
        answer = (
            NO_ANSWER
            if trip.response is None
            else _without_other_groups(names.plain(trip.response), api, trip.request, group.replace(run, "RUN"))
        )
        request = f"{api} {trip.version} {trip.text}"
        before = last.get(trip.connection)
        if before is not None and before[0] == request:
            steps[before[1]] = (trip.connection, api, trip.version, answer)
            continue
        last[trip.connection] = (request, len(steps))
        steps.append((trip.connection, api, trip.version, answer))
    return steps


def _without_other_groups(answer: dict[str, Any], api: str, request: Any, group: str) -> dict[str, Any]:
    """Remove groups of other cells, and topics that the request does not name."""
    if api == "ListGroups":
        answer["groups"] = [each for each in answer["groups"] if each["group_id"].startswith(group)]
    if api == "Metadata" and not request.topics:
        answer["topics"] = []
    if api == "ApiVersions":
        return {"error_code": answer["error_code"]}
    return answer


def _order(value: Any) -> str:
    if isinstance(value, dict):
        return "/".join(str(value[key]).rjust(6) for key in _KEYS if key in value)
    return str(value)


def differences(story: list[Step], other: list[Step]) -> list[Difference]:
    """Return the differences of a story from Kafka's, in order; compares the steps of each connection in turn."""
    waiting: dict[str, list[Step]] = {}
    for step in other:
        waiting.setdefault(step[0], []).append(step)
    diverged: set[str] = set()
    result: list[Difference] = []
    for place, (connection, api, version, answer) in enumerate(story):
        remaining = waiting.get(connection, [])
        if connection in diverged or not remaining:
            continue
        _, kafka_api, kafka_version, expected = remaining.pop(0)
        if (api, version) != (kafka_api, kafka_version):
            # From here on the two stories are not comparable.
            diverged.add(connection)
            continue
        if answer == NO_ANSWER and expected != NO_ANSWER:
            result.append(Difference(place, api, "", NO_ANSWER, expected))
        elif expected != NO_ANSWER:
            result += [Difference(place, api, *each) for each in _differing_fields(answer, expected, "")]
    return result


def _differing_fields(actual: Any, expected: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(actual, dict) and isinstance(expected, dict):
        for name in actual:
            yield from _differing_fields(actual[name], expected.get(name), f"{path}.{name}" if path else name)
    elif isinstance(actual, list) and isinstance(expected, list) and actual != expected:
        if len(actual) != len(expected):
            yield f"{path}[]", f"{len(actual)} entries", f"{len(expected)} entries"
        for one, other in zip(actual, expected, strict=False):
            yield from _differing_fields(one, other, f"{path}[]")
    elif actual != expected:
        yield path, actual, expected

"""Chooses the broker of a target for each request: coordinator, leader or controller, from the target's own answers.

If the target has one broker, every request goes to the configured address, even if the broker advertises another one.
Caches coordinators; `refresh` looks one up again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.verdict import Unadvertised
from kafka_shim.conformance.wire import Connection, Tape, Undecodable, WireTrouble

GROUP: Final = 0
TRANSACTION: Final = 1
PATIENCE: Final = 15.0
"""Seconds to wait for a coordinator that moves."""

_BATCHED_SINCE: Final = 4
_TYPED_SINCE: Final = 1
_NOT_YET: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)
_OF_TRANSACTIONS: Final = frozenset(
    {"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "DescribeTransactions"}
)
_OF_LEADERS: Final = frozenset(
    {"Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DeleteRecords", "DescribeProducers"}
)
_OF_THE_CONTROLLER: Final = frozenset({"CreateTopics", "DeleteTopics", "CreatePartitions"})
_GROUP_LISTS: Final = ("groups", "groups_names", "group_ids")

Key = tuple[int, str]


class Routes:
    """The brokers of a target. `newest` returns the newest version of an API that both sides have."""

    def __init__(self, endpoints: Sequence[Endpoint], newest: Callable[[str], int]) -> None:
        self._bootstrap = tuple(endpoints)
        self._newest = newest
        self._lock = threading.Lock()
        self._brokers: dict[int, Endpoint] | None = None
        self._controller = -1
        self._coordinators: dict[Key, Endpoint] = {}

    @property
    def brokers(self) -> dict[int, Endpoint]:
        """The addresses of the brokers by node id; requested once."""
        with self._lock:
            if self._brokers is None:
                brokers: dict[int, Endpoint] = {}
                # Without a readable Metadata answer the target counts as one broker.
                with suppress(Unadvertised, Undecodable):
                    answer = self._ask(MetadataRequest([]), self._newest("Metadata"))
                    brokers = {each.node_id: self._bootstrap[0].at(each.host, each.port) for each in answer.brokers}
                    self._controller = answer.controller_id
                self._brokers = brokers
            return self._brokers

    @property
    def is_alone(self) -> bool:
        """True if the target has one broker."""
        return len(self.brokers) <= 1

    def everywhere(self) -> tuple[Endpoint, ...]:
        """Return the addresses of all brokers."""
        return self._bootstrap[:1] if self.is_alone else tuple(self.brokers.values())

    def coordinator(self, key: str, kind: int = GROUP, *, refresh: bool = False) -> Endpoint:
        """Return the coordinator of a group or of a transactional id; wait while it moves."""
        if self.is_alone:
            return self._bootstrap[0]
        with self._lock:
            if refresh:
                self._coordinators.pop((kind, key), None)
            cached = self._coordinators.get((kind, key))
        coordinator = cached or self._find(key, kind)
        with self._lock:
            self._coordinators[kind, key] = coordinator
        return coordinator

    def leader(self, topic: str, partition: int) -> Endpoint:
        """Return the current leader of a partition."""
        if self.is_alone:
            return self._bootstrap[0]
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        for each in self._ask(request, self._newest("Metadata")).topics[0].partitions:
            if each.partition_index == partition and each.leader_id in self.brokers:
                return self.brokers[each.leader_id]
        return self._bootstrap[0]

    def of(self, request: Message, api: str, otherwise: str) -> Endpoint:
        """Return the broker for a request; a request without a key goes to the coordinator of the group `otherwise`."""
        if self.is_alone:
            return self._bootstrap[0]
        if api in _OF_TRANSACTIONS:
            return self.coordinator(_transactional_id(request), TRANSACTION)
        if api in _OF_LEADERS:
            return self._leader(request)
        if api in _OF_THE_CONTROLLER:
            return self.brokers.get(self._controller, self._bootstrap[0])
        group = group_of(request)
        return self.coordinator(otherwise if group is None else group)

    def have_moved(self, used: dict[Key, Endpoint]) -> bool:
        """Return True if one of these coordinators has changed."""
        return any(self.coordinator(key, kind, refresh=True) != was for (kind, key), was in used.items())

    def used(self, *groups: str) -> dict[Key, Endpoint]:
        """Return the cached coordinators of these groups, and of transactional ids with these prefixes."""
        with self._lock:
            return {each: at for each, at in self._coordinators.items() if each[1].startswith(groups)}

    def _find(self, key: str, kind: int) -> Endpoint:
        version = self._newest("FindCoordinator")
        if version >= _BATCHED_SINCE:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        else:
            request = FindCoordinatorRequest(key, kind) if version >= _TYPED_SINCE else FindCoordinatorRequest(key)
        limit = time.monotonic() + PATIENCE
        while True:
            answer = self._ask(request, version)
            coordinator: Any = answer.coordinators[0] if version >= _BATCHED_SINCE else answer
            if coordinator.error_code not in _NOT_YET or time.monotonic() > limit:
                break
            time.sleep(0.05)
        first = self._bootstrap[0]
        return first if coordinator.error_code else first.at(coordinator.host, coordinator.port)

    def _leader(self, request: Any) -> Endpoint:
        """Return the leader of the first partition in a request."""
        topic = (getattr(request, "topics", None) or request.topic_data)[0]
        partition = next(
            partitions[0]
            for name in ("partitions", "partition_data", "partition_indexes")
            if (partitions := getattr(topic, name, None))
        )
        number = partition
        if not isinstance(partition, int):
            names = ("partition_index", "partition", "index")
            number = next(getattr(partition, name) for name in names if hasattr(partition, name))
        return self.leader(getattr(topic, "topic", None) or topic.name, number)

    def _ask(self, request: Message, version: int) -> Any:
        """Return the answer of the first broker that gives one."""
        trouble: WireTrouble | None = None
        for endpoint in dict.fromkeys([*self._bootstrap, *(self._brokers or {}).values()]):
            connection = None
            try:
                connection = Connection(
                    endpoint, patience=PATIENCE, deadline=time.monotonic() + PATIENCE, tape=Tape(), label="routes"
                )
                return connection.call(request, version)
            except WireTrouble as failed:
                trouble = failed
            finally:
                if connection is not None:
                    connection.close()
        assert trouble is not None
        raise trouble


def group_of(request: Message) -> str | None:
    """Return the group in a request, or the first of several; None without a group."""
    for name in _GROUP_LISTS:
        groups = getattr(request, name, None)
        if isinstance(groups, list) and groups:
            return groups[0] if isinstance(groups[0], str) else str(groups[0].group_id)
    return getattr(request, "group_id", None)


def _transactional_id(request: Any) -> str:
    for name in ("transactional_id", "v3_and_below_transactional_id"):
        if getattr(request, name, None):
            return str(getattr(request, name))
    for name in getattr(request, "transactional_ids", ()):
        return str(name)
    transactions = getattr(request, "transactions", None)
    return transactions[0].transactional_id if transactions else ""

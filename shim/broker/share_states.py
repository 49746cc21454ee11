"""The states of share groups across processes: requests to other share coordinators, and answers to other processes.

A state is kept beside its log, so the leader of a partition is the share coordinator of its states. The coordinator of
a group sends Kafka's requests there, and its own answer waits for theirs. The rules of groups are in
`shim/groups/share/offsets.py`.

Source: KIP-932; Kafka's `GroupCoordinatorService`, `PersisterStateManager` and `NetworkPartitionMetadataClient`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from kafka_shim.apis import delete_share_group_state as delete_api
from kafka_shim.apis import initialize_share_group_state as initialize_api
from kafka_shim.apis import read_share_group_state_summary as summary_api
from kafka_shim.apis.delete_share_group_state import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from kafka_shim.apis.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from kafka_shim.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafka_shim.apis.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from kafka_shim.apis.releases import DEFAULT_RULES, Rules
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import Topics
from kafka_shim.broker.transaction_ends import RemoteNodes
from kafka_shim.groups.interface import PARKED, Parked
from kafka_shim.groups.outbox import Outbox, Reply
from kafka_shim.groups.share_states import UNINITIALIZED, Place, SharePersister

LATEST: Final = -1
"""The timestamp of the end of a log."""
LIST_OFFSETS_VERSION: Final = 7
SUMMARY_VERSION: Final = 1


_StateRequest = InitializeShareGroupStateRequest | DeleteShareGroupStateRequest | ReadShareGroupStateSummaryRequest


class Progress(NamedTuple):
    """The progress of a group in a partition: its start offset, and the number of complete offsets from there on."""

    start_offset: int
    completed: int

    def lag(self, end: int) -> int:
        """Return the offsets that are not complete before the end of the log, in 64 bits as in Kafka."""
        return (end - self.start_offset - self.completed + 2**63) % 2**64 - 2**63


class _Change(NamedTuple):
    """A state that a group of this epoch has set, or deleted if `start_offset` is None."""

    place: Place
    epoch: int
    start_offset: int | None


class _Waiting:
    """An answer that waits for `open` requests to other processes; then `finish()` completes it."""

    def __init__(self, reply: Reply, finish: Callable[[], None]) -> None:
        self.reply = reply
        self.finish = finish
        self.open = 0


class ShareQuestion(NamedTuple):
    """Purpose of a request to another process; `use` gets the answer, None if there is none."""

    waiting: _Waiting
    use: Callable[[Message | None], None]


class RemoteShareStates:
    """The states of the groups of this process in partitions that other processes lead.

    `persister` reports the changes of a rule; the answer of the rule waits until the leaders have made them too.
    """

    def __init__(self, topics: Topics, persister: SharePersister, outbox: Outbox, remote_nodes: RemoteNodes) -> None:
        self._topics = topics
        self._outbox = outbox
        self._remote_nodes = remote_nodes
        self._changes: list[_Change] = []
        persister.on_reset = lambda place, epoch, start: self._changes.append(_Change(place, epoch, start))
        persister.on_delete = lambda place: self._changes.append(_Change(place, 0, None))

    def settle(self, exchange: object, response: Message, refuse: Callable[[Place], None]) -> Message | Parked:
        """Return the answer of a rule that has changed states, or PARKED until their leaders have the change.

        `refuse(place)` puts an error into the response for a leader that has not made it.
        """
        changes, self._changes = self._changes, []
        by_node: dict[tuple[int, bool], list[_Change]] = {}
        for change in changes:
            node_id = self._holder(change.place)
            if node_id is not None:
                by_node.setdefault((node_id, change.start_offset is None), []).append(change)
        if not by_node:
            return response
        waiting = _Waiting(Reply(exchange, response, self._outbox.required_batch), lambda: None)
        for (node_id, _), each in by_node.items():
            self._send(waiting, node_id, each, refuse)
        return PARKED

    def _send(self, waiting: _Waiting, node_id: int, changes: list[_Change], refuse: Callable[[Place], None]) -> None:
        places = [change.place for change in changes]

        def check(answer: Message | None) -> None:
            accepted: set[tuple[bytes, int]] = set()
            if isinstance(answer, InitializeShareGroupStateResponse | DeleteShareGroupStateResponse):
                for topic in answer.results:
                    accepted |= {(topic.topic_id, each.partition) for each in topic.partitions if not each.error_code}
            for place in places:
                if (place.topic_id, place.partition) not in accepted:
                    refuse(place)

        by_group: dict[str, dict[bytes, list[_Change]]] = {}
        for change in changes:
            by_group.setdefault(change.place.group_id, {}).setdefault(change.place.topic_id, []).append(change)
        for group_id, by_topic in by_group.items():
            self._ask(waiting, node_id, 0, _request(group_id, by_topic), check)

    def leads(self, place: Place) -> bool:
        """Return True if another process leads the partition."""
        return self._holder(place) is not None

    def describe(
        self,
        exchange: object,
        response: Message,
        places: Mapping[Place, Callable[[Progress, int], None]],
    ) -> Message | Parked:
        """Return the answer to a request for the progress of groups in `places`, or PARKED until their leaders have
        answered.

        The function of a place is called with its progress and the end of its log, if both are known.
        """
        by_node: dict[int, list[Place]] = {}
        for place in places:
            node_id = self._holder(place)
            if node_id is not None:
                by_node.setdefault(node_id, []).append(place)
        if not by_node:
            return response
        progress: dict[Place, Progress] = {}
        ends: dict[tuple[str, int], int] = {}

        def finish() -> None:
            for place in progress:
                end = ends.get((self._topics.topic_name(place.topic_id) or "", place.partition))
                if end is not None:
                    places[place](progress[place], end)

        waiting = _Waiting(Reply(exchange, response, self._outbox.required_batch), finish)
        for node_id, those in by_node.items():
            self._ask_ends(waiting, node_id, those, ends)
            for group_id in dict.fromkeys(place.group_id for place in those):
                self._ask_progress(waiting, node_id, [each for each in those if each.group_id == group_id], progress)
        return PARKED

    def _ask_ends(
        self, waiting: _Waiting, node_id: int, places: Iterable[Place], ends: dict[tuple[str, int], int]
    ) -> None:
        by_topic: dict[str, dict[int, None]] = {}
        for place in places:
            by_topic.setdefault(self._topics.topic_name(place.topic_id) or "", {})[place.partition] = None
        topics = [
            ListOffsetsTopic(name, [ListOffsetsPartition(index, timestamp=LATEST) for index in indexes])
            for name, indexes in by_topic.items()
        ]

        def use(answer: Message | None) -> None:
            if isinstance(answer, ListOffsetsResponse):
                for topic in answer.topics:
                    ends.update({(topic.name, p.partition_index): p.offset for p in topic.partitions if p.offset >= 0})

        self._ask(waiting, node_id, LIST_OFFSETS_VERSION, ListOffsetsRequest(-1, topics=topics), use)

    def _ask_progress(
        self, waiting: _Waiting, node_id: int, places: list[Place], progress: dict[Place, Progress]
    ) -> None:
        by_topic: dict[bytes, list[summary_api.PartitionData]] = {}
        for place in places:
            by_topic.setdefault(place.topic_id, []).append(summary_api.PartitionData(place.partition, -1))
        group_id = places[0].group_id
        topics = [summary_api.ReadStateSummaryData(*each) for each in by_topic.items()]

        def use(answer: Message | None) -> None:
            if isinstance(answer, ReadShareGroupStateSummaryResponse):
                for topic in answer.results:
                    for each in topic.partitions:
                        if each.start_offset != UNINITIALIZED:
                            place = Place(group_id, topic.topic_id, each.partition)
                            progress[place] = Progress(each.start_offset, each.delivery_complete_count)

        self._ask(waiting, node_id, SUMMARY_VERSION, ReadShareGroupStateSummaryRequest(group_id, topics), use)

    def _holder(self, place: Place) -> int | None:
        name = self._topics.topic_name(place.topic_id)
        return None if name is None else self._remote_nodes.holder(name, place.partition)

    def _ask(
        self, waiting: _Waiting, node_id: int, version: int, request: Message, use: Callable[[Message | None], None]
    ) -> None:
        waiting.open += 1
        self._remote_nodes.ask(node_id, version, request, ShareQuestion(waiting, use))

    def answered(self, question: ShareQuestion, answer: Message | None) -> None:
        """Take the answer of another process; None if it gave none."""
        waiting = question.waiting
        question.use(answer)
        waiting.open -= 1
        if not waiting.open:
            waiting.finish()
            self._outbox.replies.append(waiting.reply)


class ShareStateApi:
    """The rules for requests of other coordinators, about partitions that the broker `node_id` leads."""

    def __init__(self, node_id: int, topics: Topics, persister: SharePersister, rules: Rules = DEFAULT_RULES) -> None:
        self._node_id = node_id
        self._topics = topics
        self._persister = persister
        self._rules = rules

    def knows(self, request: _StateRequest) -> bool:
        """Return True if the partitions of the request exist, as far as this process knows."""
        return all(
            self._error(topic.topic_id, each.partition) != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for topic in request.topics
            for each in topic.partitions
        )

    def initialize(self, request: InitializeShareGroupStateRequest) -> InitializeShareGroupStateResponse:
        """Set states. Errors per partition: UNKNOWN_TOPIC_OR_PARTITION (3), NOT_COORDINATOR (16) if another broker
        leads it, INVALID_REQUEST (42) for a negative epoch."""
        response = initialize_api.accepted(request)
        for topic, result in zip(request.topics, response.results, strict=True):
            for each, answer in zip(topic.partitions, result.partitions, strict=True):
                answer.error_code = self._error(topic.topic_id, each.partition)
                if not answer.error_code and each.state_epoch < 0 and self._rules.share_state_epochs_checked:
                    answer.error_code = ErrorCode.INVALID_REQUEST
                    answer.error_message = "The state epoch cannot be a negative number."
                if not answer.error_code:
                    place = Place(request.group_id, topic.topic_id, each.partition)
                    self._persister.set(place, each.state_epoch, each.start_offset)
        return response

    def delete(self, request: DeleteShareGroupStateRequest) -> DeleteShareGroupStateResponse:
        """Delete states, with the errors of `initialize`; deleting a missing state is no error."""
        response = delete_api.accepted(request)
        for topic, result in zip(request.topics, response.results, strict=True):
            for each, answer in zip(topic.partitions, result.partitions, strict=True):
                answer.error_code = self._error(topic.topic_id, each.partition)
                if not answer.error_code:
                    self._persister.drop(Place(request.group_id, topic.topic_id, each.partition))
        return response

    def summarize(self, request: ReadShareGroupStateSummaryRequest) -> ReadShareGroupStateSummaryResponse:
        """Return start offset and progress of states, with the errors of `initialize`."""
        response = summary_api.accepted(request)
        for topic, result in zip(request.topics, response.results, strict=True):
            for each, answer in zip(topic.partitions, result.partitions, strict=True):
                answer.error_code = self._error(topic.topic_id, each.partition)
                state = self._persister.get(Place(request.group_id, topic.topic_id, each.partition))
                answer.start_offset = UNINITIALIZED
                if not answer.error_code and state is not None:
                    answer.state_epoch, answer.start_offset = state.epoch, state.start_offset
                    answer.delivery_complete_count = state.completed
        return response

    def _error(self, topic_id: bytes, index: int) -> int:
        topic = self._topics.with_id(topic_id)
        partition = topic.partition(index) if topic is not None else None
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE if partition.leader == self._node_id else ErrorCode.NOT_COORDINATOR


def _request(group_id: str, by_topic: Mapping[bytes, list[_Change]]) -> Message:
    """Return the request for changes of one kind."""
    if any(change.start_offset is None for changes in by_topic.values() for change in changes):
        deleted = [
            delete_api.DeleteStateData(
                topic_id, [delete_api.PartitionData(change.place.partition) for change in changes]
            )
            for topic_id, changes in by_topic.items()
        ]
        return DeleteShareGroupStateRequest(group_id, deleted)
    made = [
        initialize_api.InitializeStateData(
            topic_id,
            [
                initialize_api.PartitionData(change.place.partition, change.epoch, change.start_offset)
                for change in changes
                if change.start_offset is not None
            ],
        )
        for topic_id, changes in by_topic.items()
    ]
    return InitializeShareGroupStateRequest(group_id, made)

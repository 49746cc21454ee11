"""The states of share groups across processes: requests to other share coordinators, and answers to other processes.

A state lies beside its log, so the leader of a partition is the share coordinator of its states. The coordinator of
a group sends Kafka's requests there, and its own answer waits for theirs. The rules of groups are in
`shim/groups/share/offsets.py`.

Source: KIP-932; Kafka's `GroupCoordinatorService`, `PersisterStateManager` and `NetworkPartitionMetadataClient`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kafka_shim.apis import delete_share_group_state as delete_api
from kafka_shim.apis import initialize_share_group_state as initialize_api
from kafka_shim.apis import read_share_group_state_summary as summary_api
from kafka_shim.apis.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kafka_shim.apis.alter_share_group_offsets import ResponsePartition as AlteredPartition
from kafka_shim.apis.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kafka_shim.apis.delete_share_group_offsets import ResponseTopic as DeletedTopic
from kafka_shim.apis.delete_share_group_state import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from kafka_shim.apis.describe_share_group_offsets import ResponsePartition as DescribedPartition
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
from kafka_shim.groups.share.persister import UNINITIALIZED, Place, SharePersister

LATEST: Final = -1
"""The timestamp of the end of a log."""
LIST_OFFSETS_VERSION: Final = 7
SUMMARY_VERSION: Final = 1
_SILENT: Final = "The leader of the partition did not answer."

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
    """A response that waits for `open` requests to other processes.

    `described` are the answers to fill in by their place, from the `progress` and the `ends` of logs that leaders tell.
    """

    def __init__(self, reply: Reply, described: Mapping[Place, DescribedPartition] = {}) -> None:
        self.reply = reply
        self.described = described
        self.open = 0
        self.progress: dict[Place, Progress] = {}
        self.ends: dict[tuple[str, int], int] = {}


class ShareQuestion(NamedTuple):
    """Purpose of a request to another process, about `places`."""

    waiting: _Waiting
    places: Sequence[Place]


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

    def settle(self, exchange: object, response: Message) -> Message | Parked:
        """Return the answer of a rule that has changed states, or PARKED until their leaders have the change.

        A response about the offsets of a group then has an error for each leader that has not made it.
        """
        changes, self._changes = self._changes, []
        requests: dict[tuple[int, bool, str], list[_Change]] = {}
        for change in changes:
            node_id = self._holder(change.place)
            if node_id is not None:
                key = node_id, change.start_offset is None, change.place.group_id
                requests.setdefault(key, []).append(change)
        if not requests:
            return response
        waiting = _Waiting(Reply(exchange, response, self._outbox.required_batch))
        for (node_id, _, group_id), each in requests.items():
            self._ask(waiting, node_id, 0, _request(group_id, each), [change.place for change in each])
        return PARKED

    def leads(self, place: Place) -> bool:
        """Return True if another process leads the partition."""
        return self._holder(place) is not None

    def describe(
        self, exchange: object, response: Message, described: Mapping[Place, DescribedPartition]
    ) -> Message | Parked:
        """Return the answer to a request for the progress of groups, or PARKED until leaders have answered.

        An answer in `described` gets its start offset and lag if its leader tells both the progress and the end of its
        log.
        """
        by_node: dict[int, list[Place]] = {}
        for place in described:
            node_id = self._holder(place)
            if node_id is not None:
                by_node.setdefault(node_id, []).append(place)
        if not by_node:
            return response
        waiting = _Waiting(Reply(exchange, response, self._outbox.required_batch), described)
        for node_id, places in by_node.items():
            self._ask_ends(waiting, node_id, places)
            for group_id in dict.fromkeys(place.group_id for place in places):
                self._ask_progress(waiting, node_id, [each for each in places if each.group_id == group_id])
        return PARKED

    def _ask_ends(self, waiting: _Waiting, node_id: int, places: Sequence[Place]) -> None:
        by_topic: dict[str, dict[int, None]] = {}
        for place in places:
            by_topic.setdefault(self._topics.topic_name(place.topic_id) or "", {})[place.partition] = None
        topics = [
            ListOffsetsTopic(name, [ListOffsetsPartition(index, timestamp=LATEST) for index in indexes])
            for name, indexes in by_topic.items()
        ]
        self._ask(waiting, node_id, LIST_OFFSETS_VERSION, ListOffsetsRequest(-1, topics=topics), places)

    def _ask_progress(self, waiting: _Waiting, node_id: int, places: Sequence[Place]) -> None:
        by_topic: dict[bytes, list[summary_api.PartitionData]] = {}
        for place in places:
            by_topic.setdefault(place.topic_id, []).append(summary_api.PartitionData(place.partition, -1))
        topics = [summary_api.ReadStateSummaryData(*each) for each in by_topic.items()]
        request = ReadShareGroupStateSummaryRequest(places[0].group_id, topics)
        self._ask(waiting, node_id, SUMMARY_VERSION, request, places)

    def _holder(self, place: Place) -> int | None:
        name = self._topics.topic_name(place.topic_id)
        return None if name is None else self._remote_nodes.holder(name, place.partition)

    def _ask(self, waiting: _Waiting, node_id: int, version: int, request: Message, places: Sequence[Place]) -> None:
        waiting.open += 1
        self._remote_nodes.ask(node_id, version, request, ShareQuestion(waiting, places))

    def answered(self, question: ShareQuestion, answer: Message | None) -> None:
        """Take the answer of another process; None if it gave none."""
        waiting, places = question
        if isinstance(answer, ListOffsetsResponse):
            for ends in answer.topics:
                waiting.ends |= {(ends.name, p.partition_index): p.offset for p in ends.partitions if p.offset >= 0}
        elif isinstance(answer, ReadShareGroupStateSummaryResponse):
            for topic in answer.results:
                for each in topic.partitions:
                    if each.start_offset != UNINITIALIZED:
                        place = Place(places[0].group_id, topic.topic_id, each.partition)
                        waiting.progress[place] = Progress(each.start_offset, each.delivery_complete_count)
        else:
            _refuse(waiting.reply.response, set(places) - _successes(places[0].group_id, answer))
        waiting.open -= 1
        if not waiting.open:
            self._describe(waiting)
            self._outbox.replies.append(waiting.reply)

    def _describe(self, waiting: _Waiting) -> None:
        for place, progress in waiting.progress.items():
            end = waiting.ends.get((self._topics.topic_name(place.topic_id) or "", place.partition))
            if end is not None:
                described = waiting.described[place]
                described.start_offset, described.lag = progress.start_offset, progress.lag(end)


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


def _request(group_id: str, changes: Iterable[_Change]) -> Message:
    """Return the request for changes of one kind."""
    resets: dict[bytes, list[initialize_api.PartitionData]] = {}
    deletions: dict[bytes, list[delete_api.PartitionData]] = {}
    for (_, topic_id, partition), epoch, start_offset in changes:
        if start_offset is None:
            deletions.setdefault(topic_id, []).append(delete_api.PartitionData(partition))
        else:
            resets.setdefault(topic_id, []).append(initialize_api.PartitionData(partition, epoch, start_offset))
    if deletions:
        return DeleteShareGroupStateRequest(group_id, [delete_api.DeleteStateData(*each) for each in deletions.items()])
    return InitializeShareGroupStateRequest(
        group_id, [initialize_api.InitializeStateData(*each) for each in resets.items()]
    )


def _successes(group_id: str, answer: Message | None) -> set[Place]:
    """Return the places of changes that their leaders have made."""
    if not isinstance(answer, InitializeShareGroupStateResponse | DeleteShareGroupStateResponse):
        return set()
    return {
        Place(group_id, topic.topic_id, each.partition)
        for topic in answer.results
        for each in topic.partitions
        if not each.error_code
    }


def _refuse(response: Message, places: Collection[Place]) -> None:
    """Put an error into a response about the offsets of a group for `places` without the change."""
    answers: list[AlteredPartition | DeletedTopic] = []
    if isinstance(response, AlterShareGroupOffsetsResponse):
        partitions = {(place.topic_id, place.partition) for place in places}
        for topic in response.responses:
            answers += [each for each in topic.partitions if (topic.topic_id, each.partition_index) in partitions]
    elif isinstance(response, DeleteShareGroupOffsetsResponse):
        topic_ids = {place.topic_id for place in places}
        answers += [topic for topic in response.responses if topic.topic_id in topic_ids]
    for answer in answers:
        answer.error_code, answer.error_message = ErrorCode.COORDINATOR_NOT_AVAILABLE, _SILENT

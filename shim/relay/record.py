"""Write the trace of a relay: requests with answers, events of groups, and the end offsets of partitions.

`groups.py` and `epochs.py` infer the events of groups.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message
from kafka_shim.relay.epochs import FORMS, EpochGroup
from kafka_shim.relay.groups import CONCLUDE_AFTER_S, Event, Group
from kafka_shim.relay.proxied_connection import TRACED, PendingRequest, ProxiedConnection
from kafka_shim.server.requests import REQUESTS
from kafka_shim.server.trace import as_json, end_offsets, is_join

MAX_GROUPS: Final = 20_000
"""Number of groups to follow, of the classic protocol and of all others; beyond it, the longest inactive ones are
forgotten.
"""
MAX_PARTITIONS: Final = 200_000
"""Number of partitions with ends in memory."""
END_OFFSETS_SECONDS: Final = 5.0

_LATEST: Final = -1
_READ_UNCOMMITTED: Final = 0
_OF_MEMBERS: Final = frozenset({"Heartbeat", "SyncGroup", "LeaveGroup"})


class Record:
    """Turns requests and answers of a relay's connections into events for `emit(events, now)`; `now` in monotonic
    seconds.
    """

    def __init__(self, emit: Callable[[list[Event], float], None], clock: Callable[[], float]) -> None:
        self.groups: OrderedDict[str, Group] = OrderedDict()
        self.epoch_groups: OrderedDict[str, EpochGroup] = OrderedDict()
        self._emit_events = emit
        self._clock = clock
        self._events: list[Event] = []
        self._waiting: dict[str, Group] = {}
        self._names: dict[bytes, str] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._changed_ends: set[tuple[str, int]] = set()
        self._ends_emitted_at = clock()

    def on_request(self, pending: PendingRequest) -> None:
        """Handle a decoded request."""
        if pending.key in TRACED:
            self._name_topics(pending.request)
            group = self._group(pending)
            if group is not None:
                group.on_request(pending)
            elif pending.api in FORMS:
                self._epoch_group(pending).on_request(pending)

    def on_answer(self, pending: PendingRequest, answer: Any) -> None:
        """Handle a decoded answer."""
        now = self._clock()
        if pending.key == ApiKey.METADATA:
            self._learn_topics(answer)
        elif pending.key == ApiKey.FETCH:
            self._on_fetch(answer)
        elif pending.request is None:
            return
        elif pending.key == ApiKey.LIST_OFFSETS:
            self._on_list_offsets(pending.request, answer)
        else:
            self._on_exchange(pending, answer, now)
            self._flush(now)

    def closed(self, connection: ProxiedConnection) -> None:
        """Forget the unanswered requests of a closed connection."""
        for pending in connection.waiting:
            if pending.request is not None and pending.key in TRACED:
                for group_id in REQUESTS[ApiKey(pending.key)].groups_of(pending.request):
                    for group in (self.groups.get(group_id), self.epoch_groups.get(group_id)):
                        if group is not None:
                            group.forget(pending)

    def tick(self) -> None:
        """Emit events that have waited long enough. Call it a few times a second."""
        now = self._clock()
        for group in list(self._waiting.values()):
            if group.gathering is None or now - group.gathering.ended >= CONCLUDE_AFTER_S:
                group.conclude()
                del self._waiting[group.group_id]
        if self._changed_ends and now - self._ends_emitted_at >= END_OFFSETS_SECONDS:
            self._ends_emitted_at = now
            self._events.append(end_offsets((*key, self._ends[key]) for key in sorted(self._changed_ends)))
            self._changed_ends.clear()
        self._flush(now)

    def finish(self) -> None:
        """Emit all events at the end of the relay."""
        for group in self._waiting.values():
            group.conclude()
        self._waiting.clear()
        self._ends_emitted_at -= END_OFFSETS_SECONDS
        self.tick()

    def _emit(self, event: Event) -> None:
        self._events.append(event)

    def _flush(self, now: float) -> None:
        if self._events:
            events, self._events = self._events, []
            self._emit_events(events, now)

    # Groups

    def _group(self, pending: PendingRequest) -> Group | None:
        """Return the classic group of a member's request."""
        if pending.api not in _OF_MEMBERS and pending.api != "JoinGroup":
            return None
        group_id = pending.request.group_id
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self._emit)
            if len(self.groups) > MAX_GROUPS:
                self.groups.popitem(last=False)
        else:
            self.groups.move_to_end(group_id)
        return group

    def _epoch_group(self, pending: PendingRequest) -> EpochGroup:
        """Return the group of a heartbeat with an epoch; another kind under the same id is another group."""
        group_id, form = pending.request.group_id, FORMS[pending.api]
        group = self.epoch_groups.get(group_id)
        if group is None or group.form is not form:
            group = self.epoch_groups[group_id] = EpochGroup(group_id, form, self._emit, self._names.get)
            if len(self.epoch_groups) > MAX_GROUPS:
                self.epoch_groups.popitem(last=False)
        self.epoch_groups.move_to_end(group_id)
        return group

    def _on_exchange(self, pending: PendingRequest, answer: Message, now: float) -> None:
        self._name_topics(answer)
        event = _exchange(pending, answer)
        group = self._group(pending)
        if pending.api == "JoinGroup":
            assert group is not None
            group.on_join_answer(pending, answer, now, event)
            if group.gathering is not None:
                self._waiting[group.group_id] = group
            return
        if group is not None:
            group.on_answer(pending, answer, now)
        elif pending.api in FORMS:
            self._epoch_group(pending).on_answer(pending, answer)
        elif pending.api == "OffsetCommit":
            commit = _commit(pending.request, answer)
            self._events.append(commit)
            committing = self.groups.get(pending.request.group_id)
            if committing is not None and not commit["error"]:
                committing.renew_session(pending.request.member_id, pending.arrived)
        elif pending.api == "DeleteGroups":
            self._on_deleted(answer)
        self._events.append(event)

    def _on_deleted(self, answer: Any) -> None:
        for result in answer.results:
            if not result.error_code:
                self._waiting.pop(result.group_id, None)
                with_epochs = self.epoch_groups.pop(result.group_id, None)
                if with_epochs is not None:
                    with_epochs.on_deleted()
                    continue
                group = self.groups.pop(result.group_id, None) or Group(result.group_id, self._emit)
                group.on_deleted()

    # Topics

    def _learn_topics(self, answer: Any) -> None:
        for topic in answer.topics:
            if topic.name and any(topic.topic_id) and len(self._names) < MAX_PARTITIONS:
                self._names[topic.topic_id] = topic.name

    def _name_topics(self, message: Any) -> None:
        """Fill in the topic names that newer versions replace by ids: events have names."""
        for part in (message, *(getattr(message, "groups", None) or ())):
            for topic in getattr(part, "topics", None) or ():
                topic_id = getattr(topic, "topic_id", b"")
                if any(topic_id) and not topic.name:
                    topic.name = self._names.get(topic_id, "")

    def _on_fetch(self, answer: Any) -> None:
        for topic in answer.responses:
            name = topic.topic or self._names.get(topic.topic_id)
            if name:
                for partition in topic.partitions:
                    if not partition.error_code:
                        self._ends_at(name, partition.partition_index, partition.high_watermark)

    def _on_list_offsets(self, request: Any, answer: Any) -> None:
        if request.isolation_level != _READ_UNCOMMITTED:
            # The last stable offset, which may be before the end.
            return
        latest = {
            (topic.name, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
            if partition.timestamp == _LATEST
        }
        for topic in answer.topics:
            for partition in topic.partitions:
                if (topic.name, partition.partition_index) in latest and not partition.error_code:
                    self._ends_at(topic.name, partition.partition_index, partition.offset)

    def _ends_at(self, topic: str, partition: int, offset: int) -> None:
        key = topic, partition
        if offset >= 0 and self._ends.get(key) != offset and (key in self._ends or len(self._ends) < MAX_PARTITIONS):
            self._ends[key] = offset
            self._changed_ends.add(key)


def _exchange(pending: PendingRequest, answer: Message) -> Event:
    """Build the `exchange` event of a request and its answer."""
    fields = as_json(pending.request, answer, pending.version)
    event = {
        "event": "exchange",
        "conn": pending.connection.number,
        "node": pending.connection.node,
        "api": pending.api,
        "version": pending.version,
        "client_id": pending.client_id,
        **fields,
        "correlation_id": pending.correlation_id,
        "arrived": pending.arrived,
    }
    if pending.connection.software and is_join(pending.api, fields["request"]):
        event["software"] = pending.connection.software
    return event


def _commit(request: Any, answer: Any) -> Event:
    """Build the `commit` event of an OffsetCommit."""
    errors = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
    }
    accepted = [
        {"topic": topic.name, "partition": partition.partition_index, "offset": partition.committed_offset}
        for topic in request.topics
        for partition in topic.partitions
        if errors.get((topic.name, partition.partition_index)) == 0
    ]
    return {
        "event": "commit",
        "group": request.group_id,
        "partition": -1,
        "member_id": request.member_id,
        "generation": request.generation_id_or_member_epoch,
        "error": 0 if accepted or not errors else int(next(iter(errors.values()))),
        "offsets": accepted,
        "inferred": True,
    }

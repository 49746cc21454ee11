"""What a relay writes into the trace: exchanges, what groups do, and where partitions end.

Decides which requests and answers become `exchange` events and which groups are followed. It does not know sockets or
files; what a group does is concluded in `groups.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message
from kafka_shim.relay.groups import TOLD_AT_LEAST_S, Event, Group
from kafka_shim.relay.line import TRACED, Asked, Line
from kafka_shim.server.trace import end_offsets, shown

GROUPS: Final = 20_000
"""Groups followed at a time; beyond that, those that were quiet longest are forgotten."""
PARTITIONS: Final = 200_000
"""Partitions whose ends are remembered."""
END_OFFSETS_SECONDS: Final = 5.0

_LATEST: Final = -1
_READ_UNCOMMITTED: Final = 0
_OF_MEMBERS: Final = frozenset({"Heartbeat", "SyncGroup", "LeaveGroup"})


class Record:
    """Takes in what the lines of a relay read; `tell(events, now)` takes events out, `now` in monotonic seconds."""

    def __init__(self, tell: Callable[[list[Event], float], None], clock: Callable[[], float]) -> None:
        self.groups: OrderedDict[str, Group] = OrderedDict()
        self._tell = tell
        self._clock = clock
        self._events: list[Event] = []
        self._waiting: dict[str, Group] = {}
        self._names: dict[bytes, str] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._moved: set[tuple[str, int]] = set()
        self._told_ends = clock()

    def asked(self, asked: Asked) -> None:
        """A request was read."""
        if asked.key in TRACED:
            self._name_topics(asked.request)
            group = self._group(asked)
            if group is not None:
                group.asked(asked)

    def answered(self, asked: Asked, answer: Any) -> None:
        """An answer was read."""
        now = self._clock()
        if asked.key == ApiKey.METADATA:
            self._learn_topics(answer)
        elif asked.key == ApiKey.FETCH:
            self._fetched(answer)
        elif asked.request is None:
            return
        elif asked.key == ApiKey.LIST_OFFSETS:
            self._listed(asked.request, answer)
        else:
            self._exchanged(asked, answer, now)
            self._flush(now)

    def closed(self, line: Line) -> None:
        """A connection has ended: what is unanswered there never will be."""
        for asked in line.waiting:
            if asked.request is not None and asked.key in TRACED:
                group = self.groups.get(getattr(asked.request, "group_id", ""))
                if group is not None:
                    group.forget(asked)

    def tick(self) -> None:
        """To be called a few times a second: tells what has waited long enough."""
        now = self._clock()
        for group in list(self._waiting.values()):
            if group.telling is None or now - group.telling.ended >= TOLD_AT_LEAST_S:
                group.tell()
                del self._waiting[group.group_id]
        if self._moved and now - self._told_ends >= END_OFFSETS_SECONDS:
            self._told_ends = now
            self._events.append(end_offsets((*key, self._ends[key]) for key in sorted(self._moved)))
            self._moved.clear()
        self._flush(now)

    def finish(self) -> None:
        """The relay ends: tells all there is."""
        for group in self._waiting.values():
            group.tell()
        self._waiting.clear()
        self._told_ends -= END_OFFSETS_SECONDS
        self.tick()

    def _emit(self, event: Event) -> None:
        self._events.append(event)

    def _flush(self, now: float) -> None:
        if self._events:
            events, self._events = self._events, []
            self._tell(events, now)

    # Groups

    def _group(self, asked: Asked) -> Group | None:
        """The group that a request of a member is about."""
        if asked.api not in _OF_MEMBERS and asked.api != "JoinGroup":
            return None
        group_id = asked.request.group_id
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self._emit)
            if len(self.groups) > GROUPS:
                self.groups.popitem(last=False)
        else:
            self.groups.move_to_end(group_id)
        return group

    def _exchanged(self, asked: Asked, answer: Message, now: float) -> None:
        self._name_topics(answer)
        event = _exchange(asked, answer)
        group = self._group(asked)
        if asked.api == "JoinGroup":
            assert group is not None
            group.join_answered(asked, answer, now, event)
            if group.telling is not None:
                self._waiting[group.group_id] = group
            return
        if group is not None:
            group.answered(asked, answer, now)
        elif asked.api == "OffsetCommit":
            commit = _commit(asked.request, answer)
            self._events.append(commit)
            committing = self.groups.get(asked.request.group_id)
            if committing is not None and not commit["error"]:
                committing.heard(asked.request.member_id, asked.arrived)
        elif asked.api == "DeleteGroups":
            self._deleted(answer)
        self._events.append(event)

    def _deleted(self, answer: Any) -> None:
        for result in answer.results:
            if not result.error_code:
                self._waiting.pop(result.group_id, None)
                group = self.groups.pop(result.group_id, None) or Group(result.group_id, self._emit)
                group.deleted()

    # Topics

    def _learn_topics(self, answer: Any) -> None:
        for topic in answer.topics:
            if topic.name and any(topic.topic_id) and len(self._names) < PARTITIONS:
                self._names[topic.topic_id] = topic.name

    def _name_topics(self, message: Any) -> None:
        """Newer versions call topics by id; events have their names."""
        for part in (message, *(getattr(message, "groups", None) or ())):
            for topic in getattr(part, "topics", None) or ():
                topic_id = getattr(topic, "topic_id", b"")
                if any(topic_id) and not topic.name:
                    topic.name = self._names.get(topic_id, "")

    def _fetched(self, answer: Any) -> None:
        for topic in answer.responses:
            name = topic.topic or self._names.get(topic.topic_id)
            if name:
                for partition in topic.partitions:
                    if not partition.error_code:
                        self._ends_at(name, partition.partition_index, partition.high_watermark)

    def _listed(self, request: Any, answer: Any) -> None:
        if request.isolation_level != _READ_UNCOMMITTED:
            # The last stable offset, which may lie before the end.
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
        if offset >= 0 and self._ends.get(key) != offset and (key in self._ends or len(self._ends) < PARTITIONS):
            self._ends[key] = offset
            self._moved.add(key)


def _exchange(asked: Asked, answer: Message) -> Event:
    """The `exchange` event of a request and its answer."""
    request, answered, error = shown(asked.request, answer, asked.version)
    return {
        "event": "exchange",
        "conn": asked.line.number,
        "node": asked.line.node,
        "api": asked.api,
        "version": asked.version,
        "client_id": asked.client_id,
        "group": request.get("group_id"),
        "member": request.get("member_id") or answered.get("member_id"),
        "request": request,
        "answer": answered,
        "error": error,
        "correlation_id": asked.correlation_id,
        "arrived": asked.arrived,
    }


def _commit(request: Any, answer: Any) -> Event:
    """The `commit` event of an OffsetCommit."""
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

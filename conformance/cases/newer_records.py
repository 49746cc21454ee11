"""Cases about the records of groups that Kafka 4.3 and 4.4 changed, as a consumer of `__consumer_offsets` reads them.

The values are declared here once more, after Kafka's schemas, so that an error of the coordinator's own is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from kafka_shim.apis.wire import Message, Struct, array, field, int8, int16, int32, int64, string, uuid
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.newer_streams import describe, description_of, source_of_described
from kafka_shim.conformance.cases.releases import set_value, shrinking
from kafka_shim.conformance.cases.share import described as described_share
from kafka_shim.conformance.cases.stored_ids import written
from kafka_shim.conformance.cases.streams import CONFIGURES, at_once, source
from kafka_shim.conformance.record_batch import read_records
from kafka_shim.conformance.share_member import ShareMember
from kafka_shim.conformance.streams_member import StreamsMember, reading, settle
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

READS = ("Fetch", "Metadata", "FindCoordinator")
record_case = partial(case, source="semantics 5.2 step 5", level=Level.MAY, since="4.2")


class TargetMetadata(Message, versions="0", flexible="0+"):
    """Types 6, 12 and 20: the epoch of the target assignment."""

    version: int = field(int16)
    epoch: int = field(int32)
    timestamp: int = field(int64, tag=0, tagged="0+")


class Assigned(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))
    epochs: list[int] | None = field(array(int32), nullable="0+", tag=0, tagged="0+", default=None)


class CurrentAssignment(Message, versions="0", flexible="0+"):
    """Type 8: the assignment of a member."""

    version: int = field(int16)
    member_epoch: int = field(int32)
    previous_epoch: int = field(int32)
    state: int = field(int8)
    assigned: list[Assigned] = field(array(Assigned))
    revoked: list[Assigned] = field(array(Assigned))


class KeyValue(Struct):
    key: str = field(string)
    value: str = field(string)


class StreamsGroupMetadata(Message, versions="0", flexible="0+"):
    """Type 17: a streams group."""

    version: int = field(int16)
    epoch: int = field(int32)
    metadata_hash: int = field(int64)
    validated_epoch: int = field(int32, tag=0, tagged="0+", default=-1)
    configs: list[KeyValue] | None = field(array(KeyValue), nullable="0+", tag=1, tagged="0+", default=None)
    stored_epoch: int = field(int32, tag=2, tagged="0+", default=-1)
    failed_epoch: int = field(int32, tag=3, tagged="0+", default=-1)


class Entry(NamedTuple):
    """A record of the group: its type, and its value, None for a tombstone."""

    type: int
    value: bytes | None


CONSUMER_GROUP, CONSUMER_TARGET, CONSUMER_CURRENT = 3, 6, 8
SHARE_TARGET: Final = 12
STREAMS_GROUP, STREAMS_TARGET = 17, 20
CONSUMER_LEAVE: Final = (8, 7, 5, CONSUMER_GROUP)
"""The types that the last leave of a consumer group writes: current and target assignment, member, group."""
SHARE_LEAVE: Final = (14, 13, 10, 11)
STREAMS_LEAVE: Final = (22, 21, 19, STREAMS_GROUP)


def entries(t: Trial, records: bytes) -> list[Entry]:
    """Return the records of the group itself among records of its partition."""
    name = t.group.encode()
    prefix = len(name).to_bytes(2, "big") + name
    return [
        Entry(int.from_bytes(each.key[:2], "big"), each.value)
        for each in read_records(records)
        if each.key is not None and each.key[2:].startswith(prefix)
    ]


def entries_of(t: Trial, act: Callable[[], object], *types: int) -> list[Entry]:
    """Return the records of the group since `act` began, once one of each type is there."""

    def has_all(records: bytes) -> bool:
        return set(types) <= {each.type for each in entries(t, records)}

    return entries(t, written(t, act, has_all))


def target_of(group_records: Sequence[Entry], record: int) -> TargetMetadata:
    """Return the last target assignment among records."""
    (*_, value) = (each.value for each in group_records if each.type == record and each.value is not None)
    return TargetMetadata.decode(value, 0)


def last_leave(t: Trial, leave: Callable[[], object], types: Sequence[int], record: int, epoch: int) -> None:
    """Compare the records of the last leave; `record` is the type of the target assignment's, `epoch` the new one."""
    resets = t.rules.reset_of_empty_groups
    group_records = entries_of(t, leave, types[-1], *[record] * resets)
    t.equal([each.type for each in group_records], [*types, *[record] * resets], "the types of the records")
    t.equal([each.value for each in group_records[:3]], [None] * 3, "the values of the member's records")
    if resets:
        t.equal(group_records[-1].value, TargetMetadata(0, epoch, 0).encode(0), "the target assignment's record")


# -- target assignments


@record_case(
    "consumer/record/1",
    "From 4.3 on the target assignment's record has its time; from 4.4 on the last leave writes one without",
    api="ConsumerGroupHeartbeat",
    versions=(1, 1),
    uses=READS,
)
def consumer_targets(t: Trial) -> None:
    one = t.consumer(t.topic(3))
    target = target_of(entries_of(t, one.join, CONSUMER_TARGET), CONSUMER_TARGET)
    t.equal(target.epoch, one.epoch, "the assignment epoch")
    t.equal(target.timestamp > 0, t.rules.batched_assignments, "whether the record has a time")
    last_leave(t, one.leave, CONSUMER_LEAVE, CONSUMER_TARGET, one.epoch + 1)


@record_case(
    "share/record/1",
    "From 4.3 on a share group's target assignment has its time; from 4.4 on the last leave writes one without",
    api="ShareGroupHeartbeat",
    uses=("ShareGroupDescribe", *READS),
)
def share_targets(t: Trial) -> None:
    one = ShareMember(t, t.topic(1))
    target = target_of(entries_of(t, one.joined, SHARE_TARGET), SHARE_TARGET)
    t.equal(target.timestamp > 0, t.rules.batched_assignments, "whether the record has a time")
    last_leave(t, one.leave, SHARE_LEAVE, SHARE_TARGET, described_share(t).group_epoch + 1)


@record_case(
    "streams/record/1",
    "From 4.3 on a streams group's target assignment has its time; from 4.4 on the last leave writes one without",
    api="StreamsGroupHeartbeat",
    uses=(*CONFIGURES, *READS),
)
def streams_targets(t: Trial) -> None:
    at_once(t)
    one = StreamsMember(t, reading(source(t)))

    def join() -> None:
        one.join()
        settle(t, one)

    target = target_of(entries_of(t, join, STREAMS_TARGET), STREAMS_TARGET)
    t.equal(target.epoch, one.epoch, "the assignment epoch")
    t.equal(target.timestamp > 0, t.rules.batched_assignments, "whether the record has a time")
    last_leave(t, one.leave, STREAMS_LEAVE, STREAMS_TARGET, one.epoch + 1)


# -- assignments of members


@record_case(
    "consumer/record/2",
    "From 4.3 on a member's record has the epoch of each partition, also of those that it must revoke",
    api="ConsumerGroupHeartbeat",
    versions=(1, 1),
    uses=READS,
)
def epochs_of_partitions(t: Trial) -> None:
    def shrink() -> None:
        shrinking(t)

    group_records = entries_of(t, shrink, CONSUMER_CURRENT)
    values = [each.value for each in group_records if each.type == CONSUMER_CURRENT and each.value is not None]
    (shrunk, *_) = (each for each in (CurrentAssignment.decode(value, 0) for value in values) if each.revoked)
    epochs = t.rules.partition_assignment_epochs
    for (place,) in (shrunk.assigned, shrunk.revoked):
        t.equal(place.topic_id, t.topic_id(t.topic(4)), "the topic")
        t.equal(len(place.partitions), 2, "the number of partitions")
        t.equal(place.epochs, [shrunk.member_epoch] * 2 if epochs else None, "the epochs of the partitions")


# -- streams groups


@record_case(
    "streams/record/2",
    "A streams group's record has the configurations of its assignment: from 4.4 on the client tags, if there are any",
    api="StreamsGroupHeartbeat",
    uses=(*CONFIGURES, *READS),
    since="4.4",
)
def configurations(t: Trial) -> None:
    at_once(t)
    one = StreamsMember(t, reading(source(t)))

    def of_last(act: Callable[[], object]) -> dict[str, str]:
        (*_, value) = (each.value for each in entries_of(t, act, STREAMS_GROUP) if each.type == STREAMS_GROUP)
        return {each.key: each.value for each in StreamsGroupMetadata.decode(value or b"", 0).configs or ()}

    def join() -> None:
        one.join()
        settle(t, one)

    t.equal(of_last(join), {"num.standby.replicas": "0"}, "the configurations")
    set_value(t, "streams.rack.aware.assignment.tags", "zone,rack")
    tags = {"num.standby.replicas": "0", "rack.aware.assignment.tags": "zone,rack"}
    t.equal(of_last(one.report), tags, "the configurations with tags")


@record_case(
    "topology-description/record/1",
    "Before the plugin is called the group's record has the epoch -2 of a description, after it the topology's",
    api="StreamsGroupTopologyDescriptionUpdate",
    uses=("StreamsGroupHeartbeat", *CONFIGURES, *READS),
    profile="limits",
    since="4.4",
)
def epochs_of_description(t: Trial) -> None:
    topic = source_of_described(t)
    one = StreamsMember(t, reading(topic))
    one.join()
    settle(t, one)

    def has_both(records: bytes) -> bool:
        return len(entries(t, records)) > 1

    group_records = entries(t, written(t, lambda: describe(t, one, description_of(topic)), has_both))
    t.equal([each.type for each in group_records], [STREAMS_GROUP] * 2, "the types of the records")
    stored = [StreamsGroupMetadata.decode(each.value or b"", 0).stored_epoch for each in group_records]
    t.equal(stored, [-2, 0], "the epochs of the description")

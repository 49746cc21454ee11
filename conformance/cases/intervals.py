"""Cases about the interval between two assignments of a group (KIP-1263).

Each sets the longest interval for its group, and ends it by the setting: no case waits for a clock.
"""

from __future__ import annotations

from functools import partial

from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.consumer_admin import described
from kafka_shim.conformance.cases.releases import set_value
from kafka_shim.conformance.cases.share import described as described_share
from kafka_shim.conformance.cases.streams import CONFIGURES, DELAYED, at_once, source
from kafka_shim.conformance.cases.streams import described as described_streams
from kafka_shim.conformance.member import subscription
from kafka_shim.conformance.share_member import ShareMember
from kafka_shim.conformance.streams_member import StreamsMember, reading, settle
from kafka_shim.conformance.trial import Trial

consumer_case = partial(
    case,
    source="KIP-1263; semantics 4.10",
    api="ConsumerGroupHeartbeat",
    uses=("ConsumerGroupDescribe", *CONFIGURES),
    since="4.3",
)
LONGEST_MS = 15_000


def set_interval(t: Trial, kind: str, ms: int) -> None:
    """Set the interval of the group, and wait until the broker has it."""
    set_value(t, f"{kind}.assignment.interval.ms", str(ms))


@consumer_case(
    "consumer/interval/1",
    "Within the interval a new member gets the assignment epoch and nothing; the next heartbeat after it assigns",
)
def newcomer_waits(t: Trial) -> None:
    topic = t.topic(4)
    set_interval(t, "consumer", LONGEST_MS)
    one, other = t.consumer(topic), t.consumer(topic)
    t.expect(one.join(), member_epoch=t.first_epoch)
    t.equal(len(one.assigned), 4, "partitions of the first member, which does not wait")
    t.expect(other.join(), member_epoch=t.first_epoch)
    t.equal(other.assigned, set(), "partitions of the second member")
    t.expect(one.heartbeat(), error_code=0, member_epoch=t.first_epoch, assignment=None)
    t.expect(described(t), group_state="Assigning", group_epoch=t.first_epoch + 1, assignment_epoch=t.first_epoch)
    set_interval(t, "consumer", 0)
    t.until(
        lambda: t.expect(other.heartbeat(), error_code=0).member_epoch,
        lambda epoch: epoch == t.first_epoch + 1,
        "its epoch never grew",
    )
    t.expect(described(t), group_state="Reconciling", group_epoch=t.first_epoch + 1, assignment_epoch=t.first_epoch + 1)
    t.expect(one.heartbeat(), error_code=0, member_epoch=t.first_epoch)
    t.equal(len(one.assigned), 2, "partitions that the first member keeps")


@consumer_case(
    "consumer/interval/2",
    "The last leave ends the wait from 4.4 on: both epochs are equal, and the next join is assigned at once",
)
def last_leave(t: Trial) -> None:
    topic = t.topic(3)
    set_interval(t, "consumer", LONGEST_MS)
    one, successor = t.consumer(topic), t.consumer(topic)
    one.join()
    t.expect(one.leave(), error_code=0)
    group = t.expect(described(t), group_state="Empty", group_epoch=t.first_epoch + 1)
    resets = t.rules.reset_of_empty_groups
    t.equal(group.assignment_epoch, t.first_epoch + resets, "the assignment epoch of the empty group")
    t.expect(successor.join(), member_epoch=group.assignment_epoch + resets)
    t.equal(len(successor.assigned), 3 if resets else 0, "partitions of the next member")


@consumer_case(
    "consumer/interval/3",
    "A classic member of a consumer group joins again (27) when its epoch is below the assignment epoch, not before",
    uses=("ConsumerGroupDescribe", "JoinGroup", "SyncGroup", "Heartbeat", *CONFIGURES),
)
def classic_member_waits(t: Trial) -> None:
    topic = t.topic(4)
    set_interval(t, "consumer", 0)
    one = t.consumer(topic)
    one.join()
    classic = t.member(protocols=(("range", subscription(topic)),))
    t.expect(classic.join(), error_code=0)
    t.expect(classic.sync(), error_code=0)
    set_interval(t, "consumer", LONGEST_MS)
    epoch = described(t).group_epoch
    newcomer = t.consumer(topic)
    t.expect(newcomer.join(), error_code=0, member_epoch=epoch)
    t.equal(described(t).group_epoch, epoch + 1, "the group epoch")
    t.equal(classic.heartbeat(), 0, "a heartbeat of the classic member while the group waits")
    set_interval(t, "consumer", 0)
    t.expect(newcomer.heartbeat(), error_code=0)
    t.equal(classic.heartbeat(), 27, "its heartbeat once there is an assignment")


@case(
    "share/interval/1",
    "Within the interval a new member of a share group gets the assignment epoch and nothing, and the group is Stable",
    source="KIP-1263; semantics 4.10",
    api="ShareGroupHeartbeat",
    uses=("ShareGroupDescribe", *CONFIGURES),
    since="4.3",
)
def share_member_waits(t: Trial) -> None:
    topic = t.topic(2)
    one, other = ShareMember(t, topic).joined(), ShareMember(t, topic)
    set_interval(t, "share", LONGEST_MS)
    epoch = one.epoch
    t.expect(other.join(), error_code=0, member_epoch=epoch)
    t.equal(other.assigned, set(), "its partitions")
    t.expect(one.heartbeat(), error_code=0, member_epoch=epoch, assignment=None)
    t.expect(described_share(t), group_state="Stable", group_epoch=epoch + 1, assignment_epoch=epoch)
    set_interval(t, "share", 0)
    t.until(lambda: (t.expect(other.heartbeat(), error_code=0), other.assigned)[1], bool, "it never got partitions")
    t.equal(other.epoch, epoch + 1, "its epoch")


@case(
    "streams/interval/1",
    "Within the interval a new member of a streams group gets the assignment epoch, no task, and status 5",
    source="KIP-1263; semantics 4.10",
    api="StreamsGroupHeartbeat",
    uses=("StreamsGroupDescribe", *CONFIGURES),
    since="4.3",
)
def streams_member_waits(t: Trial) -> None:
    at_once(t)
    topology = reading(source(t))
    one, other = StreamsMember(t, topology), StreamsMember(t, topology)
    one.join()
    settle(t, one)
    set_interval(t, "streams", LONGEST_MS)
    epoch = one.epoch
    t.expect(other.join(), error_code=0, member_epoch=epoch)
    t.equal(other.active, set(), "its tasks")
    delayed = "Assignment delayed due to the configured assignment interval."
    t.equal(other.statuses, {DELAYED: delayed}, "its statuses")
    t.expect(described_streams(t), group_state="Assigning", group_epoch=epoch + 1, assignment_epoch=epoch)
    set_interval(t, "streams", 0)
    settle(t, one, other)
    t.equal(one.epoch, epoch + 1, "the epoch of both")


@case(
    "share/interval/2",
    "The last leave ends the wait of a share group from 4.4 on: both epochs are equal, and the next join is assigned",
    source="KIP-1263; semantics 4.10",
    api="ShareGroupHeartbeat",
    uses=("ShareGroupDescribe", *CONFIGURES),
    since="4.3",
)
def last_leave_of_share_group(t: Trial) -> None:
    topic = t.topic(2)
    one, successor = ShareMember(t, topic).joined(), ShareMember(t, topic)
    set_interval(t, "share", LONGEST_MS)
    epoch = one.epoch
    t.expect(one.leave(), error_code=0)
    resets = t.rules.reset_of_empty_groups
    t.expect(described_share(t), group_state="Empty", group_epoch=epoch + 1, assignment_epoch=epoch + resets)
    t.expect(successor.join(), error_code=0, member_epoch=epoch + 2 * resets)
    t.equal(len(successor.assigned), 2 if resets else 0, "partitions of the next member")


@case(
    "streams/interval/2",
    "The last leave ends the wait of a streams group from 4.4 on: both epochs are equal, and the next join has tasks",
    source="KIP-1263; semantics 4.10",
    api="StreamsGroupHeartbeat",
    uses=("StreamsGroupDescribe", *CONFIGURES),
    since="4.3",
)
def last_leave_of_streams_group(t: Trial) -> None:
    at_once(t)
    topology = reading(source(t))
    one, successor = StreamsMember(t, topology), StreamsMember(t, topology)
    one.join()
    settle(t, one)
    set_interval(t, "streams", LONGEST_MS)
    epoch = one.epoch
    t.expect(one.leave(), error_code=0)
    resets = t.rules.reset_of_empty_groups
    t.expect(described_streams(t), group_state="Empty", group_epoch=epoch + 1, assignment_epoch=epoch + resets)
    t.expect(successor.join(), error_code=0, member_epoch=epoch + 2 * resets)
    t.equal(successor.active, {0, 1, 2} if resets else set(), "tasks of the next member")

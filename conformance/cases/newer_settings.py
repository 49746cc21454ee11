"""Cases about settings that a release of Kafka added: of topics, brokers and streams groups."""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_shim.apis.streams_group_heartbeat import KeyValue
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.configs import BROKER, GROUP, TOPIC, change, described
from kafka_shim.conformance.cases.releases import set_value
from kafka_shim.conformance.cases.streams import CONFIGURES, at_once, source
from kafka_shim.conformance.cases.streams import described as described_streams
from kafka_shim.conformance.streams_member import StreamsMember, reading, settle
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

MISSING_CLIENT_TAGS: Final = 6
LATE_COPIES: Final = {"remote.copy.lag.bytes": "-1", "remote.copy.lag.ms": "0"}


@case(
    "describe-configs/topic/2",
    "From 4.4 on a topic has settings of late remote copies, with a synonym of the broker",
    source="semantics 4.10",
    api="DescribeConfigs",
    versions=(4, 4),
    level=Level.SHOULD,
)
def late_copies(t: Trial) -> None:
    values = described(t, TOPIC, t.topic(3), *LATE_COPIES)
    has_them = t.rules.late_remote_copies
    t.equal({name: each.value for name, each in values.items()}, LATE_COPIES if has_them else {}, "the values")
    for name, each in values.items():
        t.equal([synonym.name for synonym in each.synonyms], [f"log.{name}"], f"the synonyms of {name}")


@case(
    "incremental-alter-configs/broker/1",
    "From 4.3 on a running broker takes an assignment interval within its bounds (42)",
    source="semantics 4.10",
    api="IncrementalAlterConfigs",
    level=Level.SHOULD,
    since="4.3",
)
def interval_of_broker(t: Trial) -> None:
    for kind in ("consumer", "share", "streams"):
        name = f"group.{kind}.assignment.interval.ms"
        for value, error in (("15000", E.NONE), ("15001", E.INVALID_REQUEST), ("-1", E.INVALID_REQUEST)):
            resource = AlterConfigsResource(BROKER, "", [AlterableConfig(name, 0, value)])
            answer = t.call(IncrementalAlterConfigsRequest([resource], True)).responses[0]
            t.expect(answer, error_code=error)
        resource = AlterConfigsResource(
            BROKER, "", [AlterableConfig(f"group.{kind}.max.assignment.interval.ms", 0, "9")]
        )
        answer = t.call(IncrementalAlterConfigsRequest([resource], True)).responses[0]
        t.expect(answer, error_code=E.INVALID_REQUEST)


@case(
    "incremental-alter-configs/group/4",
    "A streams group has a known assignor, and client tags without a repeated or empty one, else 40",
    source="KIP-1357; semantics 4.10",
    api="IncrementalAlterConfigs",
    level=Level.SHOULD,
    uses=("DescribeConfigs",),
    since="4.4",
)
def assignor_and_tags(t: Trial) -> None:
    for assignor, error in (("sticky", E.NONE), ("nope", E.INVALID_CONFIG), ("", E.INVALID_CONFIG)):
        t.equal(change(t, GROUP, t.group, streams_assignor_name=assignor), error, f"the error of {assignor!r}")
    for tags, error in ((" a , b", E.NONE), ("a,a", E.INVALID_CONFIG), ("a,,b", E.INVALID_CONFIG)):
        answer = change(t, GROUP, t.group, streams_rack_aware_assignment_tags=tags)
        t.equal(answer, error, f"the error of {tags!r}")
    name = "streams.rack.aware.assignment.tags"
    t.until(lambda: described(t, GROUP, t.group, name)[name].value, lambda value: value == "a,b", "the tags never came")
    resource = AlterConfigsResource(GROUP, t.group, [AlterableConfig(name, 2, "c")])
    answer = t.call(IncrementalAlterConfigsRequest([resource])).responses[0]
    t.expect(answer, error_code=E.INVALID_CONFIG)


@case(
    "incremental-alter-configs/group/6",
    "From 4.4 on a group takes the settings of assignors in threads, else 40",
    source="semantics 4.10",
    api="IncrementalAlterConfigs",
    level=Level.SHOULD,
)
def assignors_in_threads(t: Trial) -> None:
    error = E.NONE if t.rules.assignor_offload else E.INVALID_CONFIG
    for kind in ("consumer", "share", "streams"):
        name = f"{kind}.assignor.offload.enable"
        for value, expected in (("false", error), ("true", error), ("perhaps", E.INVALID_CONFIG)):
            resource = AlterConfigsResource(GROUP, t.group, [AlterableConfig(name, 0, value)])
            answer = t.call(IncrementalAlterConfigsRequest([resource])).responses[0]
            t.equal(answer.error_code, expected, f"the error of {name}={value}")


@case(
    "streams/tags/1",
    "From 4.4 on a group may require client tags: other tags make an epoch, version 1 names those that a member lacks",
    source="semantics 4.10",
    api="StreamsGroupHeartbeat",
    uses=("StreamsGroupDescribe", *CONFIGURES),
    since="4.4",
)
def required_tags(t: Trial) -> None:
    at_once(t)
    one = StreamsMember(t, reading(source(t)))
    t.expect(one.join(client_tags=[KeyValue("zone", "1")]), error_code=0)
    settle(t, one)
    epoch = described_streams(t).group_epoch
    set_value(t, "streams.rack.aware.assignment.tags", "zone,cluster,rack")
    t.until(lambda: one.report().member_epoch, lambda now: now == epoch + 1, "no epoch for the tags")
    sentence = (
        "Missing required client tags for rack-aware standby assignment: [cluster, rack]. Configure them via "
        "'client.tag.<tagKey>' in your Streams config."
    )
    t.equal(one.statuses, {MISSING_CLIENT_TAGS: sentence} if t.version else {}, "the statuses")
    tags = [KeyValue(name, "1") for name in ("cluster", "rack", "zone")]
    t.expect(one.heartbeat(client_tags=tags), error_code=0, member_epoch=epoch + 2)
    t.equal(one.statuses, {}, "the statuses with all tags")


@case(
    "streams/offsets/2",
    "From 4.4 on a group has its own time between two reports of offsets, and its own acceptable lag",
    source="semantics 4.10",
    api="StreamsGroupHeartbeat",
    uses=CONFIGURES,
    since="4.4",
)
def interval_of_reports(t: Trial) -> None:
    at_once(t)
    one = StreamsMember(t, reading(source(t)))
    t.expect(one.join(), error_code=0, task_offset_interval_ms=60_000)
    set_value(t, "streams.task.offset.interval.ms", "20000")
    set_value(t, "streams.acceptable.recovery.lag", "7")
    t.until(lambda: one.report().task_offset_interval_ms, lambda now: now == 20_000, "the time never came")
    if t.version:
        t.until(lambda: one.report().acceptable_recovery_lag, lambda now: now == 7, "the lag never came")

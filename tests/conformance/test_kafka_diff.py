"""The list of differences between two releases: from facts by hand, and from the jars of three releases."""

import json
import re
import shutil
from pathlib import Path

import pytest

from kafka_shim.conformance.kafka_diff import _read, differences, differences_of_runs, facts_of, rules_before


def facts_by_hand(schema: dict) -> dict:
    facts = {"API versions": {}, "messages": {}, "records": {}}
    _read(schema, facts)
    return facts


def schema(versions: str, fields: list[dict]) -> dict:
    return {
        "apiKey": 3,
        "type": "request",
        "listeners": ["broker"],
        "name": "ARequest",
        "validVersions": versions,
        "flexibleVersions": "none",
        "fields": fields,
    }


def test_new_and_changed_fields_are_listed_with_their_versions() -> None:
    name = {"name": "Name", "type": "string", "versions": "0+"}
    topics = {"name": "Topics", "type": "[]Topic", "versions": "0+", "fields": [name]}
    topic_id = {"name": "TopicId", "type": "uuid", "versions": "1+"}
    newer = {**topics, "fields": [{**name, "versions": "0"}, topic_id]}
    lines = list(differences(facts_by_hand(schema("0", [topics])), facts_by_hand(schema("0-1", [newer]))))
    assert lines == [
        "## API versions: 1",
        "- changed: A: key 3, 0, broker -> key 3, 0-1, broker",
        "## messages: 3",
        "- changed: ARequest.Topics.Name: string, 0+ -> string, 0",
        "- changed: ARequest: 0, flexible none -> 0-1, flexible none",
        "- new: ARequest.Topics.TopicId: uuid, 1+",
        "## records: 0",
    ]


def test_a_struct_within_itself_ends() -> None:
    node = [{"name": "Next", "type": "Node", "versions": "0+", "nullableVersions": "0+"}]
    chain = schema("0", [{"name": "First", "type": "Node", "versions": "0+"}])
    chain["commonStructs"] = [{"name": "Node", "fields": node}]
    assert facts_by_hand(chain)["messages"].keys() == {"ARequest", "ARequest.First", "ARequest.First.Next"}


def cell(case: str, version: int | None, verdict: str, reason: str = "") -> dict:
    about = {"api": None if version is None else "JoinGroup", "title": f"The rule of {case}"}
    return {"case": case, "version": version, "verdict": verdict, "reason": reason, **about}


def test_the_runs_of_two_releases_are_compared_case_by_case(tmp_path: Path) -> None:
    """The reports are there already, so nothing is run."""
    late = "no answer within 8 s\nand more"
    reports = {
        "kafka-4.3.1": {
            "cells": [
                *(cell("join/a/1", version, "timeout", late) for version in (4, 5, 7)),
                cell("join/a/2", 6, "pass"),
                cell("wire/b/1", None, "skip", "no way"),
            ]
        },
        "kafka-4.4.0": {
            "cells": [
                *(cell("join/a/1", version, "pass") for version in (4, 5, 7, 8)),
                cell("join/a/2", 6, "fail", "error 3, must be 0"),
                cell("join/a/2", 8, "pass"),
                cell("join/a/2", 9, "fail", "error 3, must be 0"),
                cell("join/a/3", 9, "fail", "error 9, must be 0"),
            ]
        },
        "kafka-4.4.0-against-4.3.1-classic": {
            "scripts": 100,
            "seed": 7,
            "findings": [
                {
                    "script": [{"do": "join", "actor": 1}, {"do": "sync", "actor": 1, "who": "none"}],
                    "step": 1,
                    "about": "the answer to step 1 (m1 sync who=none)",
                    "results": [
                        "error_code=0, member_id='m', members=[1, 2]",
                        "error_code=81, member_id='m', members=[]",
                    ],
                },
                {
                    "script": [{"do": "enter"}],
                    "step": 0,
                    "about": "the group as described",
                    "results": [
                        "[{'epoch': 2, 'members': []}, {'id': 'g'}]",
                        "[{'epoch': 1, 'members': []}, {'id': 'g'}]",
                    ],
                },
                {
                    "script": [{"do": "leave"}],
                    "step": 0,
                    "about": "the answer to step 0 (m0 leave)",
                    "results": ["no answer", "error_code=0, member_id='m'"],
                },
            ],
        },
    }
    for name, report in reports.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(report))
    assert list(differences_of_runs("4.3.1", "4.4.0", tmp_path)) == [
        "## cells with another verdict by the rules of 4.3: 4, of 2 cases",
        "- join/a/1@4-5, 7: timeout -> pass",
        "  The rule of join/a/1",
        "  4.3.1: no answer within 8 s",
        "- join/a/2@6: pass -> fail",
        "  The rule of join/a/2",
        "  4.4.0: error 3, must be 0",
        "## cells of one release: 5",
        "- JoinGroup 8, 4.4.0 alone: 2 pass",
        "- join/a/3@9, 4.4.0 alone: fail",
        "  4.4.0: error 9, must be 0",
        "- wire/b/1, 4.3.1 alone: skip",
        "  4.3.1: no way",
        "## random scripts, classic groups: 3 differences in 100 scripts, seed 7",
        "- the answer to step 1 (m1 sync who=none): error_code=81, members=[] -> error_code=0, members=[1, 2]",
        "  0 m1 join",
        "  1 m1 sync who=none",
        "- the group as described: [{'epoch': 1 -> [{'epoch': 2",
        "  0 m0 enter",
        "- the answer to step 0 (m0 leave): error_code=0, member_id='m' -> no answer",
        "  0 m0 leave",
    ]


@pytest.mark.parametrize(
    ("release", "rules"),
    [("3.9.2", "4.2"), ("4.2.2", "4.2"), ("4.3.1", "4.3"), ("4.4.0", "4.4"), ("4.5.0", "4.4"), ("4.10.0", "4.4")],
)
def test_both_runs_are_judged_by_the_rules_of_the_older_release(release: str, rules: str) -> None:
    assert rules_before(release) == rules


# The rest was found by hand in the jars and on the wire of these releases, before there was a list.

RELEASES = ("4.2.2", "4.3.1", "4.4.0")
jars = pytest.mark.everything("Java, and the jars of three releases of Kafka")
Lists = dict[str, dict[str, list[str]]]
"""By newer release of two, then by heading: the lines."""
NEW_SETTINGS = """\
4.3.1 broker group.consumer.assignment.interval.ms INT 1000 dynamic
4.3.1 broker group.consumer.min.assignment.interval.ms INT 0
4.3.1 broker group.consumer.max.assignment.interval.ms INT 15000
4.3.1 broker group.share.assignment.interval.ms INT 1000 dynamic
4.3.1 broker group.share.min.assignment.interval.ms INT 0
4.3.1 broker group.share.max.assignment.interval.ms INT 15000
4.3.1 broker group.streams.assignment.interval.ms INT 1000 dynamic
4.3.1 broker group.streams.min.assignment.interval.ms INT 0
4.3.1 broker group.streams.max.assignment.interval.ms INT 15000
4.3.1 broker group.coordinator.background.threads INT 2
4.3.1 broker group.coordinator.cached.buffer.max.bytes INT 1048588 dynamic
4.3.1 broker share.coordinator.cached.buffer.max.bytes INT 1048588 dynamic
4.3.1 broker group.share.min.delivery.count.limit INT 2
4.3.1 broker group.share.max.delivery.count.limit INT 10
4.3.1 broker group.share.min.partition.max.record.locks INT 100
4.3.1 broker group.share.max.partition.max.record.locks INT 4000
4.3.1 broker cordoned.log.dirs LIST dynamic
4.3.1 broker follower.fetch.last.tiered.offset.enable BOOLEAN false dynamic
4.3.1 group consumer.assignment.interval.ms INT 1000
4.3.1 group share.assignment.interval.ms INT 1000
4.3.1 group streams.assignment.interval.ms INT 1000
4.3.1 group share.delivery.count.limit INT 5
4.3.1 group share.partition.max.record.locks INT 2000
4.3.1 group share.renew.acknowledge.enable BOOLEAN true
4.4.0 broker group.consumer.assignor.offload.enable BOOLEAN true internal dynamic
4.4.0 broker group.share.assignor.offload.enable BOOLEAN true internal dynamic
4.4.0 broker group.streams.assignor.offload.enable BOOLEAN true internal dynamic
4.4.0 broker errors.deadletterqueue.auto.create.topics.enable BOOLEAN false dynamic
4.4.0 broker errors.deadletterqueue.topic.name.prefix STRING dlq. dynamic
4.4.0 broker group.share.dlq.manager.class.name STRING org.apache.kafka internal
4.4.0 broker group.streams.assignors LIST
4.4.0 broker group.streams.rack.aware.assignment.tags LIST
4.4.0 broker group.streams.topology.description.plugin.class CLASS null
4.4.0 broker group.streams.num.warmup.replicas INT 2 internal
4.4.0 broker group.streams.max.warmup.replicas INT 20 internal
4.4.0 broker group.streams.task.offset.interval.ms INT 60000 internal
4.4.0 broker group.streams.min.task.offset.interval.ms INT 15000 internal
4.4.0 broker group.streams.acceptable.recovery.lag LONG 10000 internal
4.4.0 broker max.decompressed.message.bytes INT 2147483639 dynamic
4.4.0 broker log.remote.copy.lag.bytes LONG -1 dynamic
4.4.0 broker log.remote.copy.lag.ms LONG 0 dynamic
4.4.0 group errors.deadletterqueue.topic.name STRING
4.4.0 group errors.deadletterqueue.copy.record.enable BOOLEAN false
4.4.0 group streams.assignor.name STRING null
4.4.0 group streams.rack.aware.assignment.tags LIST
4.4.0 group streams.num.warmup.replicas INT 2 internal
4.4.0 group streams.task.offset.interval.ms INT 60000 internal
4.4.0 group streams.acceptable.recovery.lag LONG 10000 internal
4.4.0 group consumer.assignor.offload.enable BOOLEAN true internal
4.4.0 group share.assignor.offload.enable BOOLEAN true internal
4.4.0 group streams.assignor.offload.enable BOOLEAN true internal
4.4.0 topic errors.deadletterqueue.group.enable BOOLEAN false
4.4.0 topic remote.copy.lag.bytes LONG -1
4.4.0 topic remote.copy.lag.ms LONG 0
4.4.0 topic max.decompressed.message.bytes INT 2147483639
"""
"""Release, heading, name, type, default and flags."""


@pytest.fixture(scope="module")
def lists() -> Lists:
    if shutil.which("java") is None or shutil.which("mvn") is None:
        pytest.skip("needs Java and Maven")
    facts = [facts_of(each) for each in RELEASES]
    found: Lists = {}
    for release, before, after in zip(RELEASES[1:], facts, facts[1:], strict=False):
        of_release = found[release] = {}
        for line in differences(before, after):
            if line.startswith("## "):
                lines = of_release[line.removeprefix("## ").rpartition(":")[0]] = []
            else:
                lines.append(line)
    return found


@jars
def test_new_versions_of_apis_are_found(lists: Lists) -> None:
    assert lists["4.3.1"]["API versions"] == [
        "- changed: BrokerHeartbeat: key 63, 0-1, controller -> key 63, 0-2, controller",
        "- changed: DescribeLogDirs: key 35, 1-4, broker -> key 35, 1-5, broker",
    ]
    assert lists["4.4.0"]["API versions"] == [
        "- changed: ApiVersions: key 18, 0-4, broker/controller -> key 18, 0-5, broker/controller",
        "- changed: DeleteGroups: key 42, 0-2, broker -> key 42, 0-3, broker",
        "- changed: StreamsGroupDescribe: key 89, 0, broker -> key 89, 0-1, broker",
        "- changed: StreamsGroupHeartbeat: key 88, 0, broker -> key 88, 0-1, broker",
        "- changed: TxnOffsetCommit: key 28, 0-5, broker -> key 28, 0-6, broker",
        "- new: StreamsGroupTopologyDescriptionUpdate: key 93, 0, broker",
        "- new: UnregisterController: key 94, 0, broker/controller",
    ]


@jars
def test_new_fields_of_group_records_are_found(lists: Lists) -> None:
    of_groups = {release: [line for line in lists[release]["records"] if "Group" in line] for release in RELEASES[1:]}
    epochs = "[]int32, 0+, nullable 0+, tag 0, default None"
    assert of_groups == {
        "4.3.1": [
            f"- new: ConsumerGroupCurrentMemberAssignmentValue.AssignedPartitions.AssignmentEpochs: {epochs}",
            f"- new: ConsumerGroupCurrentMemberAssignmentValue.PartitionsPendingRevocation.AssignmentEpochs: {epochs}",
            "- new: ConsumerGroupTargetAssignmentMetadataValue.AssignmentTimestamp: int64, 0+, tag 0, default 0",
            "- new: ShareGroupTargetAssignmentMetadataValue.AssignmentTimestamp: int64, 0+, tag 0, default 0",
            "- new: StreamsGroupTargetAssignmentMetadataValue.AssignmentTimestamp: int64, 0+, tag 0, default 0",
        ],
        "4.4.0": [
            "- new: StreamsGroupMetadataValue.FailedDescriptionTopologyEpoch: int32, 0+, tag 3, default -1",
            "- new: StreamsGroupMetadataValue.StoredDescriptionTopologyEpoch: int32, 0+, tag 2, default -1",
        ],
    }


@jars
def test_new_error_codes_and_texts_are_found(lists: Lists) -> None:
    assert lists["4.3.1"]["error codes"] == []
    changed, *new = lists["4.4.0"]["error codes"]
    assert changed.startswith("- changed: 124: FENCED_STATE_EPOCH: ")
    text = "The coordinator rejected the request because the state epoch did not match."
    assert changed.endswith(f" -> FENCED_STATE_EPOCH: {text}")
    assert [line.split(": ")[1:3] for line in new] == [
        ["134", "GROUP_DELETION_FAILED"],
        ["135", "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED"],
        ["136", "CONTROLLER_ID_NOT_REGISTERED"],
    ]


@jars
def test_new_levels_of_features_are_found(lists: Lists) -> None:
    assert lists["4.3.1"]["features"] == ["- changed: metadata.version: to level 29, 4.2-IV1 -> to level 30, 4.3-IV0"]
    assert lists["4.4.0"]["features"] == [
        "- changed: metadata.version: to level 30, 4.3-IV0 -> to level 33, 4.4-IV2",
        "- changed: share.version: to level 1 -> to level 2",
    ]


@jars
def test_new_settings_are_found_with_type_default_and_flags(lists: Lists) -> None:
    for row in NEW_SETTINGS.splitlines():
        release, heading, name, kind, *rest = row.split(" ")
        flags = {each for each in rest if each in ("internal", "dynamic")}
        found = [each for each in lists[release][f"{heading} settings"] if each.startswith(f"- new: {name}: ")]
        assert len(found) == 1, row
        value = found[0].removeprefix(f"- new: {name}: ")
        assert value.startswith(f"{kind}, default {''.join(set(rest) - flags)}"), row
        assert set(re.findall("internal|dynamic", value)) == flags, row


@jars
def test_settings_that_end_or_change_are_found(lists: Lists) -> None:
    of_brokers = lists["4.3.1"]["broker settings"]
    gone = {line.split(": ")[1] for line in of_brokers if line.startswith("- gone: ")}
    assert gone >= {"group.share.enable", "max.decompressed.message.bytes"}
    changed = {line.split(": ")[1] for line in of_brokers if line.startswith("- changed: ")}
    assert "share.coordinator.snapshot.update.records.per.snapshot" in changed


@jars
def test_the_broker_s_settings_behind_those_of_groups_are_found(lists: Lists) -> None:
    heading = "broker settings behind group settings"
    new = {release: {line.split(": ")[1]: line.split(": ")[2] for line in lists[release][heading]} for release in lists}
    behind = {name: f"group.{name}" for name in ("share.delivery.count.limit", "share.partition.max.record.locks")}
    behind |= {
        f"{kind}.assignment.interval.ms": f"group.{kind}.assignment.interval.ms"
        for kind in ("consumer", "share", "streams")
    }
    assert behind | {"share.renew.acknowledge.enable": "(none)"} == {
        name: new["4.3.1"][name] for name in (*behind, "share.renew.acknowledge.enable")
    }
    assert (
        new["4.4.0"].items()
        >= {
            "errors.deadletterqueue.topic.name": "(none)",
            "errors.deadletterqueue.copy.record.enable": "(none)",
            "streams.assignor.name": "group.streams.assignors",
            "streams.rack.aware.assignment.tags": "group.streams.rack.aware.assignment.tags",
        }.items()
    )

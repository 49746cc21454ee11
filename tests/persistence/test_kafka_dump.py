"""Kafka's own dump-log tool reads every exported record and accepts the exported indexes."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import orjson
import pytest

from kafka_shim.conformance.targets.base import TargetError
from kafka_shim.conformance.targets.kafka import NEWEST, class_path, jars_of
from kafka_shim.persistence import keys, records
from kafka_shim.persistence import streams_records as streams
from kafka_shim.persistence.batch import CODECS
from kafka_shim.persistence.interchange import export_offsets
from kafka_shim.persistence.memory import MemoryStore

pytestmark = pytest.mark.second_stage("Kafka's tools")

TOPIC_ID = bytes(range(16))
TOPICS = [records.TopicPartitions(TOPIC_ID, [1, 2])]
ASSIGNED = [records.AssignedTopicPartitions(TOPIC_ID, [1, 2], [4, 3])]
TIME = 1700000000000
EVERY_TYPE: list[tuple[records.Key, records.Value]] = [
    (
        records.GroupMetadataKey("grp"),
        records.GroupMetadataValue(
            "consumer", 1, "range", "m", 1700000000000,
            [records.MemberMetadata("m", "i", "c", "/h", 300000, 10000, bytes(10), bytes(10))],
        ),
    ),
    (records.OffsetCommitKey("grp", "foo", 0), records.OffsetCommitValue(5, 2, "hé", 1700000000000, -1, TOPIC_ID)),
    (records.OffsetCommitKey("grp", "foo", 1), records.OffsetCommitValue(6, -1, "", 1700000000000, 1800000000000)),
    (records.ConsumerGroupMetadataKey("new"), records.ConsumerGroupMetadataValue(3, 99)),
    (
        records.ConsumerGroupPartitionMetadataKey("new"),
        records.ConsumerGroupPartitionMetadataValue(
            [records.TopicMetadata(TOPIC_ID, "foo", 3, [records.PartitionMetadata(0, ["rack"])])]
        ),
    ),
    (
        records.ConsumerGroupMemberMetadataKey("new", "m"),
        records.ConsumerGroupMemberMetadataValue("i", None, "c", "/h", ["a", "b"], "r.*", 1000, "uniform", None),
    ),
    (
        records.ConsumerGroupMemberMetadataKey("new", "classic"),
        records.ConsumerGroupMemberMetadataValue(
            None, "rack", "c", "/h", [], None, 1000, None,
            records.ClassicMemberMetadata(45000, [records.ClassicProtocol("range", b"xy")]),
        ),
    ),
    (
        records.ConsumerGroupTargetAssignmentMetadataKey("new"),
        records.ConsumerGroupTargetAssignmentMetadataValue(4, TIME),
    ),
    (
        records.ConsumerGroupTargetAssignmentMemberKey("new", "m"),
        records.ConsumerGroupTargetAssignmentMemberValue(TOPICS),
    ),
    (
        records.ConsumerGroupCurrentMemberAssignmentKey("new", "m"),
        records.ConsumerGroupCurrentMemberAssignmentValue(4, 3, 1, ASSIGNED, []),
    ),
    (
        records.ConsumerGroupRegularExpressionKey("new", "r.*"),
        records.ConsumerGroupRegularExpressionValue(["foo"], 12, 1700000000000),
    ),
    (
        records.ShareGroupMemberMetadataKey("shared", "m"),
        records.ShareGroupMemberMetadataValue(None, "c", "/h", ["foo"]),
    ),
    (records.ShareGroupMetadataKey("shared"), records.ShareGroupMetadataValue(3, -77)),
    (
        records.ShareGroupTargetAssignmentMetadataKey("shared"),
        records.ShareGroupTargetAssignmentMetadataValue(3, TIME),
    ),
    (
        records.ShareGroupTargetAssignmentMemberKey("shared", "m"),
        records.ShareGroupTargetAssignmentMemberValue(TOPICS),
    ),
    (
        records.ShareGroupCurrentMemberAssignmentKey("shared", "m"),
        records.ShareGroupCurrentMemberAssignmentValue(3, 2, 0, TOPICS),
    ),
    (
        records.ShareGroupStatePartitionMetadataKey("shared"),
        records.ShareGroupStatePartitionMetadataValue(
            [], [records.ShareTopicPartitions(TOPICS[0].topic_id, "foo", [0, 1])], []
        ),
    ),
    (
        keys.StreamsGroupMetadataKey("streams"),
        streams.StreamsGroupMetadataValue(2, 77, 0, [streams.AssignmentConfig("num.standby.replicas", "1")], 0, -1),
    ),
    (
        keys.StreamsGroupMemberMetadataKey("streams", "m"),
        streams.StreamsGroupMemberMetadataValue(
            "i", None, "c", "/h", 1000, 0, "p", streams.StreamsEndpoint("h", 80), [streams.ClientTag("zone", "1")]
        ),
    ),
    (
        keys.StreamsGroupTargetAssignmentMetadataKey("streams"),
        streams.StreamsGroupTargetAssignmentMetadataValue(2, TIME),
    ),
    (
        keys.StreamsGroupTargetAssignmentMemberKey("streams", "m"),
        streams.StreamsGroupTargetAssignmentMemberValue([streams.TargetTaskIds("0", [0])], [], []),
    ),
    (
        keys.StreamsGroupCurrentMemberAssignmentKey("streams", "m"),
        streams.StreamsGroupCurrentMemberAssignmentValue(
            2, 1, 1, [streams.CurrentTaskIds("0", [0], [2])], [], [], [], [], []
        ),
    ),
    (
        keys.StreamsGroupTopologyKey("streams"),
        streams.StreamsGroupTopologyValue(0, [streams.Subtopology("0", source_topics=["foo"])]),
    ),
]  # fmt: skip


@pytest.fixture(scope="module", params=["4.2", "4.4"])
def release(request: pytest.FixtureRequest) -> str:
    """A release of Kafka: before and after the tagged fields of 4.3 and 4.4."""
    release: str = request.param
    return release


@pytest.fixture(scope="module")
def dump(release: str) -> list[str]:
    """Return the command that dumps files."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("Kafka's tools need Java, and there is no java here")
    try:
        jars, tool = class_path(NEWEST[release]), "kafka.tools.DumpLogSegments"
        if release == "4.4":
            tools = f"kafka-tools-{NEWEST[release]}"
            jars += os.pathsep + jars_of(tools, f"org.apache.kafka:kafka-tools:{NEWEST[release]}")
            tool = "org.apache.kafka.tools.DumpLogSegments"
    except TargetError as error:
        pytest.skip(str(error))
    return [java, "-XX:TieredStopAtLevel=1", "-cp", jars, tool, "--files"]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kafka_reads_every_record_we_export(dump: list[str], release: str, tmp_path: Path) -> None:
    store = MemoryStore()
    store.write([(0, key, value) for key, value in EVERY_TYPE])
    store.write(
        [(1, records.OffsetCommitKey("grp", "foo", n), records.OffsetCommitValue(n, -1, "", n)) for n in range(20_000)]
    )
    logs, indexes = [], []
    # Codecs do not depend on the release.
    codecs = CODECS if release == "4.4" else ("none",)
    for codec in codecs:
        export_offsets(store, 2, tmp_path / codec, 1234, codec=codec)
        for folder in sorted((tmp_path / codec).iterdir()):
            logs.append(str(folder / f"{0:020d}.log"))
            indexes += [str(folder / f"{0:020d}{suffix}") for suffix in (".index", ".timeindex")]
    printed = run([*dump, ",".join(logs), "--offsets-decoder", "--print-data-log"])
    dumps = dict(re.findall(r"^Dumping (\S+)\n(.*?)(?=^Dumping|\Z)", printed, re.M | re.S))
    for log in logs:
        assert "isvalid: false" not in dumps[log]
        payloads = re.findall(r"key: (\{.*\}) payload: (\{.*\})$", dumps[log], re.M)
        assert len(payloads) == (len(EVERY_TYPE) if "offsets-0" in log else 20_000)
    decoded = [
        (orjson.loads(key), orjson.loads(value))
        for key, value in re.findall(r"key: (\{.*\}) payload: (\{.*\})$", dumps[logs[0]], re.M)
    ]
    assert [int(key["type"]) for key, _ in decoded] == [key.record_type for key, _ in EVERY_TYPE]
    assert decoded[1] == (
        {"type": "1", "data": {"group": "grp", "topic": "foo", "partition": 0}},
        {
            "version": "4",
            "data": {
                "offset": 5,
                "leaderEpoch": 2,
                "metadata": "hé",
                "commitTimestamp": 1700000000000,
                "topicId": "AAECAwQFBgcICQoLDA0ODw",
            },
        },
    )
    assert decoded[5][1]["data"]["classicMemberMetadata"] is None
    assert decoded[6][1]["data"]["classicMemberMetadata"]["sessionTimeoutMs"] == 45000
    by_type = {int(key["type"]): value["data"] for key, value in decoded}
    newer = {
        **{f"time of {each}": by_type[each].get("assignmentTimestamp") for each in (6, 12, 20)},
        "epochs": by_type[8]["assignedPartitions"][0].get("assignmentEpochs"),
        "description": by_type[17].get("storedDescriptionTopologyEpoch"),
    }
    # The schema of 4.2 has none of these fields, and skips them.
    fields = {"time of 6": TIME, "time of 12": TIME, "time of 20": TIME, "epochs": [4, 3], "description": 0}
    assert newer == (fields if release == "4.4" else dict.fromkeys(fields))
    checked = run([*dump, ",".join(indexes), "--index-sanity-check"])
    # A single batch has no index entry, as in a broker.
    assert checked.count("passed sanity check") == len(indexes) - len(codecs)
    assert checked.count("offsets-0/00000000000000000000.index is empty") == len(codecs)
    assert "Found timestamp mismatch" not in run([*dump, ",".join(indexes), "--verify-index-only"])

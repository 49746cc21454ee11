"""Kafka's own dump-log tool reads every exported record and accepts the exported indexes."""

import re
import shutil
import subprocess
from pathlib import Path

import orjson
import pytest

from kafka_shim.conformance.targets.base import TargetError
from kafka_shim.conformance.targets.kafka import NEWEST, class_path
from kafka_shim.persistence import records
from kafka_shim.persistence.batch import CODECS
from kafka_shim.persistence.interchange import export_offsets
from kafka_shim.persistence.memory import MemoryStore

pytestmark = pytest.mark.second_stage("Kafka's tools")

TOPIC_ID = bytes(range(16))
TOPICS = [records.TopicPartitions(TOPIC_ID, [1, 2])]
ASSIGNED = [records.AssignedTopicPartitions(TOPIC_ID, [1, 2])]
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
        records.ConsumerGroupTargetAssignmentMetadataValue(4),
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
        records.ShareGroupTargetAssignmentMetadataValue(3),
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
]  # fmt: skip


@pytest.fixture(scope="module")
def dump() -> list[str]:
    """Return the command that dumps files."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("Kafka's tools need Java, and there is no java here")
    try:
        jars = class_path(NEWEST["4.2"])
    except TargetError as error:
        pytest.skip(str(error))
    return [java, "-XX:TieredStopAtLevel=1", "-cp", jars, "kafka.tools.DumpLogSegments", "--files"]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kafka_reads_every_record_we_export(dump: list[str], tmp_path: Path) -> None:
    store = MemoryStore()
    store.write([(0, key, value) for key, value in EVERY_TYPE])
    store.write(
        [(1, records.OffsetCommitKey("grp", "foo", n), records.OffsetCommitValue(n, -1, "", n)) for n in range(20_000)]
    )
    logs, indexes = [], []
    for codec in CODECS:
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
    checked = run([*dump, ",".join(indexes), "--index-sanity-check"])
    # A single batch has no index entry, as in a broker.
    assert checked.count("passed sanity check") == len(indexes) - len(CODECS)
    assert checked.count("offsets-0/00000000000000000000.index is empty") == len(CODECS)
    assert "Found timestamp mismatch" not in run([*dump, ",".join(indexes), "--verify-index-only"])

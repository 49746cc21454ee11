"""Lines of kafka-python 1.4 to 3.0, loggers `kafka.coordinator`, `kafka.coordinator.consumer` and `.heartbeat`.

Releases before 2.1 neither print their member id nor tell the poll interval from other reasons to leave. Source:
`kafka/coordinator` of kafka-python 2.0, 2.3 and 3.0.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.sources.client_program import ClientProgram
from kafka_shim.sources.patterns import Pattern
from kafka_shim.sources.python_clients import SHARED
from kafka_shim.sources.signs import SignName
from kafka_shim.trace.clients import Library

KAFKA_PYTHON: Final = ClientProgram(
    "kafka-python",
    "",
    (
        Pattern(
            SignName.ID_RECEIVED,
            r"Received member id (?P<member>.+) for group (?P<group>.+); will retry join-group",
            "; will retry join-group",
        ),
        Pattern(
            SignName.IN_GENERATION,
            r"Successfully joined group (?P<group>.+) <Generation (?P<generation>\d+)"
            r" \(member_id: (?P<member>.+), protocol: (?P<protocol>.+?)\)>",
            "Successfully joined group ",
        ),
        Pattern(
            SignName.IN_GENERATION,
            r"Successfully joined group (?P<group>.+) with generation (?P<generation>\d+)$",
            "Successfully joined group ",
        ),
        Pattern(
            SignName.POLL_EXPIRED,
            r"Consumer poll timeout has expired\. This means .*max_poll_interval_ms",
            "Consumer poll timeout has expired. This means",
        ),
        Pattern(
            SignName.POLL_EXPIRED,
            r"Heartbeat poll expired, leaving group",
            "Heartbeat poll expired, leaving group",
        ),
        Pattern(
            SignName.LEAVES,
            r"Leaving consumer group (?P<group>.+) \(member (?P<member>.+)\)",
            "Leaving consumer group ",
        ),
        Pattern(SignName.LEAVES, r"Leaving consumer group", "Leaving consumer group"),
        Pattern(
            SignName.SESSION_LOST,
            r"Heartbeat session expired, marking coordinator dead",
            "Heartbeat session expired, ",
        ),
        Pattern(SignName.FOLLOWS, r"Group (?P<group>.+) is rebalancing; rejoining", " is rebalancing; rejoining"),
        Pattern(
            SignName.THROWN_OUT,
            r"Heartbeat: (?P<error>local member_id was not recognized)",
            "Heartbeat: local member_id was not recognized",
        ),
        Pattern(
            SignName.PARTITIONS_LOST,
            r"Group (?P<group>.+) lost membership; forcibly revoking (?P<partitions>.*)",
            " lost membership; forcibly revoking ",
        ),
        Pattern(
            SignName.REVOKED_AND_JOINS,
            r"Triggering follow-up rebalance",
            "Triggering follow-up rebalance",
        ),
        Pattern(
            SignName.COMMIT_FAILED,
            r"Auto offset commit failed for group (?P<group>.+?): (?P<error>.*)",
            "Auto offset commit failed for group ",
        ),
        Pattern(
            SignName.COMMIT_FAILED,
            r"OffsetCommit for group (?P<group>.+?) failed: (?P<error>.*)",
            "OffsetCommit for group ",
        ),
        Pattern(
            SignName.COMMIT_FAILED,
            r"Offset commit failed: (?P<error>group membership out of date)",
            "Offset commit failed: ",
        ),
        Pattern(
            SignName.REPLACED,
            r"Heartbeat thread caught fenced group_instance_id (?P<fenced>.+) error",
            "Heartbeat thread caught fenced group_instance_id ",
        ),
        Pattern(
            SignName.REPLACED,
            r"\w+ for group (?P<group>.+?) failed due to fenced id error: (?P<fenced>.*)",
            " failed due to fenced id error: ",
        ),
        Pattern(
            SignName.NOTHING,
            r"Updating subscribed topics to: (?P<topics>.*)",
            "Updating subscribed topics to: ",
        ),
        *SHARED,
    ),
    loggers=r"kafka\.",
    library=Library.KAFKA_PYTHON,
)

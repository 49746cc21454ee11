"""Lines of aiokafka 0.8 to 0.14, logger `aiokafka.consumer.group_coordinator`.

It does not name a missed poll interval: only its LeaveGroup shows, and the lines after it. Source:
`aiokafka/consumer/group_coordinator.py` of aiokafka 0.14.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.sources.client_program import ClientProgram
from kafka_shim.sources.patterns import Pattern
from kafka_shim.sources.python_clients import SHARED
from kafka_shim.sources.signs import SignName
from kafka_shim.trace.clients import Library

AIOKAFKA: Final = ClientProgram(
    "aiokafka",
    "",
    (
        Pattern(
            SignName.IN_GENERATION,
            r"Joined group '(?P<group>.+)' \(generation (?P<generation>\d+)\) with member_id (?P<member>.+)",
            "Joined group '",
        ),
        Pattern(
            SignName.SYNCED,
            r"Successfully synced group (?P<group>.+) with generation (?P<generation>-?\d+)",
            "Successfully synced group ",
        ),
        Pattern(SignName.LEAVES, r"LeaveGroup request succeeded", "LeaveGroup request succeeded"),
        Pattern(
            SignName.SESSION_LOST,
            r"Heartbeat session expired - marking coordinator dead",
            "Heartbeat session expired - ",
        ),
        Pattern(
            SignName.THROWN_OUT,
            r"Heartbeat failed: (?P<error>local member_id was not recognized)",
            "Heartbeat failed: local member_id was not recognized",
        ),
        Pattern(
            SignName.COMMIT_FAILED,
            r"OffsetCommit failed for group (?P<group>.+) due to group error \((?:\[Error \d+\] )?(?P<error>\w+)",
            " due to group error ",
        ),
        Pattern(
            SignName.COMMIT_FAILED,
            r"OffsetCommit failed before join, ignoring: (?P<error>.*)",
            "OffsetCommit failed before join, ",
        ),
        Pattern(
            SignName.METADATA_CHANGED,
            r"Metadata for topic has changed from (?P<before>.*?) to (?P<after>.*?)\. ?",
            "Metadata for topic has changed from ",
        ),
        *SHARED,
    ),
    loggers=r"aiokafka",
    library=Library.AIOKAFKA,
)

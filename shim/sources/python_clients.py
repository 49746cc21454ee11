"""Lines that kafka-python and aiokafka share: aiokafka was once made of kafka-python's coordinator."""

from __future__ import annotations

from typing import Final

from kafka_shim.sources.patterns import Pattern
from kafka_shim.sources.signs import SignName

SHARED: Final = (
    Pattern(SignName.ASKS_TO_JOIN, r"\(Re-\)joining group (?P<group>.+)", "(Re-)joining group "),
    Pattern(
        SignName.NOTHING,
        r"Elected group leader -- performing partition assignments using (?P<protocol>\S+)",
        "Elected group leader -- performing ",
    ),
    Pattern(
        SignName.PARTITIONS_TAKEN,
        r"Setting newly assigned partitions (?P<partitions>.*) for group (?P<group>.+)",
        "Setting newly assigned partitions ",
    ),
    Pattern(
        SignName.PARTITIONS_REVOKED,
        r"Revoking previously assigned partitions (?P<partitions>.*) for group (?P<group>.+)",
        "Revoking previously assigned partitions ",
    ),
    Pattern(
        SignName.FOLLOWS,
        r"Heartbeat failed for group (?P<group>.+) because it is rebalancing",
        " because it is rebalancing",
    ),
    Pattern(
        SignName.THROWN_OUT,
        r"Heartbeat failed for group (?P<group>.+): (?P<error>generation id is not\s+current)",
        "Heartbeat failed for group ",
    ),
    Pattern(
        SignName.COORDINATOR_FOUND,
        r"Discovered coordinator (?P<coordinator>.+?) for group (?P<group>.+)",
        "Discovered coordinator ",
    ),
    Pattern(
        SignName.COORDINATOR_LOST,
        r"Marking the coordinator dead \(node (?P<coordinator>.+?)\) ?for group (?P<group>.+?)"
        r"(?:: (?P<error>.*?))?\.?$",
        "Marking the coordinator dead ",
    ),
    Pattern(
        SignName.REFUSED,
        r"Attempt to join group (?:.+ )?failed due to fatal error: (?P<error>.*)",
        "failed due to fatal error: ",
    ),
)

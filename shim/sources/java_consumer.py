"""Lines of Java's consumer with `group.protocol=consumer` (KIP-848), 4.0 to 4.4.

Loggers are `ConsumerMembershipManager`, `ConsumerHeartbeatRequestManager`, `CommitRequestManager` and
`CoordinatorRequestManager` in `org.apache.kafka.clients.consumer.internals`. Source: those classes of Kafka 4.4.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.sources.client_program import ClientProgram
from kafka_shim.sources.java import PREFIX, SHARED
from kafka_shim.sources.patterns import Pattern
from kafka_shim.sources.signs import SignName
from kafka_shim.trace.clients import Library

_HEARTBEAT: Final = r"\w+GroupHeartbeatRequest failed "

JAVA_CONSUMER: Final = ClientProgram(
    "Java with group.protocol=consumer",
    PREFIX,
    (
        Pattern(
            SignName.TRANSITION,
            r"Member (?P<member>\S+) with epoch (?P<epoch>-?\d+) transitioned from (?P<before>\w+) to (?P<after>\w+)",
            " transitioned from ",
        ),
        Pattern(
            SignName.POLL_EXPIRED,
            r"Consumer poll timeout has expired\. This means",
            "Consumer poll timeout has expired. This means",
        ),
        Pattern(
            SignName.POLLS_AGAIN,
            r"Time between subsequent calls to poll\(\) was longer than the configured max\.poll\.interval\.ms,"
            r" exceeded approximately by (?P<excess_ms>\d+) ms\. Member (?P<member>\S+) will rejoin",
            "exceeded approximately by ",
        ),
        Pattern(
            SignName.THROWN_OUT,
            _HEARTBEAT + r"for member (?P<member>\S+) because epoch (?P<epoch>-?\d+) is (?P<error>fenced)",
            "GroupHeartbeatRequest failed ",
        ),
        Pattern(
            SignName.THROWN_OUT,
            _HEARTBEAT + r"for member (?P<member>\S+) because member \S+ is (?P<error>unknown)",
            "GroupHeartbeatRequest failed ",
        ),
        Pattern(
            SignName.REPLACED,
            _HEARTBEAT + r"due to fenced instance id (?P<fenced>.*?): ",
            "GroupHeartbeatRequest failed ",
        ),
        Pattern(
            SignName.REPLACED,
            _HEARTBEAT + r"due to unreleased instance id (?P<unreleased>.*?): (?P<error>.*)",
            "GroupHeartbeatRequest failed ",
        ),
        Pattern(
            SignName.REFUSED,
            _HEARTBEAT + r"due to (?P<error>(?:unexpected error|\w+ error|unsupported|unauthorized|invalid).*)",
            "GroupHeartbeatRequest failed ",
        ),
        Pattern(
            SignName.COMMIT_FAILED,
            r"OffsetCommit failed for member (?P<member>\S+) with (?P<error>stale member epoch) error",
            "OffsetCommit failed ",
        ),
        Pattern(SignName.COMMIT_FAILED, r"OffsetCommit failed with (?P<error>.*)", "OffsetCommit failed "),
        Pattern(
            SignName.NOTHING,
            r"Reconciling assignment with local epoch (?P<epoch>\d+)",
            "Reconciling assignment with local epoch ",
        ),
        *SHARED,
    ),
    library=Library.JAVA,
)

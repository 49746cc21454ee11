"""Lines of Java's consumer with the classic protocol, 2.0 to 4.4, of Kafka Streams and of Kafka Connect.

Loggers are `org.apache.kafka.clients.consumer.internals.AbstractCoordinator`, `ConsumerCoordinator` (since 3.0 for
both), `WorkerCoordinator` of Connect, and `StreamThread`. Sources: `AbstractCoordinator` and `ConsumerCoordinator` of
Kafka's releases, KIP-800 for reasons.
"""

from __future__ import annotations

import re
from typing import Final

from kafka_shim.sources.client_program import ClientProgram
from kafka_shim.sources.patterns import Pattern
from kafka_shim.sources.signs import SignName
from kafka_shim.trace.clients import Library

PREFIX: Final = (
    r"\[(?:Consumer|Worker) (?:instanceId=(?P<instance>.*?), )?clientId=(?P<client_id>.*?), groupId=(?P<group>.*?)\] "
)
SETTINGS: Final = ("client.id", "session.timeout.ms", "max.poll.interval.ms", "heartbeat.interval.ms")
"""Settings of a consumer that it prints when it starts, each on a line with a tab in front."""
_GENERATION: Final = r"Generation\{generationId=(?P<generation>-?\d+), memberId='(?P<member>.*?)'"

SHARED: Final = (
    *(
        Pattern(SignName.SETTING, rf"\s+(?P<name>{re.escape(name)}) = (?P<value>.+)", f"\t{name} = ")
        for name in SETTINGS
    ),
    Pattern(SignName.VERSION, r"Kafka version: (?P<version>\S+)", "Kafka version: "),
    Pattern(
        SignName.COORDINATOR_FOUND,
        r"Discovered group coordinator (?:(?P<host>\S+) \(id: (?P<coordinator>[+-]?\d+)"
        r"|Coordinator\(key='.*', nodeId=(?P<node>\d+))",
        "Discovered group coordinator ",
    ),
    Pattern(
        SignName.SESSION_LOST,
        r"Group coordinator (?P<host>\S+) \(id: .*? due to cause: ?session timed out without receiving a heartbeat",
        "session timed out without receiving a heartbeat",
    ),
    Pattern(
        SignName.COORDINATOR_LOST,
        r"Group coordinator (?P<host>\S+) \(id: .*? is unavailable or invalid"
        r"(?: due to cause: ?(?P<error>.*?)\. ?isDisconnected)?",
        " is unavailable or invalid",
    ),
    Pattern(
        SignName.PARTITIONS_TAKEN,
        r"(?:Adding|Setting) newly assigned partitions:? (?P<partitions>.*)",
        " newly assigned partitions",
    ),
    Pattern(
        SignName.PARTITIONS_REVOKED,
        r"(?:Revoke|Revoking) previously assigned partitions (?P<partitions>.*)",
        " previously assigned partitions ",
    ),
    Pattern(
        SignName.PARTITIONS_LOST,
        r"Lost previously assigned partitions (?P<partitions>.*)",
        "Lost previously assigned partitions ",
    ),
    Pattern(
        SignName.COMMIT_FAILED,
        r"(?:Synchronous auto-commit|Asynchronous auto-commit|Auto-commit) of offsets .*? failed(?:: (?P<error>.*))?",
        "uto-commit of offsets ",
    ),
)
"""Lines of both protocols."""

_CLASSIC: Final = (
    Pattern(SignName.ASKS_TO_JOIN, r"\(Re-\)joining group(?:$|\n)", "(Re-)joining group"),
    Pattern(
        SignName.ID_RECEIVED,
        r"Request joining group due to: need to re-join with the given member-id: (?P<member>.*)",
        "need to re-join with the given member-id: ",
    ),
    Pattern(
        SignName.ID_RECEIVED,
        r"Request joining group due to: rebalance failed due to .*MemberIdRequiredException",
        "MemberIdRequiredException",
    ),
    Pattern(
        SignName.FOLLOWS,
        r"Request joining group due to: group is already rebalancing",
        "Request joining group due to: group is already",
    ),
    Pattern(
        SignName.FOLLOWS,
        r"Attempt to heartbeat failed since group is rebalancing",
        "Attempt to heartbeat failed since group",
    ),
    Pattern(
        SignName.METADATA_CHANGED,
        r"Request joining group due to: cached metadata has changed from (?P<before>.*?)"
        r" at the beginning of the rebalance to (?P<after>.*)",
        "cached metadata has changed from ",
    ),
    Pattern(
        SignName.METADATA_CHANGED,
        r"Requesting to re-join the group and trigger rebalance since the assignment metadata has changed"
        r" from (?P<before>.*?) to (?P<after>.*)",
        "since the assignment metadata has changed",
    ),
    Pattern(
        SignName.SUBSCRIPTION_CHANGED,
        r"(?:Request joining group due to: subscription has changed"
        r"|Requesting to re-join the group and trigger rebalance since the subscription has changed)"
        r" from (?P<before>.*?)(?: at the beginning of the rebalance)? to (?P<after>.*)",
        "subscription has changed",
    ),
    Pattern(
        SignName.REVOKED_AND_JOINS,
        r"Request joining group due to: need to revoke partitions (?P<partitions>.*?) as indicated",
        "Request joining group due to: need to revoke partitions ",
    ),
    Pattern(
        SignName.ASKS_AGAIN,
        r"Request joining group due to: (?P<reason>.*)",
        "Request joining group due to: ",
    ),
    Pattern(
        SignName.IN_GENERATION,
        rf"Successfully joined group with generation {_GENERATION}, protocol='(?P<protocol>.*?)'",
        "Successfully joined group with generation ",
    ),
    Pattern(
        SignName.IN_GENERATION,
        r"Successfully joined group with generation (?P<generation>\d+)",
        "Successfully joined group with generation ",
    ),
    Pattern(
        SignName.SYNCED,
        rf"Successfully synced group in generation {_GENERATION}",
        "Successfully synced group in generation ",
    ),
    Pattern(
        SignName.LEADS,
        r"Finished assignment for group at generation (?P<generation>\d+): (?P<assignments>.*)",
        "Finished assignment for group at generation ",
    ),
    Pattern(
        SignName.POLL_EXPIRED,
        r"(?:This member will leave the group because )?consumer poll timeout has expired\. This means",
        "onsumer poll timeout has expired. This means",
    ),
    Pattern(
        SignName.LEAVES,
        r"Member (?P<member>.*?) sending LeaveGroup request to coordinator .*? \(id: .*?\)(?: due to (?P<reason>.*))?$",
        " sending LeaveGroup request to coordinator ",
    ),
    Pattern(
        SignName.THROWN_OUT,
        rf"Attempt to heartbeat with {_GENERATION}.*? failed due to (?P<error>\w+), resetting generation",
        "Attempt to heartbeat with ",
    ),
    Pattern(
        SignName.THROWN_OUT,
        r"Attempt to heartbeat failed(?: for)? since (?:generation (?P<generation>\d+) is not current"
        r"|member id (?P<member>.*?) is not valid)",
        "Attempt to heartbeat failed",
    ),
    Pattern(
        SignName.THROWN_OUT,
        r"Resetting generation(?: and member id)? due to: encountered (?P<error>\w+) from (?P<request>\w+) response",
        " due to: encountered ",
    ),
    Pattern(
        SignName.REPLACED,
        r"\w+ failed: The group instance id (?P<fenced>.*?) has been fenced by another instance",
        " has been fenced by another instance",
    ),
    Pattern(
        SignName.REPLACED,
        r"Caught fenced group\.instance\.id (?P<fenced>.*?) error in heartbeat thread",
        "Caught fenced group.instance.id ",
    ),
    Pattern(
        SignName.REFUSED,
        r"(?:JoinGroup failed|Attempt to join group failed) due to fatal error: (?P<error>.*)",
        " due to fatal error: ",
    ),
    Pattern(
        SignName.COMMIT_FAILED,
        r"Offset commit failed on partition (?P<partition>\S+) at offset (?P<offset>\d+): (?P<error>.*)",
        "Offset commit failed on partition ",
    ),
    Pattern(
        SignName.COMMIT_FAILED,
        r"Failing OffsetCommit request since the consumer is not part of an active group",
        "Failing OffsetCommit request since ",
    ),
    Pattern(
        SignName.COMMIT_FAILED,
        r".*CommitFailedException: (?P<error>Offset commit cannot be completed .*)",
        "Offset commit cannot be completed ",
    ),
    Pattern(
        SignName.IN_GENERATION,
        r"Joined group at generation (?P<generation>\d+) with protocol version",
        "Joined group at generation ",
    ),
    Pattern(SignName.ASKS_TO_JOIN, r"Rebalance started", "Rebalance started"),
)

JAVA: Final = ClientProgram("Java", PREFIX, (*SHARED, *_CLASSIC), library=Library.JAVA)

STREAMS: Final = ClientProgram(
    "Kafka Streams",
    r"stream-thread \[(?P<client_id>.*?)\] ",
    (
        Pattern(
            SignName.ASKS_AGAIN,
            r"(?P<reason>Triggering the followup rebalance scheduled for .*)",
            "Triggering the followup rebalance scheduled for ",
        ),
        Pattern(
            SignName.NOTHING,
            r"State transition from (?P<before>\w+) to (?P<after>PARTITIONS_\w+)",
            "State transition from ",
        ),
    ),
    library=Library.JAVA,
)

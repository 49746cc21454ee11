"""Lines of the old group coordinator of Kafka: all releases to 3.9. Levels are INFO unless a comment says otherwise.

Source: core/src/main/scala/kafka/coordinator/group/GroupCoordinator.scala, GroupMetadataManager.scala and
GroupMetadata.scala at the tags of the releases. Words that differ by release are alternatives of one pattern.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.sources.both_brokers import BOTH_BROKERS
from kafka_shim.sources.patterns import Pattern, Program
from kafka_shim.sources.signs import SignName

_OFFSETS: Final = r"(?: \(__consumer_offsets-(?P<partition>\d+)\))?"
_METADATA: Final = (
    r"MemberMetadata\(memberId=(?P<member>.+?), groupInstanceId=(?P<instance>.+?), clientId=(?P<client_id>.*?), "
    r"clientHost=(?P<client_host>.*?), sessionTimeoutMs=(?P<session_ms>\d+), rebalanceTimeoutMs=(?P<rebalance_ms>\d+)"
)

OLD_BROKER: Final = Program(
    "broker",
    r"\[Group(?:Coordinator|MetadataManager) (?:brokerId=|id=)?(?P<broker>\d+)\]:? ",
    (
        # 2.0 has neither state nor reason; of 2.1 to 3.9 the reason is cut by its closing bracket.
        Pattern(
            SignName.PREPARING,
            r"Preparing to rebalance group (?P<group>.+?) (?:in state \w+ )?with old generation (?P<old>\d+)"
            rf"{_OFFSETS}(?: \(reason: (?P<cause>.*))?",
            "Preparing to rebalance group ",
        ),
        Pattern(
            SignName.STABILIZED,
            rf"Stabilized group (?P<group>.+?) generation (?P<generation>\d+){_OFFSETS}"
            r"(?: with (?P<members>\d+) members)?",
            "Stabilized group ",
        ),
        Pattern(
            SignName.ASSIGNED,
            r"Assignment received from leader (?:(?P<member>.+) )?for group (?P<group>.+?) for generation "
            r"(?P<generation>\d+)(?:\. The group has (?P<members>\d+) members)?",
            "Assignment received from leader ",
        ),
        # DEBUG to 2.8
        Pattern(
            SignName.ID_GIVEN,
            r"Dynamic [Mm]ember with unknown member id (?:re)?joins group (?P<group>.+?) in (?P<state>\w+) state\. "
            r"Created a new member id (?P<member>.+?) and request(?:ing)? the member to rejoin",
            "ynamic ",
        ),
        # DEBUG
        Pattern(
            SignName.JOINED,
            r"(?:Pending dynamic|Dynamic) [Mm]ember with (?:specific member )?id (?P<member>.+?) joins group "
            r"(?P<group>.+?) in (?P<state>\w+) state\. Adding to the group now",
            " state. Adding to the group now",
        ),
        Pattern(
            SignName.JOINED,
            r"(?:Dynamic|Static) [Mm]ember with unknown member id joins group (?P<group>.+?) in (?P<state>\w+) state\. "
            r"Created a new member id (?P<member>.+?) for this member and add to the group",
            " with unknown member id joins group ",
        ),
        Pattern(
            SignName.STATIC_JOINED,
            r"Static member with groupInstanceId=(?P<instance>.+?) and unknown member id joins group (?P<group>.+?) in "
            r"(?P<state>\w+) state\. Created a new member id (?P<member>.+?) for this member",
            " and unknown member id joins group ",
        ),
        Pattern(
            SignName.STATIC_REPLACED,
            r"Static member (?P<instance>.+?)(?: of group (?P<group>.+?))? with unknown member id rejoins, assigning "
            r"new member id (?P<new>.+?), while old member (?:id )?(?P<member>.+?) will be removed",
            " with unknown member id rejoins, assigning new member id ",
        ),
        Pattern(
            SignName.STATIC_JOINED,
            r"Adding new static member (?P<instance>.+?) to group (?P<group>.+) with member id (?P<member>.+?)\.?$",
            "Adding new static member ",
        ),
        Pattern(
            SignName.STATIC_UNCHANGED,
            r"Static member (?:which )?joins during \w+ (?:stage|state) .*will not trigger rebalance",
            "will not trigger rebalance",
        ),
        Pattern(
            SignName.FENCED,
            r"Request memberId=(?P<member>.+?) for static member with groupInstanceId=(?P<instance>.+?) is fenced by "
            r"current memberId=(?P<new>.+?) during operation (?P<operation>[\w-]+)",
            " is fenced by current memberId=",
        ),
        Pattern(
            SignName.FENCED,
            r"given member\.id (?P<member>.+?) is identified as a known static member (?P<instance>.+?), ?but not "
            r"matching the expected member\.id (?P<new>.+?)(?: during (?P<operation>[\w-]+), will respond.*)?$",
            " is identified as a known static member ",
        ),
        Pattern(
            SignName.LEFT,
            rf"Member {_METADATA}.*\) has left group (?P<group>.+?) through explicit `LeaveGroup`(?: request)?"
            r"(?:; client reason: (?P<reason>.*))?",
            "Member MemberMetadata(",
        ),
        Pattern(
            SignName.LEFT,
            r"Member\[group\.instance\.id (?P<instance>.+?), member\.id (?P<member>.+?)\] in group (?P<group>.+?) has "
            r"left, removing it from the group",
            " has left, removing it from the group",
        ),
        # DEBUG to 2.1
        Pattern(
            SignName.LEFT,
            r"Member (?P<member>.+) in group (?P<group>.+?) has left, removing it from the group",
            " has left, removing it from the group",
        ),
        Pattern(
            SignName.PENDING_LEFT,
            r"Pending member (?P<member>.+?) is leaving group (?P<group>.+?)\.?$",
            " is leaving group ",
        ),
        Pattern(
            SignName.PENDING_LEFT,
            r"Pending member with memberId=(?P<member>.+?) has left group (?P<group>.+?) through explicit `LeaveGroup`",
            " through explicit `LeaveGroup`",
        ),
        # To 2.6 no line names them.
        Pattern(
            SignName.NOT_REJOINED,
            r"Group (?P<group>.+) removed? dynamic members who haven't joined: (?P<members>.*)",
            " members who haven't joined: ",
        ),
        Pattern(
            SignName.LEADER_ELECTED,
            r"Group leader \[member\.id: (?P<member>.+?), group\.instance\.id: (?P<instance>.+?)\] failed to join "
            r"before rebalance timeout, while new leader (?P<leader>.+?) was elected",
            " failed to join before rebalance timeout",
        ),
        Pattern(
            SignName.DEAD, r"Group (?P<group>.+) is dead, skipping rebalance stage", " is dead, skipping rebalance"
        ),
        Pattern(
            SignName.DEAD,
            r"Group (?P<group>.+) transitioned to Dead in generation (?P<generation>\d+)",
            " transitioned to Dead in generation ",
        ),
        Pattern(
            SignName.UNEXPECTED_REJOIN,
            r"Attempt to add rejoining member (?P<member>.+) of group (?P<group>.+) in unexpected group state "
            r"(?P<state>\w+)",
            "Attempt to add rejoining member ",
        ),
        Pattern(
            SignName.UNLOADED,
            r"Unloading group metadata for (?P<group>.+) with generation (?P<generation>\d+)",
            "Unloading group metadata for ",
        ),
        Pattern(
            SignName.LOADED,
            r"Loading group metadata for (?P<group>.+) with generation (?P<generation>\d+)",
            "Loading group metadata for ",
        ),
        Pattern(
            SignName.MEMBER_LOADED,
            rf"Loaded member {_METADATA}.* in group (?P<group>.+) with generation (?P<generation>\d+)",
            "Loaded member MemberMetadata(",
        ),
        Pattern(
            SignName.ELECTED,
            r"Elected as the group coordinator for partition (?P<partition>\d+)",
            "Elected as the group coordinator for partition ",
        ),
        Pattern(
            SignName.RESIGNED,
            r"Resigned as the group coordinator for partition (?P<partition>\d+)",
            "Resigned as the group coordinator for partition ",
        ),
        Pattern(
            SignName.WRITE_FAILED,
            r"Failed to (?:persist|write empty) metadata for group (?P<group>.+): (?P<error>[\w.$]+)",
            " metadata for group ",
        ),
        Pattern(
            SignName.WRITE_FAILED,
            r"Appending metadata message for group (?P<group>.+) generation (?P<generation>\d+) failed due to "
            r"(?P<error>[\w.$]+)",
            "Appending metadata message for group ",
        ),
        Pattern(
            SignName.NOTHING,
            r"(?:Scheduling|Finished) (?:loading|unloading) (?:of )?offsets and group metadata",
            " offsets and group metadata",
        ),
        Pattern(SignName.NOTHING, r"Removed \d+ (?:expired )?offsets ", " offsets "),
        *BOTH_BROKERS,
    ),
    ("[GroupCoordinator ", "[GroupMetadataManager ", "kafka.coordinator.group."),
)
"""A broker of Kafka 2.0 to 3.9."""

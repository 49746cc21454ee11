"""Lines of the new group coordinator of Kafka, the default since 4.0: classic groups and consumer groups (KIP-848).

Levels are INFO unless a comment says otherwise. Source: GroupMetadataManager.java, ClassicGroup.java,
GroupCoordinatorShard.java and CoordinatorRuntime.java at the tags of the releases.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.sources.both_brokers import BOTH_BROKERS
from kafka_shim.sources.patterns import Pattern, Program
from kafka_shim.sources.signs import SignName

_GROUP: Final = r"\[GroupId (?P<group>.+?)\] "
_STREAMS: Final = r"\[GroupId (?P<group>.+?)\]\[MemberId (?P<member>.+?)\] "
"""Before lines about streams groups (KIP-1071)."""

_CLASSIC: Final = (
    Pattern(
        SignName.PREPARING,
        r"Preparing to rebalance group (?P<group>.+?) in state \w+ with old generation (?P<old>\d+)"
        r"(?: \(reason: (?P<cause>.*))?",
        "Preparing to rebalance group ",
    ),
    Pattern(
        SignName.STABILIZED,
        r"Stabilized group (?P<group>.+?) generation (?P<generation>\d+)(?: with (?P<members>\d+) members)?",
        "Stabilized group ",
    ),
    Pattern(
        SignName.ASSIGNED,
        r"Assignment received from leader (?P<member>.+) for group (?P<group>.+?) for generation (?P<generation>\d+)"
        r"(?:\. The group has (?P<members>\d+) members)?",
        "Assignment received from leader ",
    ),
    Pattern(
        SignName.ID_GIVEN,
        r"Dynamic member with unknown member id joins group (?P<group>.+?) in (?P<state>\w+) state\. "
        r"Created a new member id (?P<member>.+?) and requesting the member to rejoin",
        "Dynamic member with unknown member id joins group ",
    ),
    Pattern(
        SignName.JOINED,
        r"Pending dynamic member with id (?P<member>.+?) joins group (?P<group>.+?) in (?P<state>\w+) state\. "
        "Adding to the group now",
        "Pending dynamic member with id ",
    ),
    Pattern(
        SignName.JOINED,
        r"Dynamic member with unknown member id joins group (?P<group>.+?) in state (?P<state>\w+)\. "
        r"Created a new member id (?P<member>.+?) and added the member to the group",
        "Dynamic member with unknown member id joins group ",
    ),
    Pattern(
        SignName.STATIC_JOINED,
        r"Static member with groupInstanceId=(?P<instance>.+?) and unknown member id joins group (?P<group>.+?) in "
        r"(?P<state>\w+) state\. Created a new member id (?P<member>.+?) (?:for this member|and add)",
        " and unknown member id joins group ",
    ),
    Pattern(
        SignName.STATIC_UNCHANGED,
        r"Static member which joins during \w+ stage .*will not trigger (?:a )?rebalance",
        "will not trigger ",
    ),
    Pattern(
        SignName.FENCED,
        r"Request memberId=(?P<member>.+?) for static member with groupInstanceId=(?P<instance>.+?) is fenced by "
        r"existing memberId=(?P<new>.+?) during operation (?P<operation>[\w-]+)",
        " is fenced by existing memberId=",
    ),
    Pattern(
        SignName.LEFT,
        r"\[Group (?P<group>.+?)\] Member (?P<member>.+?) has left group through explicit `LeaveGroup` request"
        r"(?:; client reason: (?P<reason>.*))?",
        " has left group through explicit `LeaveGroup` request",
    ),
    Pattern(
        SignName.PENDING_LEFT,
        r"\[Group (?P<group>.+?)\] Pending member (?P<member>.+?) has left group through explicit `LeaveGroup` request",
        " has left group through explicit `LeaveGroup` request",
    ),
    Pattern(
        SignName.NOT_REJOINED,
        r"Group (?P<group>.+) removed dynamic members who haven't joined: (?P<members>.*)",
        " members who haven't joined: ",
    ),
    Pattern(
        SignName.LEADER_ELECTED,
        r"Group leader \[memberId: (?P<member>.+?), groupInstanceId: (?P<instance>.+?)\] failed to join before the "
        r"rebalance timeout\. Member (?P<leader>.+?) was elected",
        " failed to join before the rebalance timeout",
    ),
    # DEBUG
    Pattern(SignName.NOTHING, r"Cannot complete join phase of group .* because not all", "Cannot complete join phase"),
)

_OF_STREAMS: Final = (
    Pattern(
        SignName.STATIC_REPLACED,
        r"\[GroupId (?P<group>.+?)\]\[MemberId (?P<new>.+?)\] Static member with instance id (?P<instance>.+?) "
        r"re-joins the (?P<kind>streams) group.* to replace the existing member (?P<member>\S+?)\.?$",
        " to replace the existing member ",
    ),
    Pattern(
        SignName.STATIC_JOINED,
        rf"{_STREAMS}Static member .+? with instance id (?P<instance>.+?) joins the (?P<kind>streams) group",
        " joins the streams group",
    ),
    Pattern(SignName.JOINED, rf"{_STREAMS}Member joins the (?P<kind>streams) group", "Member joins the streams group"),
    Pattern(
        SignName.LEFT,
        rf"{_STREAMS}Static member .+? with instance id (?P<instance>.+?) (?P<away>temporarily )?left the "
        r"(?P<kind>streams) group",
        "left the streams group",
    ),
    Pattern(SignName.LEFT, rf"{_STREAMS}Member .+? left the (?P<kind>streams) group", "left the streams group"),
    Pattern(
        SignName.EPOCH,
        rf"{_STREAMS}Bumped (?P<kind>streams) group epoch to (?P<generation>\d+)"
        r"(?: with metadata hash (?P<hash>-?\d+))?",
        "Bumped streams group epoch to ",
    ),
    Pattern(
        SignName.TARGET,
        r"\[GroupId (?P<group>.+?)\]\[MemberId .+?\] Computed a new target assignment for epoch (?P<generation>\d+) "
        r"with '(?P<assignor>.*?)' assignor in (?P<took_ms>\d+)ms",
        "Computed a new target assignment for epoch ",
    ),
    Pattern(
        SignName.EXPIRED,
        rf"{_GROUP}Streams member (?P<member>.+?) fenced from the group because the member session expired",
        " because the member session expired",
    ),
    # "metdata" to 4.2
    Pattern(SignName.SUBSCRIBED, rf"{_STREAMS}Member updated its member met\w+ to ", "Member updated its member met"),
    Pattern(SignName.TOPICS_CHANGED, rf"{_STREAMS}Computed new metadata hash", "Computed new "),
    # Topologies, configurations and assignments
    Pattern(SignName.NOTHING, _STREAMS, "[MemberId "),
)

_CONSUMER: Final = (
    Pattern(
        SignName.EPOCH,
        rf"{_GROUP}Bumped group epoch to (?P<generation>\d+)(?: with metadata hash (?P<hash>-?\d+))?",
        "Bumped group epoch to ",
    ),
    Pattern(
        SignName.TARGET,
        rf"{_GROUP}Computed a new target assignment for epoch (?P<generation>\d+) with '(?P<assignor>.*?)' assignor in "
        r"(?P<took_ms>\d+)ms",
        "Computed a new target assignment for epoch ",
    ),
    Pattern(
        SignName.TARGET_FAILED,
        rf"{_GROUP}Failed to compute a new target assignment for epoch (?P<generation>\d+): (?P<error>.*)",
        "Failed to compute a new target assignment for epoch ",
    ),
    Pattern(
        SignName.STATIC_REPLACED,
        rf"{_GROUP}Static member with instance id (?P<instance>.+?) re-joins the (?P<kind>\w+) group using the "
        r"(?P<protocol>\w+) protocol\. Created a new member (?P<new>.+?) to replace the existing member "
        r"(?P<member>\S+?)\.?$",
        " to replace the existing member ",
    ),
    Pattern(
        SignName.STATIC_JOINED,
        rf"{_GROUP}Static member (?P<member>.+?) with instance id (?P<instance>.+?) joins the (?P<kind>\w+) group "
        r"using the (?P<protocol>\w+) protocol",
        " group using the ",
    ),
    Pattern(
        SignName.JOINED,
        rf"{_GROUP}Member (?P<member>.+?) joins the (?P<kind>\w+) group using the (?P<protocol>\w+) protocol",
        " group using the ",
    ),
    Pattern(
        SignName.INSTANCE_OWNED,
        rf"{_GROUP}Static member (?P<member>.+?) with instance id (?P<instance>.+?) cannot join the group because the "
        r"instance id is (?:is )?owned by member (?P<owner>\S+?)\.?$",
        " cannot join the group because the instance id is ",
    ),
    Pattern(
        SignName.FENCED,
        rf"{_GROUP}Static member (?P<member>.+?) with instance id (?P<instance>.+?) is fenced by existing member "
        r"(?P<new>\S+?)\.?$",
        " is fenced by existing member ",
    ),
    Pattern(
        SignName.LEFT,
        rf"{_GROUP}Static member (?P<member>.+?) with instance id (?P<instance>.+?) (?P<away>temporarily )?left the "
        r"(?P<kind>\w+) group",
        "left the ",
    ),
    Pattern(SignName.LEFT, rf"{_GROUP}Member (?P<member>.+?) left the (?P<kind>\w+) group", "left the "),
    Pattern(
        SignName.LEFT,
        rf"{_GROUP}Dynamic member (?P<member>.+?) has left group through explicit `LeaveGroup` request"
        r"(?:; client reason: (?P<reason>.*))?",
        " has left group through explicit `LeaveGroup` request",
    ),
    Pattern(
        SignName.LEFT,
        rf"{_GROUP}Static member (?P<member>.+?) with instance id (?P<instance>.+?) has left group through explicit "
        r"`LeaveGroup` request(?:; client reason: (?P<reason>.*))?",
        " has left group through explicit `LeaveGroup` request",
    ),
    Pattern(
        SignName.EXPIRED,
        rf"{_GROUP}Member (?P<member>.+?) fenced from the group because the member session expired",
        " because the member session expired",
    ),
    Pattern(
        SignName.NOT_REVOKED,
        rf"{_GROUP}Member (?P<member>.+?) fenced from the group because it failed to transition from epoch "
        r"(?P<generation>-?\d+) within (?P<rebalance_ms>\d+)ms",
        " because it failed to transition from epoch ",
    ),
    Pattern(
        SignName.NOT_REJOINED,
        rf"{_GROUP}Member (?P<member>.+?) fenced from the group because the classic member failed to join within the "
        "rebalance timeout",
        " because the classic member failed to join ",
    ),
    Pattern(
        SignName.NOT_SYNCED,
        rf"{_GROUP}Member (?P<member>.+?) fenced from the group because the member failed to sync within timeout",
        " because the member failed to sync within timeout",
    ),
    # DEBUG, as all up to the regular expressions; 3.9 has them at INFO
    Pattern(
        SignName.SUBSCRIBED,
        rf"{_GROUP}Member (?P<member>.+?) updated its subscribed (?:topics|regex) to: ",
        " updated its subscribed ",
    ),
    Pattern(
        SignName.TOPICS_CHANGED,
        rf"{_GROUP}Computed new (?:metadata hash|subscription metadata): ",
        "Computed new ",
    ),
    Pattern(SignName.NOTHING, rf"{_GROUP}Member .+? new assignment state: ", " new assignment state: "),
    Pattern(
        SignName.NOTHING, rf"{_GROUP}Received updated regular expressions ", "Received updated regular expressions "
    ),
    Pattern(
        SignName.REGEX_SCANNED,
        rf"{_GROUP}Scanned (?P<topics>\d+) topics to refresh regular expressions",
        " topics to refresh regular expressions",
    ),
    Pattern(SignName.NOTHING, rf"{_GROUP}Couldn't (?:parse|update) regular expression", "Couldn't "),
    Pattern(
        SignName.CONVERTED,
        rf"{_GROUP}Converted the (?:empty )?(?P<old>\w+) group to a (?P<kind>\w+) group",
        "Converted the ",
    ),
    Pattern(SignName.NOTHING, r"Cannot (?:upgrade|downgrade|join) .*(?:classic|consumer)", "Cannot "),
)

_COORDINATOR: Final = (
    *(
        Pattern(
            SignName.LOADED,
            rf"Loaded (?P<kind>{kind}) group (?P<group>.+?) with (?P<members>\d+) members",
            f"Loaded {kind} group ",
        )
        for kind in ("classic", "consumer", "share", "streams")
    ),
    Pattern(
        SignName.UNLOADED,
        r"\[GroupId=(?P<group>.+?)\] Unload(?:ing|ed) group metadata for (?:generation|group epoch) "
        r"(?P<generation>\d+)",
        "[GroupId=",
    ),
    # To 4.2
    Pattern(
        SignName.WRITE_FAILED,
        r"Writing records to __consumer_offsets(?P<log>\S*) failed due to: (?P<error>.*)",
        "Writing records to __consumer_offsets",
    ),
    Pattern(
        SignName.WRITE_FAILED,
        r"Failed to write records to __consumer_offsets(?P<log>\S*) due to an unexpected error: (?P<error>.*)",
        "Failed to write records to __consumer_offsets",
    ),
    Pattern(
        SignName.TOPIC_CREATED,
        r"Created log for partition (?P<topic>.+)-(?P<number>\d+) in ",
        "Created log for partition ",
    ),
    Pattern(SignName.NOTHING, r"(?:Scheduling|Started|Finished) (?:loading|unloading) ", "loading "),
    Pattern(SignName.NOTHING, r"Generated \d+ tombstone records ", " tombstone records "),
    Pattern(SignName.NOTHING, r"The write event .* for the timer ", "The write event "),
)

NEW_BROKER: Final = Program(
    "broker",
    r"\[GroupCoordinator id=(?P<broker>\d+)(?: topic=\S+)?(?: partition=(?P<partition>\d+))?\]:? ",
    # Those of streams groups have two brackets, the second of which would be taken for a part of the group.
    (*_CLASSIC, *_OF_STREAMS, *_CONSUMER, *_COORDINATOR, *BOTH_BROKERS),
    ("[GroupCoordinator id=", "org.apache.kafka.coordinator.group."),
)
"""A broker of Kafka 4.0 to 4.4."""

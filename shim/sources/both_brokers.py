"""Lines that the old and the new group coordinator of Kafka have in common, all of classic groups.

Source: GroupCoordinator.scala and GroupMetadata.scala to 3.9; GroupMetadataManager.java and ClassicGroup.java later.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.sources.patterns import Pattern
from kafka_shim.sources.signs import SignName

BOTH_BROKERS: Final = (
    Pattern(
        SignName.NO_PARTITIONS,
        r"Setting empty assignments for members (?P<members>.*) of (?P<group>.+) for generation (?P<generation>\d+)",
        "Setting empty assignments for members ",
    ),
    Pattern(
        SignName.NO_PARTITIONS,
        r"Sending empty assignment to member (?P<member>.+) of (?P<group>.+) for generation (?P<generation>\d+)",
        "Sending empty assignment to member ",
    ),
    Pattern(
        SignName.STATIC_REPLACED,
        r"Static member with groupInstanceId=(?P<instance>.+?) and unknown member id joins group (?P<group>.+?) in "
        r"(?P<state>\w+) state\. Replacing previously mapped member (?P<member>.+?) with this groupInstanceId",
        " and unknown member id joins group ",
    ),
    Pattern(
        SignName.EXPIRED,
        r"Member (?P<member>.+) in group (?P<group>.+?) has failed, removing it from the group",
        " has failed, removing it from the group",
    ),
    Pattern(
        SignName.PENDING_EXPIRED,
        r"Pending member (?P<member>.+) in group (?P<group>.+?) has been removed after session timeout expiration",
        " has been removed after session timeout expiration",
    ),
    Pattern(
        SignName.NOBODY_REJOINED,
        r"Group (?P<group>.+) could not complete rebalance because no members rejoined",
        " could not complete rebalance because no members rejoined",
    ),
    # DEBUG to 3.9, since 2.8.1
    Pattern(
        SignName.NOT_SYNCED,
        r"Group (?P<group>.+) removed members who haven't sent their sync request: (?P<members>.*)",
        " members who haven't sent their sync request: ",
    ),
    Pattern(
        SignName.EMPTY,
        r"Group (?P<group>.+) with generation (?P<generation>\d+) is now empty",
        " is now empty",
    ),
    Pattern(
        SignName.GROUPS_DELETED,
        r"The following groups were deleted: (?P<groups>.*?)\. A total of ",
        "The following groups were deleted: ",
    ),
    Pattern(SignName.NOTHING, r"(?:Starting up|Startup complete|Shutting down|Shutdown complete)\.", "."),
)

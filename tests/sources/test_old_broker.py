"""Each line of the old coordinator gives its sign, in the words of every release."""

import re

import pytest

from kafka_shim.sources.layouts import Layouts
from kafka_shim.sources.new_broker import NEW_BROKER
from kafka_shim.sources.old_broker import OLD_BROKER
from kafka_shim.sources.patterns import Program
from kafka_shim.sources.signs import SignName

M, N, G = "app-1-00000001-0000-4000-8000-000000000000", "app-1-00000002-0000-4000-8000-000000000000", "my group: x"
METADATA = (
    f"MemberMetadata(memberId={M}, groupInstanceId=Some(i), clientId=app-1, clientHost=/10.0.0.7,"
    " sessionTimeoutMs=45000, rebalanceTimeoutMs=300000, supportedProtocols=List(range))"
)

LINES = [
    (f"Preparing to rebalance group {G} with old generation 3 (__consumer_offsets-7)", "PREPARING", {"old": "3"}),
    (
        f"Preparing to rebalance group {G} in state PreparingRebalance with old generation 3 (__consumer_offsets-7)"
        f" (reason: Adding new member {M})",
        "PREPARING",
        {"old": "3", "cause": f"Adding new member {M})"},
    ),
    (f"Stabilized group {G} generation 4 (__consumer_offsets-7)", "STABILIZED", {"generation": "4"}),
    (f"Stabilized group {G} generation 4 (__consumer_offsets-7) with 2 members", "STABILIZED", {"members": "2"}),
    (f"Assignment received from leader for group {G} for generation 4", "ASSIGNED", {"generation": "4"}),
    (
        f"Assignment received from leader for group {G} for generation 4. The group has 2 members, 0 of which"
        " are static.",
        "ASSIGNED",
        {"members": "2"},
    ),
    (
        f"Assignment received from leader {M} for group {G} for generation 4. The group has 2 members, 0 of which are"
        " static.",
        "ASSIGNED",
        {"member": M},
    ),
    (f"Setting empty assignments for members Set({M}) of {G} for generation 4", "NO_PARTITIONS", {"generation": "4"}),
    (f"Sending empty assignment to member {M} of {G} for generation 4 with no errors", "NO_PARTITIONS", {"member": M}),
    (
        f"Dynamic member with unknown member id rejoins group {G} in Empty state. Created a new member id {M}"
        " and request"
        " the member to rejoin with this id.",
        "ID_GIVEN",
        {"member": M, "state": "Empty"},
    ),
    (
        f"Dynamic Member with specific member id {M} joins group {G} in Stable state. Adding to the group now.",
        "JOINED",
        {"member": M},
    ),
    (
        f"Pending dynamic member with id {M} joins group {G} in Stable state. Adding to the group now.",
        "JOINED",
        {"member": M},
    ),
    (
        f"Dynamic Member with unknown member id joins group {G} in Stable state. Created a new member id {M} for this"
        " member and add to the group.",
        "JOINED",
        {"member": M},
    ),
    (
        f"Static member with groupInstanceId=i and unknown member id joins group {G} in Stable state. Created a"
        " new member"
        f" id {M} for this member and add to the group.",
        "STATIC_JOINED",
        {"member": M, "instance": "i"},
    ),
    (
        f"Static member with groupInstanceId=i and unknown member id joins group {G} in Stable state. Replacing"
        " previously"
        f" mapped member {M} with this groupInstanceId.",
        "STATIC_REPLACED",
        {"member": M, "instance": "i"},
    ),
    (
        f"Static member i of group {G} with unknown member id rejoins, assigning new member id {N}, while old member id"
        f" {M} will be removed.",
        "STATIC_REPLACED",
        {"member": M, "instance": "i", "new": N},
    ),
    (
        f"Static member i with unknown member id rejoins, assigning new member id {N}, while old member {M} will be"
        " removed.",
        "STATIC_REPLACED",
        {"member": M, "new": N, "group": ""},
    ),
    (f"Adding new static member i to group {G} with member id {M}.", "STATIC_JOINED", {"member": M, "instance": "i"}),
    (
        "Static member which joins during Stable stage and doesn't affect selectProtocol will not trigger rebalance.",
        "STATIC_UNCHANGED",
        {"group": ""},
    ),
    ("Static member joins during Stable state will not trigger rebalance.", "STATIC_UNCHANGED", {"group": ""}),
    (
        f"Request memberId={M} for static member with groupInstanceId=i is fenced by current memberId={N}"
        " during operation"
        " offset-commit",
        "FENCED",
        {"member": M, "new": N, "operation": "offset-commit", "group": ""},
    ),
    (
        f"given member.id {M} is identified as a known static member i, but not matching the expected member.id"
        f" Some({N}) during heartbeat, will respond with instance fenced error",
        "FENCED",
        {"member": M, "group": ""},
    ),
    (
        f"given member.id {M} is identified as a known static member i,but not matching the expected member.id {N}",
        "FENCED",
        {"member": M, "instance": "i", "new": N, "group": ""},
    ),
    (f"Member {M} in group {G} has failed, removing it from the group", "EXPIRED", {"member": M}),
    (
        f"Pending member {M} in group {G} has been removed after session timeout expiration.",
        "PENDING_EXPIRED",
        {"member": M},
    ),
    (f"Member {M} in group {G} has left, removing it from the group", "LEFT", {"member": M}),
    (
        f"Member[group.instance.id Some(i), member.id {M}] in group {G} has left, removing it from the group",
        "LEFT",
        {"member": M, "instance": "Some(i)"},
    ),
    (
        f"Member {METADATA} has left group {G} through explicit `LeaveGroup` request",
        "LEFT",
        {
            "member": M,
            "client_id": "app-1",
            "client_host": "/10.0.0.7",
            "session_ms": "45000",
            "rebalance_ms": "300000",
        },
    ),
    (
        f"Member {METADATA} has left group {G} through explicit `LeaveGroup`; client reason: not provided",
        "LEFT",
        {"member": M, "reason": "not provided"},
    ),
    (f"Pending member {M} is leaving group {G}.", "PENDING_LEFT", {"member": M}),
    (
        f"Pending member with memberId={M} has left group {G} through explicit `LeaveGroup` request",
        "PENDING_LEFT",
        {"member": M},
    ),
    (
        f"Group {G} remove dynamic members who haven't joined: Set({M}, {N})",
        "NOT_REJOINED",
        {"members": f"Set({M}, {N})"},
    ),
    (
        f"Group leader [member.id: {M}, group.instance.id: None] failed to join before rebalance timeout, while"
        " new leader"
        f" {N} was elected.",
        "LEADER_ELECTED",
        {"member": M, "leader": N, "group": ""},
    ),
    (f"Group {G} could not complete rebalance because no members rejoined", "NOBODY_REJOINED", {}),
    (
        f"Group {G} removed members who haven't sent their sync request: Set({M})",
        "NOT_SYNCED",
        {"members": f"Set({M})"},
    ),
    (f"Group {G} with generation 5 is now empty (__consumer_offsets-7)", "EMPTY", {"generation": "5"}),
    (f"Group {G} transitioned to Dead in generation 5", "DEAD", {"generation": "5"}),
    (f"Group {G} is dead, skipping rebalance stage", "DEAD", {}),
    (f"Attempt to add rejoining member {M} of group {G} in unexpected group state Empty", "UNEXPECTED_REJOIN", {}),
    (f"Unloading group metadata for {G} with generation 5", "UNLOADED", {"generation": "5"}),
    (f"Loading group metadata for {G} with generation 5", "LOADED", {"generation": "5"}),
    (f"Loaded member {METADATA} in group {G} with generation 5.", "MEMBER_LOADED", {"member": M, "client_id": "app-1"}),
    ("Elected as the group coordinator for partition 7 in epoch 3", "ELECTED", {"partition": "7", "group": ""}),
    ("Resigned as the group coordinator for partition 7 in epoch 3", "RESIGNED", {"partition": "7", "group": ""}),
    (
        f"Failed to write empty metadata for group {G}: The coordinator is not available.",
        "WRITE_FAILED",
        {"error": "The"},
    ),
    (
        f"Appending metadata message for group {G} generation 5 failed due to org.apache.kafka.X, returning"
        " UNKNOWN error",
        "WRITE_FAILED",
        {"error": "org.apache.kafka.X,"[:-1]},
    ),
    (
        "The following groups were deleted: a, b. A total of 3 offsets were removed.",
        "GROUPS_DELETED",
        {"groups": "a, b", "group": ""},
    ),
    (
        "Finished loading offsets and group metadata from __consumer_offsets-7 in 3 milliseconds",
        "NOTHING",
        {"group": ""},
    ),
    ("Removed 3 expired offsets in 1 milliseconds.", "NOTHING", {"group": ""}),
]


@pytest.mark.parametrize(("text", "name", "parts"), LINES)
@pytest.mark.parametrize("prefix", ["[GroupCoordinator 0]: ", "[GroupMetadataManager brokerId=0] ", ""])
def test_a_line_of_the_old_coordinator_gives_its_sign(prefix: str, text: str, name: str, parts: dict[str, str]) -> None:
    sign = OLD_BROKER.sign(Layouts().line("server.log", 1, (prefix + text).encode()))
    assert sign is not None
    assert sign.name == SignName[name]
    all_parts = {**sign.fields, "group": sign.group, "member": sign.member}
    assert all_parts | {"group": G} | parts == all_parts
    assert sign.fields.get("broker", "") == ("0" if prefix else "")


@pytest.mark.parametrize("program", [OLD_BROKER, NEW_BROKER], ids=["old", "new"])
def test_an_anchor_is_a_fixed_text_of_its_pattern(program: Program) -> None:
    for pattern in (each for each in program.patterns if each.sign is not SignName.NOTHING):
        fixed = re.sub(r"\(\?P<\w+>(\w+)\)", r"\1", pattern.text).replace("\\", "")
        assert pattern.anchor in fixed or pattern.anchor == "ynamic ", pattern

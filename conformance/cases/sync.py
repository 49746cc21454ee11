"""Cases about SyncGroup: parked and answered requests, and the assignments in the answers."""

from __future__ import annotations

from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level


def refused(t: Trial, answer: SyncGroupResponse, code: E) -> None:
    """Check that a SyncGroup error carries no assignment and no protocol."""
    t.expect(answer, error_code=code, assignment=b"", protocol_type=None, protocol_name=None)


@case(
    "sync/unknown/1",
    "A group that does not exist: the member is unknown (25)",
    source="semantics 7.1 SG1; survey rdkafka-mock 15",
    api="SyncGroup",
)
def unknown_group(t: Trial) -> None:
    refused(t, t.member().sync(member_id="nobody", generation_id=1), E.UNKNOWN_MEMBER_ID)


@case(
    "sync/protocol/1",
    "Another protocol name than the group's is refused (23)",
    source="KIP-559; semantics 7.1 SG2",
    api="SyncGroup",
    versions=(5, 5),
)
def other_name(t: Trial) -> None:
    (member,) = t.joined(1)
    refused(t, member.sync(protocol_name="sticky"), E.INCONSISTENT_GROUP_PROTOCOL)


@case(
    "sync/protocol/2",
    "Another protocol type than the group's is refused (23)",
    source="KIP-559; semantics 7.1 SG3",
    api="SyncGroup",
    versions=(5, 5),
)
def other_type(t: Trial) -> None:
    (member,) = t.joined(1)
    refused(t, member.sync(protocol_type="connect"), E.INCONSISTENT_GROUP_PROTOCOL)


@case(
    "sync/protocol/3",
    "A null protocol type or name is refused (23), for every member",
    source="KIP-559; semantics 1",
    api="SyncGroup",
    versions=(5, 5),
)
def null_protocol(t: Trial) -> None:
    (member,) = t.joined(1)
    refused(t, member.sync(protocol_type=None), E.INCONSISTENT_GROUP_PROTOCOL)
    refused(t, member.sync(protocol_name=None), E.INCONSISTENT_GROUP_PROTOCOL)
    refused(t, member.sync(protocol_name=None, group_id="no-such-group"), E.INCONSISTENT_GROUP_PROTOCOL)


@case(
    "sync/protocol/4",
    "Before v5 there is no protocol in request or answer",
    source="KIP-559",
    api="SyncGroup",
    versions=(0, 4),
)
def no_protocol_before(t: Trial) -> None:
    (member,) = t.joined(1)
    t.expect(member.sync({member: b"mine"}), error_code=0, assignment=b"mine", protocol_type=None, protocol_name=None)


@case(
    "sync/protocol/5",
    "The protocol chosen is echoed",
    source="KIP-559; semantics 7.1 SG6",
    api="SyncGroup",
    versions=(5, 5),
)
def protocol_echoed(t: Trial) -> None:
    (member,) = t.joined(1)
    t.expect(member.sync({member: b"mine"}), error_code=0, protocol_type="consumer", protocol_name="range")


@case(
    "sync/unknown/2", "A member that is not in the group is unknown (25)", source="semantics 7.1 SG4", api="SyncGroup"
)
def unknown_member(t: Trial) -> None:
    (member,) = t.joined(1)
    refused(t, member.sync(member_id="nobody"), E.UNKNOWN_MEMBER_ID)


@case("sync/unknown/3", "In an Empty group every member is unknown (25)", source="semantics 2.3", api="SyncGroup")
def unknown_in_empty(t: Trial) -> None:
    (member,) = t.stable(1)
    member.leave()
    refused(t, member.sync(), E.UNKNOWN_MEMBER_ID)


@case(
    "sync/unknown/4",
    "An unknown member (25) comes before a wrong generation (22)",
    source="semantics 2.3",
    api="SyncGroup",
)
def member_before_generation(t: Trial) -> None:
    (member,) = t.joined(1)
    refused(t, member.sync(member_id="nobody", generation_id=77), E.UNKNOWN_MEMBER_ID)


@case("sync/unknown/5", "A member id that is only handed out cannot sync (25)", source="KIP-394", api="SyncGroup")
def pending_cannot_sync(t: Trial) -> None:
    t.joined(1)
    late = t.member()
    response = late.request(late.join_request())
    refused(t, late.sync(member_id=response.member_id, generation_id=1), E.UNKNOWN_MEMBER_ID)


@case(
    "sync/generation/1",
    "A generation of the past is refused (22) in CompletingRebalance",
    source="semantics 7.1 SG5",
    api="SyncGroup",
)
def old_generation(t: Trial) -> None:
    (member,) = t.joined(1)
    refused(t, member.sync(generation_id=member.generation - 1), E.ILLEGAL_GENERATION)


@case(
    "sync/generation/2", "A generation of the future is refused (22) in Stable", source="semantics 2.3", api="SyncGroup"
)
def future_generation(t: Trial) -> None:
    (member,) = t.stable(1)
    refused(t, member.sync(generation_id=member.generation + 1), E.ILLEGAL_GENERATION)


@case(
    "sync/generation/3",
    "In PreparingRebalance a wrong generation (22) comes before the rebalance (27)",
    source="semantics 2.3",
    api="SyncGroup",
)
def generation_before_rebalance(t: Trial) -> None:
    leader, follower = t.stable(2)
    leader.send_join()
    t.await_state("PreparingRebalance")
    refused(t, follower.sync(generation_id=99), E.ILLEGAL_GENERATION)


@case(
    "sync/round/1",
    "The leader gets its own part of the assignments it sent",
    source="semantics 7.1 SG6",
    api="SyncGroup",
)
def leaders_own(t: Trial) -> None:
    (member,) = t.joined(1)
    t.expect(
        member.sync({member: b"bytes of any kind \x00\xff"}), error_code=0, assignment=b"bytes of any kind \x00\xff"
    )
    t.equal(t.describe().group_state, "Stable", "the state")


@case(
    "sync/round/2",
    "A follower that syncs after the leader gets its part at once",
    source="semantics 7.1 SG7; survey rdkafka-mock 6",
    api="SyncGroup",
)
def leader_first(t: Trial) -> None:
    leader, follower = t.joined(2)
    t.expect(leader.sync({leader: b"one", follower: b"two"}), error_code=0, assignment=b"one")
    t.expect(follower.sync(), error_code=0, assignment=b"two")


@case("sync/round/3", "A follower that syncs first waits for the leader", source="semantics 7.1 SG8", api="SyncGroup")
def follower_first(t: Trial) -> None:
    leader, follower = t.joined(2)
    follower.send_sync()
    t.equal(leader.heartbeat(), 0, "the leader's heartbeat")
    t.equal(t.describe().group_state, "CompletingRebalance", "the state")
    t.parked(follower, "the leader has not sent the assignment")
    t.expect(leader.sync({leader: b"one", follower: b"two"}), error_code=0, assignment=b"one")
    t.expect(follower.receive_sync(), error_code=0, assignment=b"two")


@case(
    "sync/round/4",
    "A member the leader gave nothing is answered with empty bytes",
    source="semantics 2.3",
    api="SyncGroup",
)
def nothing_given(t: Trial) -> None:
    leader, follower = t.joined(2)
    t.expect(leader.sync({leader: b"all"}), error_code=0)
    t.expect(follower.sync(), error_code=0, assignment=b"")


@case(
    "sync/round/5",
    "A leader that sends no assignments makes the group Stable, all members with empty bytes",
    source="semantics 7.2 GM6; survey rdkafka-mock 13",
    api="SyncGroup",
)
def no_assignments(t: Trial) -> None:
    leader, follower = t.joined(2)
    follower.send_sync()
    t.expect(leader.sync(), error_code=0, assignment=b"")
    t.expect(follower.receive_sync(), error_code=0, assignment=b"")
    t.equal(t.describe().group_state, "Stable", "the state")


@case(
    "sync/round/6",
    "The assignments in a follower's SyncGroup are ignored",
    source="semantics 2.3; survey rdkafka-mock 13",
    api="SyncGroup",
)
def follower_assigns(t: Trial) -> None:
    leader, follower = t.joined(2)
    follower.send_sync({follower: b"all", leader: b"none"})
    t.expect(leader.sync({leader: b"one", follower: b"two"}), error_code=0, assignment=b"one")
    t.expect(follower.receive_sync(), error_code=0, assignment=b"two")


@case("sync/round/7", "Assignments for members that do not exist are ignored", source="semantics 2.3", api="SyncGroup")
def assigns_to_nobody(t: Trial) -> None:
    (leader,) = t.joined(1)
    request = leader.sync_request({leader: b"mine"})
    request.assignments.append(SyncGroupRequestAssignment("nobody", b"lost"))
    t.expect(leader.request(request), error_code=0, assignment=b"mine")
    t.equal([each.member_id for each in t.describe().members], [leader.id], "members described")


@case("sync/stable/1", "In Stable any member may ask for its part again", source="semantics 2.3", api="SyncGroup")
def again(t: Trial) -> None:
    for member in t.stable(2):
        t.expect(member.sync(), error_code=0, assignment=f"assignment of {member.name}".encode())


@case("sync/stable/2", "In Stable the leader cannot change the assignment", source="semantics 2.3", api="SyncGroup")
def cannot_change(t: Trial) -> None:
    leader, follower = t.stable(2)
    t.expect(leader.sync({leader: b"other", follower: b"other"}), assignment=f"assignment of {leader.name}".encode())
    t.expect(follower.sync(), assignment=f"assignment of {follower.name}".encode())


@case(
    "sync/preparing/1",
    "In PreparingRebalance a SyncGroup is answered 27: join again",
    source="semantics 2.3",
    api="SyncGroup",
)
def preparing(t: Trial) -> None:
    leader, follower = t.stable(2)
    leader.send_join()
    t.await_state("PreparingRebalance")
    refused(t, follower.sync(), E.REBALANCE_IN_PROGRESS)


@case(
    "sync/completing/1",
    "Parked SyncGroups are answered 27 when a member leaves",
    source="semantics 2.3, 2.4",
    api="SyncGroup",
)
def leave_while_waiting(t: Trial) -> None:
    leader, follower, other = t.joined(3)
    follower.send_sync()
    t.equal(leader.heartbeat(), 0, "the leader's heartbeat")
    t.expect(other.leave(), error_code=0)
    refused(t, follower.receive_sync(), E.REBALANCE_IN_PROGRESS)


@case(
    "sync/completing/2",
    "A new round forgets the assignment of the one that was not finished",
    source="semantics 2.4",
    api="SyncGroup",
)
def forgets(t: Trial) -> None:
    leader, follower = t.stable(2)
    leader.send_join()
    t.await_state("PreparingRebalance")
    follower.send_join()
    leader.receive_join()
    follower.receive_join()
    t.expect(leader.sync({leader: b"new"}), error_code=0, assignment=b"new")
    t.expect(follower.sync(), error_code=0, assignment=b"")


@case(
    "sync/timeout/1",
    "A follower that never syncs is out after the rebalance timeout, heartbeats or not",
    source="semantics 2.6, 7.2 GM5",
    api="SyncGroup",
    needs=("short-sessions",),
)
def follower_never_syncs(t: Trial) -> None:
    timeout = t.limits.session * 2
    leader, follower = t.joined(2, rebalance_timeout=timeout)
    t.expect(leader.sync({leader: b"one", follower: b"two"}), error_code=0)
    t.until(follower.heartbeat, lambda code: code == E.UNKNOWN_MEMBER_ID, "the follower was never expelled")
    t.equal(leader.heartbeat(), E.REBALANCE_IN_PROGRESS, "the leader's heartbeat")


@case(
    "sync/timeout/2",
    "A leader that never syncs is removed after the rebalance timeout, and parked SyncGroups are answered 27",
    source="semantics 2.6, 7.2 GM5",
    api="SyncGroup",
    needs=("short-sessions",),
)
def leader_never_syncs(t: Trial) -> None:
    timeout = t.limits.session * 2
    leader, follower = t.joined(2, rebalance_timeout=timeout)
    follower.send_sync()
    t.until(leader.heartbeat, lambda code: code == E.UNKNOWN_MEMBER_ID, "the leader was never expelled")
    refused(t, follower.receive_sync(), E.REBALANCE_IN_PROGRESS)
    t.equal(follower.join().leader, follower.id, "the next leader")


@case(
    "sync/timeout/3",
    "When all have synced in time no member is expelled",
    source="semantics 2.6, 7.2 GM5",
    api="SyncGroup",
    needs=("short-sessions",),
)
def all_synced(t: Trial) -> None:
    timeout = t.limits.session * 2
    leader, follower = t.stable(2, rebalance_timeout=timeout)
    t.lapse(timeout * 1.4, lambda: (leader.heartbeat(), follower.heartbeat()))
    t.equal((leader.heartbeat(), follower.heartbeat()), (0, 0), "heartbeats after the rebalance timeout")


@case(
    "sync/timeout/4",
    "When no member syncs the group becomes Empty",
    source="semantics 2.6, 7.2 GM5",
    api="SyncGroup",
    needs=("short-sessions",),
)
def nobody_syncs(t: Trial) -> None:
    t.joined(2, rebalance_timeout=t.limits.session)
    t.await_state("Empty")


@case(
    "sync/repeated/1",
    "A member that waits may sync again from elsewhere; the later one is answered",
    source="semantics 2.3",
    api="SyncGroup",
)
def sync_again(t: Trial) -> None:
    leader, follower = t.joined(2)
    follower.send_sync()
    t.equal(leader.heartbeat(), 0, "the leader's heartbeat")
    again = t.connect("again")
    again.send(follower.sync_request(), t.version)
    t.equal(leader.heartbeat(), 0, "the leader's heartbeat")
    t.expect(leader.sync({leader: b"one", follower: b"two"}), error_code=0)
    t.expect(again.receive(), error_code=0, assignment=b"two")


@case(
    "sync/group-id/1",
    "An empty group id is invalid (24)",
    source="semantics 7.2 GroupCoordinatorServiceTest",
    api="SyncGroup",
    level=Level.SHOULD,
)
def empty_group_id(t: Trial) -> None:
    request = SyncGroupRequest("", 1, "somebody", None, "consumer", "range", [])
    refused(t, t.call(request), E.INVALID_GROUP_ID)


@case(
    "sync/large/1",
    "An assignment of half a megabyte arrives whole",
    source="semantics 2.6",
    api="SyncGroup",
    level=Level.SHOULD,
)
def large(t: Trial) -> None:
    (member,) = t.joined(1)
    data = bytes(range(256)) * 2048
    t.expect(member.sync({member: data}), error_code=0, assignment=data)

"""Cases from random scripts and mutants: real or possible differences from Apache Kafka 4.2."""

from __future__ import annotations

from typing import Final

from kafka_shim.conformance.case import case
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

ROUND_MS: Final = 700


@case(
    "found/join/1",
    "A first JoinGroup refused for want of protocols leaves an Empty group behind",
    source="differential mode; GroupMetadataManager.classicGroupJoin makes the group before it looks at the protocols",
    api="JoinGroup",
    level=Level.MAY,
    uses=("DescribeGroups",),
)
def refused_first_join(t: Trial) -> None:
    member = t.member(protocols=())
    member.wire.send(member.join_request(), t.version)
    t.expect(member.wire.receive(), error_code=23)
    t.expect(t.describe(), error_code=0, group_state="Empty")


@case(
    "found/join/2",
    "A handed-out member id that joins with a group instance id is refused without a member id in the answer",
    source="differential mode; semantics 2.2",
    api="JoinGroup",
    versions=(5, 9),
    level=Level.MAY,
)
def pending_id_with_instance(t: Trial) -> None:
    member = t.member()
    member.wire.send(member.join_request(), t.version)
    handed_out = t.expect(member.wire.receive(), error_code=79).member_id
    member.wire.send(member.join_request(member_id=handed_out, group_instance_id="instance"), t.version)
    t.expect(member.wire.receive(), error_code=-1, member_id="")


@case(
    "found/leader/1",
    "A static leader that misses a round stays a member, and a present member leads",
    source="semantics 2.4, 2.8; found by a mutant",
    api="JoinGroup",
    versions=(5, 9),
)
def absent_static_leader(t: Trial) -> None:
    leader = t.member(instance_id="leader", rebalance_timeout=ROUND_MS)
    follower = t.member(rebalance_timeout=ROUND_MS)
    t.settle([leader, follower])
    t.check(leader.is_leader, "the first member does not lead")
    newcomer = t.member(rebalance_timeout=ROUND_MS)
    newcomer.send_join()
    t.await_state("PreparingRebalance")
    follower.send_join()
    for each in (follower, newcomer):
        t.expect(each.receive_join(), error_code=0)
    t.check(follower.leader == newcomer.leader, "two members got different leaders")
    t.check(follower.leader in (follower.id, newcomer.id), "no present member leads")

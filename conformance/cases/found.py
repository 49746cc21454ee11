"""What the differential mode found: random scripts on which a coordinator and Apache Kafka 4.2 once differed."""

from __future__ import annotations

from conformance.case import Level, case
from conformance.trial import Trial


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

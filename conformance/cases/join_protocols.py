"""Cases about protocols in JoinGroup: offers of members, the chosen one, and metadata."""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.join import ROUND, ask, refused
from kafka_shim.conformance.member import user_metadata
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level


@case(
    "join/protocol/1",
    "Another protocol type than the group's is refused (23)",
    source="semantics 2.2 step 10, 7.1 JG5",
    api="JoinGroup",
)
def other_type(t: Trial) -> None:
    t.stable(1)
    refused(t, ask(t.member(protocol_type="connect")), E.INCONSISTENT_GROUP_PROTOCOL, "")


@case(
    "join/protocol/2",
    "A member without any protocol that all others support is refused (23)",
    source="semantics 2.2 step 10",
    api="JoinGroup",
)
def no_common_protocol(t: Trial) -> None:
    t.stable(1)
    refused(t, ask(t.member(protocols=(("sticky", user_metadata(b"")),))), E.INCONSISTENT_GROUP_PROTOCOL, "")


@case(
    "join/protocol/3", "A first member that offers no protocol is refused (23)", source="semantics 2.2", api="JoinGroup"
)
def no_protocols(t: Trial) -> None:
    refused(t, ask(t.member(protocols=())), E.INCONSISTENT_GROUP_PROTOCOL, "")


@case(
    "join/protocol/4",
    "A first member with an empty protocol type is refused (23)",
    source="semantics 2.2",
    api="JoinGroup",
)
def no_type(t: Trial) -> None:
    refused(t, ask(t.member(protocol_type="")), E.INCONSISTENT_GROUP_PROTOCOL, "")


@case(
    "join/protocol/5",
    "A group that all members left accepts a member of another protocol type",
    source="semantics 2.2; survey kfake 5",
    api="JoinGroup",
)
def empty_takes_any_type(t: Trial) -> None:
    (member,) = t.stable(1)
    member.leave()
    other = t.member(protocol_type="connect", protocols=(("sessioned", b"x"),))
    t.expect(other.join(), protocol_name="sessioned", protocol_type="connect" if t.version >= 7 else None)


@case(
    "join/protocol/6", "The protocol chosen is one that every member supports", source="semantics 2.5", api="JoinGroup"
)
def common_protocol(t: Trial) -> None:
    first = t.member(protocols=ROUND)
    second = t.member(protocols=(("roundrobin", user_metadata(b"only")),))
    members = t.gather([first, second])
    t.equal({each.protocol for each in members}, {"roundrobin"}, "protocols in the answers")


@case(
    "join/protocol/7",
    "Of the protocols all support, the one most members put first is chosen",
    source="semantics 2.5",
    api="JoinGroup",
)
def vote(t: Trial) -> None:
    backwards = tuple(reversed(ROUND))
    members = t.gather([t.member(protocols=ROUND), t.member(protocols=backwards), t.member(protocols=backwards)])
    t.equal({each.protocol for each in members}, {"roundrobin"}, "protocols in the answers")


@case(
    "join/protocol/8",
    "The leader gets every member's metadata of the chosen protocol",
    source="semantics 2.5",
    api="JoinGroup",
)
def metadata_of_chosen(t: Trial) -> None:
    first = t.member(protocols=(("range", user_metadata(b"r1")), ("roundrobin", user_metadata(b"rr1"))))
    first.join()
    second = t.member(protocols=(("roundrobin", user_metadata(b"rr2")),))
    second.send_join()
    t.await_members(2)
    first.send_join()
    answers = {each: each.receive_join() for each in (first, second)}
    leader = next(each for each in answers if each.is_leader)
    metadata = {each.member_id: each.metadata for each in answers[leader].members}
    t.equal(
        metadata, {first.id: user_metadata(b"rr1"), second.id: user_metadata(b"rr2")}, "metadata in the leader's answer"
    )


@case(
    "join/protocol/9",
    "An existing member that no longer supports the others' protocols is refused (23) and stays as it was",
    source="semantics 2.3",
    api="JoinGroup",
)
def known_member_turns_away(t: Trial) -> None:
    leader, follower = t.stable(2)
    follower.protocols = (("sticky", user_metadata(b"")),)
    refused(t, ask(follower), E.INCONSISTENT_GROUP_PROTOCOL, follower.id)
    t.equal(follower.heartbeat(), 0, "its heartbeat afterwards")
    t.equal(leader.heartbeat(), 0, "the leader's heartbeat")


@case(
    "join/protocol/10",
    "Two members that list the same protocols in opposite order form a group",
    source="survey rdkafka-mock 9",
    api="JoinGroup",
)
def opposite_order(t: Trial) -> None:
    members = t.gather([t.member(protocols=ROUND), t.member(protocols=tuple(reversed(ROUND)))])
    t.equal(len({each.protocol for each in members}), 1, "number of protocols in the answers of one generation")


@case(
    "join/protocol/11",
    "Of protocols with as many votes, the first in the order of a Java HashMap is chosen, for any leader",
    source="semantics 2.5 step 7; proved on Apache Kafka 4.2.2",
    api="JoinGroup",
    level=Level.MAY,
)
def tie(t: Trial) -> None:
    for number, (winner, loser) in enumerate(
        (("range", "roundrobin"), ("sticky", "cooperative-sticky"), ("uniform", "consumer"), ("compatible", "eager"))
    ):
        one, other = (winner, user_metadata(b"")), (loser, user_metadata(b""))
        for name, leaders, followers in (("a", (one, other), (other, one)), ("b", (other, one), (one, other))):
            group = f"{t.group}-{number}{name}"
            members = t.gather([t.member(group=group, protocols=leaders), t.member(group=group, protocols=followers)])
            t.equal({each.protocol for each in members}, {winner}, "protocols in the answers")


@case(
    "join/metadata/1",
    "Metadata a consumer group's coordinator cannot read is the members' business: the round ends all the same",
    source="semantics 3.4; Kafka 4.2.0 never ends such a round, 4.2.2 does",
    api="JoinGroup",
    is_long=True,
)
def unreadable_metadata(t: Trial) -> None:
    for number, data in enumerate((b"", b"\0", b"what is this", b"\0\0\x7f\xff\xff\xff")):
        member = t.member(protocols=(("range", data),), group=f"{t.group}-{number}")
        answer = member.join()
        t.equal([each.metadata for each in answer.members], [data], "metadata in the leader's answer")


@case(
    "join/metadata/2", "Groups of another protocol type may say any metadata", source="semantics 3.4", api="JoinGroup"
)
def other_metadata(t: Trial) -> None:
    member = t.member(protocol_type="single-writer", protocols=(("lowest-id", b"\xff\0 not a subscription"),))
    t.equal(member.join().members[0].metadata, b"\xff\0 not a subscription", "metadata in the leader's answer")

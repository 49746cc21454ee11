"""Client cases about read positions and about listeners, where clients differ most.

Each case checks the offsets of delivered records in addition to frames: a client that joins correctly may still skip
records, or deliver them twice.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_shim.apis.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.clients.case import client_case
from kafka_shim.conformance.clients.client_processes import Member, Partition
from kafka_shim.conformance.clients.scenario import SESSION_MS, Scenario, now
from kafka_shim.conformance.verdict import Level

COOPERATIVE: Final = ["cooperative-sticky"]
CREATE_PARTITIONS_VERSION: Final = 3
EACH: Final = 10
"""The number of records a partition gets at a time."""

CLOSING: Final = 10.0


def read(member: Member, partition: Partition) -> list[int]:
    """Return the offsets that a member delivered of a partition, in order."""
    return [record[1] for record in member.records_of([partition])]


def await_read(s: Scenario, members: list[Member], partition: Partition, offset: int) -> None:
    """Wait until one of the members has delivered an offset of a partition."""
    s.until(lambda: any(offset in read(each, partition) for each in members), f"{partition} is read to {offset}")


def reading(s: Scenario, **config: Any) -> Member:
    """Start a member and wait until it has read the first records of all partitions."""
    (member,) = s.stable(**config)
    s.produce(EACH * len(s.partitions))
    for partition in s.partitions:
        await_read(s, [member], partition, EACH - 1)
    return member


def in_order(s: Scenario, member: Member, partition: Partition, first: int, last: int) -> None:
    """Check that the member delivered each of these offsets once, in order."""
    offsets = read(member, partition)
    s.check(offsets == list(range(first, last + 1)), f"{member.name} read {offsets} of {partition}")


@client_case(
    "R21",
    "The commit of a revocation listener is accepted, and the next owner continues there",
    source="Javadoc of ConsumerRebalanceListener",
    needs=("revoke-commit",),
)
def commits_on_revoke(s: Scenario) -> None:
    first = reading(s, revoke_commit=True)
    start = now()
    second = s.start()
    s.share([first, second])
    commits = s.relay.seen("OffsetCommit", first.name, start)
    s.check(bool(commits), "it committed nothing when its partitions were revoked")
    s.check(commits[0].error == 0, f"its commit was answered {commits[0].error}")
    s.produce(EACH * len(s.partitions))
    for partition in sorted(second.owns):
        await_read(s, [second], partition, EACH * 2 - 1)
        in_order(s, second, partition, EACH, EACH * 2 - 1)


@client_case(
    "R22",
    "A paused partition delivers nothing, others do, and it goes on where it stopped",
    source="KAFKA-2350; Javadoc of KafkaConsumer.pause",
    needs=("pause",),
)
def pauses(s: Scenario) -> None:
    member = reading(s)
    paused, *others = s.partitions
    member.do("pause", partitions=[list(paused)])
    s.produce(EACH * len(s.partitions))
    for partition in others:
        await_read(s, [member], partition, EACH * 2 - 1)
    s.check(read(member, paused) == list(range(EACH)), f"it read {read(member, paused)} of a paused partition")
    member.do("resume", partitions=[list(paused)])
    await_read(s, [member], paused, EACH * 2 - 1)
    in_order(s, member, paused, 0, EACH * 2 - 1)


@client_case(
    "R23",
    "A member that has paused everything, and polls, outlives its session",
    source="KAFKA-2350; Javadoc of KafkaConsumer.pause",
    needs=("pause",),
)
def paused_for_long(s: Scenario) -> None:
    member = reading(s)
    start = now()
    member.do("pause", partitions=[list(each) for each in s.partitions])
    s.frames(
        lambda: [
            each for each in s.relay.seen("Heartbeat", member.name, start) if each.at > start + SESSION_MS * 1.5 / 1000
        ],
        "it heartbeats for longer than its session",
    )
    s.check(not s.expelled({member.name}), "it was expelled")
    s.check(not s.relay.seen("JoinGroup", member.name, start), "it joined again")
    member.do("resume", partitions=[list(each) for each in s.partitions])
    s.produce(EACH * len(s.partitions))
    for partition in s.partitions:
        await_read(s, [member], partition, EACH * 2 - 1)


@client_case(
    "R24",
    "A seek in the assignment listener goes before the committed offset",
    source="Javadoc of ConsumerRebalanceListener",
    needs=("assign-seek",),
)
def seeks_on_assign(s: Scenario) -> None:
    first = reading(s)
    first.do("commit", offsets=[[*partition, EACH] for partition in s.partitions])
    first.close()
    second = s.start(assign_seek=2)
    s.share([second])
    for partition in s.partitions:
        await_read(s, [second], partition, EACH - 1)
        in_order(s, second, partition, 2, EACH - 1)


@client_case(
    "R25",
    "In a cooperative rebalance the listener gets only the new partitions, and does not read the old ones again",
    source="KIP-429",
    needs=("cooperative",),
)
def incremental(s: Scenario) -> None:
    first, second = s.stable(2, assignors=COOPERATIVE, session_ms=30_000)
    s.produce(EACH * len(s.partitions))
    for partition in s.partitions:
        await_read(s, [first, second], partition, EACH - 1)
    stable, events = first.owns, len(first.events)
    second.close()
    s.share([first])
    assigned = [each for each in first.events[events:] if each["event"] == "assigned"]
    again = {(topic, number) for each in assigned for topic, number in each["partitions"]} & stable
    s.check(not again, f"its listener got {sorted(again)} again")
    s.check(not first.revoked(events), f"{sorted(first.revoked(events))} were revoked")
    s.produce(EACH * len(s.partitions))
    for partition in sorted(stable):
        await_read(s, [first], partition, EACH * 2 - 1)
        in_order(s, first, partition, 0, EACH * 2 - 1)


@client_case(
    "R26",
    "Unsubscribing in the assignment listener leaves the group without harm to the others",
    source="Javadoc of KafkaConsumer.unsubscribe",
    level=Level.SHOULD,
    needs=("assign-unsubscribe",),
)
def unsubscribes_on_assign(s: Scenario) -> None:
    (first,) = s.stable(session_ms=30_000)
    start = now()
    second = s.start(assign_unsubscribe=True, session_ms=30_000)
    s.frames(lambda: s.relay.seen("LeaveGroup", second.name, start), "it leaves the group")
    s.share([first])
    second.close()


@client_case(
    "R27",
    "A member that closes with records in its buffer leaves soon, and commits only for the application",
    source="Javadoc of KafkaConsumer.close",
    level=Level.SHOULD,
)
def closes_with_a_full_buffer(s: Scenario) -> None:
    first, second = s.stable(2, session_ms=30_000)
    second.do("hold")
    s.produce(EACH * 50)
    s.until(lambda: all(read(first, partition) for partition in first.owns), "the other member reads")
    start = now()
    second.ask("close")
    s.frames(lambda: s.relay.seen("LeaveGroup", second.name, start), "LeaveGroup is sent", CLOSING)
    s.check(not s.relay.seen("OffsetCommit", second.name), "it committed, and the application did not")
    s.share([first])


@client_case(
    "R28",
    "A member that starts again goes on at the committed offset, and delivers no record twice",
    source="Javadoc of KafkaConsumer, Offsets and Consumer Position",
)
def goes_on(s: Scenario) -> None:
    first = reading(s)
    first.do("commit", offsets=[[*partition, 4] for partition in s.partitions])
    first.close()
    (second,) = s.stable()
    for partition in s.partitions:
        await_read(s, [second], partition, EACH - 1)
        in_order(s, second, partition, 4, EACH - 1)


@client_case(
    "R29",
    "A committed offset beyond the end is reset as the client is set to, and costs no partition",
    source="auto.offset.reset in the consumer's configuration",
)
def beyond_the_end(s: Scenario) -> None:
    first = reading(s)
    first.do("commit", offsets=[[*partition, 1_000] for partition in s.partitions])
    first.close()
    (second,) = s.stable()
    for partition in s.partitions:
        await_read(s, [second], partition, EACH - 1)
        in_order(s, second, partition, 0, EACH - 1)
    s.check(len(second.owns) == len(s.partitions), f"it owns {sorted(second.owns)}")


@client_case(
    "R30",
    "Partitions that are added to a topic are assigned once metadata is old enough, and read from their start",
    source="metadata.max.age.ms in the consumer's configuration",
)
def topic_grows(s: Scenario) -> None:
    (member,) = s.stable(metadata_ms=1_000)
    grown = CreatePartitionsRequest([CreatePartitionsTopic(s.topic, 6, None)], 10_000)
    answer = s.call(grown, CREATE_PARTITIONS_VERSION)
    s.check(answer.results[0].error_code == 0, "the topic could not be grown")
    s.partitions = [(s.topic, number) for number in range(6)]
    s.share([member])
    s.produce(EACH * 6)
    for partition in s.partitions:
        await_read(s, [member], partition, EACH - 1)
        in_order(s, member, partition, 0, EACH - 1)


@client_case(
    "R31",
    "A seek back delivers every record from there again, once and in order",
    source="Javadoc of KafkaConsumer.seek",
    needs=("seek",),
)
def seeks(s: Scenario) -> None:
    member = reading(s)
    partition, *_ = s.partitions
    member.do("seek", offsets=[[*partition, 3]])
    s.until(lambda: read(member, partition).count(EACH - 1) == 2, f"{partition} is read again")
    again = read(member, partition)[EACH:]
    s.check(again == list(range(3, EACH)), f"after the seek it read {again}")


@client_case(
    "R32",
    "Committed offsets that are not available yet are fetched again, and nothing is read before that",
    source="error codes of the protocol guide: COORDINATOR_LOAD_IN_PROGRESS is retriable",
)
def offsets_not_yet(s: Scenario) -> None:
    first = reading(s)
    first.do("commit", offsets=[[*partition, 6] for partition in s.partitions])
    first.close()
    refused = s.relay.plan("OffsetFetch", "error", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=3)
    (second,) = s.stable()
    for partition in s.partitions:
        await_read(s, [second], partition, EACH - 1)
        in_order(s, second, partition, 6, EACH - 1)
    s.check(bool(refused.fired), "it never fetched committed offsets")

"""Offsets committed in a transaction: pending until its end, then there or gone (semantics 3.2)."""

from __future__ import annotations

from functools import partial

from apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from apis.end_txn import EndTxnRequest
from apis.find_coordinator import FindCoordinatorRequest
from apis.init_producer_id import InitProducerIdRequest
from apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from apis.wire.errors import ErrorCode as E
from conformance.case import case
from conformance.cases.offsets import NO_OFFSET, commit, fetch
from conformance.trial import Trial

NOT_READY = {E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS, E.CONCURRENT_TRANSACTIONS}
NEEDS = ("InitProducerId", "AddOffsetsToTxn", "EndTxn")
txn_case = partial(case, api="TxnOffsetCommit", versions=(3, 5), uses=NEEDS)


class Producer:
    """A transactional producer that a case moves by hand."""

    def __init__(self, t: Trial, name: str = "producer") -> None:
        self.t = t
        self.transactional_id = f"{t.group}-{name}"
        t.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id]))
        made = t.until(
            lambda: t.call(InitProducerIdRequest(self.transactional_id, 60_000)),
            lambda answer: answer.error_code not in NOT_READY,
            "no producer id was given",
        )
        t.expect(made, error_code=0)
        self.id, self.epoch = made.producer_id, made.producer_epoch

    def send_offsets(
        self,
        topic: str,
        offsets: dict[int, int],
        *,
        generation: int = -1,
        member_id: str = "",
        group: str | None = None,
    ) -> dict[int, int]:
        """AddOffsetsToTxn where the version needs it, then TxnOffsetCommit; the error of each partition."""
        t, group = self.t, group or self.t.group
        if t.version < 5:
            added = AddOffsetsToTxnRequest(self.transactional_id, self.id, self.epoch, group)
            said = t.until(
                lambda: t.call(added, min(t.peer.newest("AddOffsetsToTxn"), 3)),
                lambda answer: answer.error_code not in NOT_READY,
                "the group was never added to the transaction",
            )
            if said.error_code:
                return dict.fromkeys(offsets, said.error_code)
        parts = [TxnOffsetCommitRequestPartition(n, offset, committed_metadata="") for n, offset in offsets.items()]
        request = TxnOffsetCommitRequest(
            self.transactional_id,
            group,
            self.id,
            self.epoch,
            generation,
            member_id,
            topics=[TxnOffsetCommitRequestTopic(topic, parts)],
        )

        def codes() -> dict[int, int]:
            answer = t.call(request)
            return {each.partition_index: each.error_code for each in answer.topics[0].partitions}

        return t.until(codes, lambda found: not NOT_READY & set(found.values()), "the commit was never taken")

    def end(self, *, committed: bool) -> None:
        """Commit or abort."""
        version = self.t.peer.newest("EndTxn")
        version = version if self.t.version >= 5 else min(version, 4)
        answer = self.t.until(
            lambda: self.t.call(EndTxnRequest(self.transactional_id, self.id, self.epoch, committed), version),
            lambda said: said.error_code not in NOT_READY,
            "the transaction never ended",
        )
        self.t.expect(answer, error_code=0)
        if version >= 5:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch


def offset_of(t: Trial, topic: str, partition: int = 0) -> int:
    return fetch(t, {topic: [partition]})[topic, partition][0]


@txn_case("txn/commit/1", "Offsets of a transaction are seen once it is committed", source="semantics 3.2; peers 2.18")
def committed(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t)
    t.equal(producer.send_offsets(topic, {0: 5, 1: 6}), {0: 0, 1: 0}, "errors")
    t.equal(offset_of(t, topic), -1, "the offset before the end")
    producer.end(committed=True)
    t.until(lambda: offset_of(t, topic), lambda offset: offset == 5, "the offset never showed")
    t.equal(offset_of(t, topic, 1), 6, "the other offset")


@txn_case("txn/abort/1", "Offsets of a transaction that is aborted never show", source="semantics 3.2")
def aborted(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 1})
    producer = Producer(t)
    t.equal(producer.send_offsets(topic, {0: 5}), {0: 0}, "errors")
    producer.end(committed=False)
    t.until(
        lambda: fetch(t, {topic: [0]}, stable=True) if settled(t, topic) else {},
        lambda found: found == {(topic, 0): (1, -1, "", 0)},
        "the transaction stayed pending",
    )


def settled(t: Trial, topic: str) -> bool:
    """Whether no transaction is open on partition 0."""
    return fetch(t, {topic: [0]}, stable=True)[topic, 0][3] == 0


@txn_case(
    "txn/stable/1",
    "Who asks for stable offsets is told to wait (88) for those of an open transaction, and no offset",
    source="KIP-447; semantics 3.3",
)
def unstable(t: Trial) -> None:
    topic = t.topic()
    commit(t, topic, {0: 1})
    Producer(t).send_offsets(topic, {0: 5})
    found = fetch(t, {topic: [0, 1]}, stable=True)
    t.equal(found[topic, 0], (-1, -1, "", E.UNSTABLE_OFFSET_COMMIT), "the partition of the transaction")
    t.equal(found[topic, 1], NO_OFFSET, "another partition")
    t.equal(offset_of(t, topic), 1, "the offset of one who does not ask for stable ones")


@txn_case("txn/latest/1", "A later plain commit is not undone by the end of the transaction", source="semantics 3.2")
def latest_wins(t: Trial) -> None:
    topic = t.topic()
    producer = Producer(t)
    producer.send_offsets(topic, {0: 5})
    t.equal(commit(t, topic, {0: 9}), {0: 0}, "errors of the plain commit")
    producer.end(committed=True)
    t.until(lambda: settled(t, topic), bool, "the transaction stayed pending")
    t.equal(offset_of(t, topic), 9, "the offset")


@txn_case(
    "txn/member/1", "A member's generation is checked: a wrong one is refused (22)", source="KIP-447; semantics 3.2"
)
def wrong_generation(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    codes = Producer(t).send_offsets(topic, {0: 5}, generation=member.generation + 1, member_id=member.id)
    t.equal(codes, {0: E.ILLEGAL_GENERATION}, "errors")


@txn_case("txn/member/2", "A member that is not in the group is unknown (25)", source="KIP-447; semantics 3.2")
def unknown_member(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    codes = Producer(t).send_offsets(topic, {0: 5}, generation=member.generation, member_id="nobody")
    t.equal(codes, {0: E.UNKNOWN_MEMBER_ID}, "errors")


@txn_case("txn/member/3", "A member commits its offsets in a transaction", source="KIP-447; semantics 3.2")
def by_member(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.stable(1)
    producer = Producer(t)
    codes = producer.send_offsets(topic, {0: 5}, generation=member.generation, member_id=member.id)
    t.equal(codes, {0: 0}, "errors")
    producer.end(committed=True)
    t.until(lambda: offset_of(t, topic), lambda offset: offset == 5, "the offset never showed")


@txn_case(
    "txn/member/4",
    "Without member id and generation a transaction commits into a group with members too",
    source="semantics 3.2",
)
def without_member(t: Trial) -> None:
    topic = t.topic()
    t.stable(1)
    t.equal(Producer(t).send_offsets(topic, {0: 5}), {0: 0}, "errors")


@txn_case("txn/group/1", "A generation in a group that does not exist is refused (22)", source="semantics 3.2")
def unknown_group(t: Trial) -> None:
    codes = Producer(t).send_offsets(t.topic(), {0: 5}, generation=3, member_id="somebody")
    t.equal(codes, {0: E.ILLEGAL_GENERATION}, "errors")


@txn_case("txn/topic/1", "A topic that does not exist is told (3)", source="semantics 3.2")
def unknown_topic(t: Trial) -> None:
    t.equal(Producer(t).send_offsets("no-such", {0: 5}), {0: E.UNKNOWN_TOPIC_OR_PARTITION}, "errors")


@txn_case("txn/completing/1", "In CompletingRebalance a transaction may commit", source="semantics 3.2")
def in_completing(t: Trial) -> None:
    topic = t.topic()
    (member,) = t.joined(1)
    codes = Producer(t).send_offsets(topic, {0: 5}, generation=member.generation, member_id=member.id)
    t.equal(codes, {0: 0}, "errors")


@txn_case("txn/producer/1", "A producer that was fenced may not commit", source="KIP-360; semantics 3.2")
def fenced(t: Trial) -> None:
    topic = t.topic()
    old = Producer(t)
    Producer(t)
    codes = old.send_offsets(topic, {0: 5})
    t.check(codes[0] in (E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED, E.INVALID_TXN_STATE), f"errors {codes}")

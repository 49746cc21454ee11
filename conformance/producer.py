"""`Producer`: a transactional producer of a case, request by request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_shim.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_shim.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafka_shim.apis.end_txn import EndTxnRequest, EndTxnResponse
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.trial import Trial

COMING = {E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR}
NOT_YET = COMING | {E.CONCURRENT_TRANSACTIONS}
_NEW_TOPIC_SECONDS = 30.0


class Producer:
    """A transactional id of the cell, with its current producer id and epoch."""

    def __init__(self, t: Trial, name: str = "txn", *, timeout: int = 60_000) -> None:
        self.t = t
        self.transactional_id = f"{t.group}-{name}"
        self.id = self.epoch = -1
        find(t, self.transactional_id, 1)
        find(t, t.group, 0)
        t.expect(self.init(timeout=timeout), error_code=0)

    def init(self, *, sender: tuple[int, int] = (-1, -1), timeout: int = 60_000) -> InitProducerIdResponse:
        """Send InitProducerId; again while the coordinator is missing or ends a transaction."""
        request = InitProducerIdRequest(self.transactional_id, timeout, *sender)
        version = self.t.version_of(request) if sender == (-1, -1) else max(self.t.version_of(request), 3)
        answer: InitProducerIdResponse = self.t.until(
            lambda: self.t.call(request, version), lambda got: got.error_code not in NOT_YET, "the producer gets no id"
        )
        if answer.error_code == 0:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def add(self, topic: str, *partitions: int, **changes: Any) -> list[int]:
        """Send AddPartitionsToTxn; return the error of each partition, in order of topics and partitions."""
        topics = [AddPartitionsToTxnTopic(topic, list(partitions)), *changes.pop("more", [])]
        fields = {"id": self.transactional_id, "producer_id": self.id, "producer_epoch": self.epoch, **changes}
        version = self.t.version_of("AddPartitionsToTxn")
        if self.t.api != "AddPartitionsToTxn":
            # From version 4 on only brokers send it to each other.
            version = min(version, 3)
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=fields["id"],
                v3_and_below_producer_id=fields["producer_id"],
                v3_and_below_producer_epoch=fields["producer_epoch"],
                v3_and_below_topics=topics,
            )
        else:
            one = AddPartitionsToTxnTransaction(
                fields["id"], fields["producer_id"], fields["producer_epoch"], fields.get("verify_only", False), topics
            )
            request = AddPartitionsToTxnRequest(transactions=[one])

        def ask() -> list[tuple[str, int, int]]:
            answer = self.t.call(request, version)
            results = answer.results_by_topic_v3_and_below
            if version >= 4:
                results = answer.results_by_transaction
                self.t.equal([each.transactional_id for each in results], [fields["id"]], "transactional ids answered")
                results = results[0].topic_results
            return sorted(
                (each.name, result.partition_index, result.partition_error_code)
                for each in results
                for result in each.results_by_partition
            )

        got = self.t.until(ask, lambda got: not {code for *_, code in got} & NOT_YET, "nothing can be added")
        return [code for *_, code in got]

    def add_offsets(self, group: str | None = None) -> int:
        request = AddOffsetsToTxnRequest(
            self.transactional_id, self.id, self.epoch, self.t.group if group is None else group
        )
        code: int = self.t.until(
            lambda: self.t.call(request).error_code, lambda code: code not in NOT_YET, "nothing can be added"
        )
        return code

    def commit(
        self, topic: str, offsets: Mapping[int, int], *, announced: bool = True, metadata: str = "", **changes: Any
    ) -> dict[int, int]:
        """Send TxnOffsetCommit, after AddOffsetsToTxn if the version needs it; return the error of each partition."""
        version = self.t.version_of("TxnOffsetCommit")
        if announced and version < 5:
            self.t.equal(self.add_offsets(changes.get("group_id")), 0, "AddOffsetsToTxn's error")
        request = TxnOffsetCommitRequest(
            self.transactional_id,
            self.t.group,
            self.id,
            self.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    topic,
                    self.t.topic_id(topic) if version >= 6 else bytes(16),
                    [TxnOffsetCommitRequestPartition(p, offset, -1, metadata) for p, offset in offsets.items()],
                )
            ],
        )
        for name, value in changes.items():
            setattr(request, name, value)

        def ask() -> dict[int, int]:
            answer = self.t.call(request)
            return {each.partition_index: each.error_code for topic in answer.topics for each in topic.partitions}

        return self.t.until(ask, lambda got: not set(got.values()) & NOT_YET, "no offset can be committed")

    def end(self, *, committed: bool, sender: tuple[int, int] | None = None) -> EndTxnResponse:
        """Send EndTxn; the producer continues with the epoch of the answer."""
        producer_id, epoch = sender or (self.id, self.epoch)
        request = EndTxnRequest(self.transactional_id, producer_id, epoch, committed)
        answer: EndTxnResponse = self.t.until(
            lambda: self.t.call(request), lambda got: got.error_code not in NOT_YET, "the transaction cannot be ended"
        )
        if answer.error_code == 0 and answer.producer_id != -1:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer


def find(t: Trial, key: str, kind: int) -> None:
    """Wait until a group (0) or transactional id (1) has a coordinator."""
    batched = t.peer.newest("FindCoordinator") >= 4
    keys = {"coordinator_keys": [key]} if batched else {"key": key}

    def ask() -> int:
        answer = t.call(FindCoordinatorRequest(key_type=kind, **keys))
        code: int = answer.coordinators[0].error_code if batched else answer.error_code
        return code

    # For the first transaction Kafka makes a topic, which takes long on a busy machine.
    seconds = _NEW_TOPIC_SECONDS if t.has_more_time else None
    t.until(ask, lambda code: code == 0, "there is no coordinator", seconds)

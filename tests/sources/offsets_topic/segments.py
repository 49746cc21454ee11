"""Writer of a partition of `__consumer_offsets` for tests: records of a group, byte for byte as a broker has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kafka_shim.apis.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    assignment_to_bytes,
    subscription_to_bytes,
)
from kafka_shim.persistence.batch import Record, end_marker, write_batch
from kafka_shim.persistence.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)

GROUP = "billing"
START_MS = 1_795_860_000_000


class Partition:
    """A partition in the making; its clock goes on by `take`."""

    def __init__(self, group: str = GROUP) -> None:
        self.group = group
        self.now = START_MS
        self.offset = 0
        self.data = b""

    def add(self, *pairs: tuple[Key, Any], codec: str = "none", seconds: float = 1.0, **batch: Any) -> None:
        """Append records as one batch, some seconds after the one before."""
        self.now += round(1000 * seconds)
        records = [
            Record(self.offset + number, self.now, encode_key(key), None if value is None else encode_value(key, value))
            for number, (key, value) in enumerate(pairs)
        ]
        self.data += write_batch(records, codec=codec, **batch)
        self.offset += len(records)

    def end_transaction(self, producer_id: int, kind: int) -> None:
        """Append a control batch."""
        self.now += 1000
        marker = end_marker(self.offset, self.now, kind)
        self.data += write_batch([marker], producer_id=producer_id, producer_epoch=0, transactional=True, control=True)
        self.offset += 1

    def hole(self, records: int) -> None:
        """Leave out offsets, as compaction does."""
        self.offset += records

    def generation(
        self,
        number: int,
        members: Mapping[str, Mapping[str, Sequence[int]]],
        *,
        thinks: float = 0.01,
        protocol: str = "range",
        instances: Mapping[str, str] | None = None,
        topics: Mapping[str, Sequence[str]] | None = None,
        seconds: float = 1.0,
        codec: str = "none",
    ) -> None:
        """Append the record of a generation; the leader thinks for some seconds."""
        self.now += round(1000 * seconds)
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=number,
            protocol=protocol if members else None,
            leader=next(iter(members), None),
            current_state_timestamp=self.now,
            members=[
                MemberMetadata(
                    member_id=each,
                    group_instance_id=(instances or {}).get(each),
                    client_id=each.rpartition("-")[0] or each,
                    client_host="/10.1.2.3",
                    rebalance_timeout=300_000,
                    session_timeout=45_000,
                    subscription=subscription_to_bytes(
                        ConsumerProtocolSubscription(list((topics or {}).get(each, ["orders"]))), 1
                    ),
                    assignment=assignment_to_bytes(
                        ConsumerProtocolAssignment(
                            [TopicPartition(topic, list(numbers)) for topic, numbers in shares.items()]
                        ),
                        1,
                    ),
                )
                for each, shares in members.items()
            ],
        )
        self.add((GroupMetadataKey(self.group), value), seconds=thinks, codec=codec)

    def commit(self, offset: int, topic: str = "orders", partition: int = 0, **batch: Any) -> None:
        """Append a committed offset."""
        value = OffsetCommitValue(offset, commit_timestamp=self.now)
        self.add((OffsetCommitKey(self.group, topic, partition), value), **batch)

    def write(self, folder: Path, number: int = 7) -> Path:
        """Write it as a broker's folder; return that."""
        place = folder / f"__consumer_offsets-{number}"
        place.mkdir(parents=True)
        (place / "00000000000000000000.log").write_bytes(self.data)
        return place

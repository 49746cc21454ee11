"""One request on its way to a rule, and the rules it can be handed to.

This module is the contract between the wire and everything above it: `handle` functions of the API modules receive a
`Call` and call a method of `Groups` or `Broker`. It decides nothing; it does not know who implements the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from kafka_shim.apis.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
    from kafka_shim.apis.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
    from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
    from kafka_shim.apis.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from kafka_shim.apis.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from kafka_shim.apis.delete_groups import DeletableGroupResult
    from kafka_shim.apis.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from kafka_shim.apis.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
    from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
    from kafka_shim.apis.describe_groups import DescribedGroup
    from kafka_shim.apis.end_txn import EndTxnRequest, EndTxnResponse
    from kafka_shim.apis.fetch import FetchRequest, FetchResponse
    from kafka_shim.apis.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from kafka_shim.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
    from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupResponse
    from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse
    from kafka_shim.apis.list_groups import ListGroupsResponse
    from kafka_shim.apis.list_offsets import ListOffsetsRequest, ListOffsetsResponse
    from kafka_shim.apis.metadata import MetadataRequest, MetadataResponse
    from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from kafka_shim.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
    from kafka_shim.apis.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
    from kafka_shim.apis.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
    from kafka_shim.apis.produce import ProduceRequest, ProduceResponse
    from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupResponse
    from kafka_shim.apis.txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
        TxnOffsetCommitResponseTopic,
    )
    from kafka_shim.apis.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse


class Parked:
    """The type of `PARKED`: no answer yet; the rule will put it in the outbox under the call's token."""

    def __repr__(self) -> str:
        return "PARKED"


PARKED: Final = Parked()


class NoReply:
    """The type of `NO_REPLY`: the client waits for no answer and gets none (Produce with acks 0)."""

    def __repr__(self) -> str:
        return "NO_REPLY"


NO_REPLY: Final = NoReply()


class NotAdded(Enum):
    """What is done about a partition that a producer writes to and has not added to its transaction (KIP-890).

    CHECK refuses it with INVALID_TXN_STATE (48), ABORTABLE with TRANSACTION_ABORTABLE (120), ADD adds it.
    """

    CHECK = auto()
    ABORTABLE = auto()
    ADD = auto()


class Client(NamedTuple):
    """Who sent a request: `client_id` of the header, and the address in Java's spelling, `/127.0.0.1`."""

    client_id: str
    client_host: str


class Call:
    """One request: what its header and connection say, and the rules it may be handed to.

    `now` is monotonic seconds of the coordinator's clock. `token` names the reply should the rule park it. `node_id` is
    the broker that received the request.
    """

    __slots__ = ("version", "client", "token", "now", "node_id", "groups", "broker")

    def __init__(
        self, version: int, client: Client, token: object, now: float, node_id: int, groups: Groups, broker: Broker
    ) -> None:
        self.version = version
        self.client = client
        self.token = token
        self.now = now
        self.node_id = node_id
        self.groups = groups
        self.broker = broker


class Groups(Protocol):
    """The group rules of one node. Sources: kafka-semantics 2 and 3. `now` is monotonic seconds."""

    def join(
        self,
        request: JoinGroupRequest,
        client: Client,
        token: object,
        now: float,
        *,
        member_id_required: bool,
        skip_assignment_supported: bool,
    ) -> JoinGroupResponse | Parked:
        """`member_id_required`: v4+ (KIP-394); `skip_assignment_supported`: v9+ (KIP-814)."""

    def sync(self, request: SyncGroupRequest, token: object, now: float) -> SyncGroupResponse | Parked: ...

    def heartbeat(self, group_id: str, generation_id: int, member_id: str, instance_id: str | None, now: float) -> int:
        """The error code of the answer, 0 for none."""

    def leave(self, request: LeaveGroupRequest, now: float) -> LeaveGroupResponse:
        """Members are always in `request.members`, also for v0-2; the answer is in v3+ form."""

    def describe(self, group_ids: Sequence[str], now: float) -> list[DescribedGroup]: ...

    def delete(self, group_ids: Sequence[str], now: float) -> list[DeletableGroupResult]: ...

    def commit(self, request: OffsetCommitRequest, now: float, *, unknown_group_is_69: bool) -> OffsetCommitResponse:
        """Only topics and partitions that exist are in `request`. `unknown_group_is_69`: v9+ (else 22)."""

    def commit_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        refused: Sequence[TxnOffsetCommitResponseTopic],
        token: object,
        now: float,
        *,
        not_added: NotAdded,
    ) -> TxnOffsetCommitResponse | Parked:
        """Only topics and partitions that exist are in `request`; `refused` is to be in the answer too."""

    def fetch(
        self, group: OffsetFetchRequestGroup, *, require_stable: bool, now: float
    ) -> OffsetFetchResponseGroup: ...

    def delete_offsets(self, request: OffsetDeleteRequest, now: float) -> OffsetDeleteResponse: ...

    def coordinator_of(self, key: str, key_type: Literal[0, 1]) -> tuple[int, int, str, int]:
        """`(error, node_id, host, port)` of the coordinator of a group (0) or a transactional id (1)."""

    # Last, because below it `list` is no longer the type in annotations of this class.
    def list(self, states: Sequence[str], types: Sequence[str]) -> ListGroupsResponse: ...


class Broker(Protocol):
    """Topics and logs of one node. Each API of the broker is one rule. `now` is monotonic seconds."""

    def has(self, topic: str, partition: int) -> bool:
        """Whether the partition exists."""

    def partitions_of(self, topic: str) -> int:
        """How many partitions the topic has; 0 if it does not exist."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic id, or None."""

    def topic_id(self, topic: str) -> bytes | None:
        """The id of a topic name, or None."""

    def ensure_offsets_topic(self) -> None:
        """Create `__consumer_offsets` if it is not there yet, as the first search for a coordinator does."""

    def api_versions(self, request: ApiVersionsRequest, *, software_known: bool) -> ApiVersionsResponse:
        """`software_known`: v3+ say which software the client is, and are refused (42) when that is malformed."""

    def metadata(self, request: MetadataRequest, now: float) -> MetadataResponse:
        """Null topics mean all topics."""

    def describe_cluster(self, request: DescribeClusterRequest) -> DescribeClusterResponse: ...

    def produce(
        self,
        request: ProduceRequest,
        token: object,
        now: float,
        *,
        by_topic_id: bool,
        zstd_allowed: bool,
        leaders_told: bool,
        not_added: NotAdded,
    ) -> ProduceResponse | NoReply | Parked:
        """`by_topic_id`: v13+; `zstd_allowed`: v7+; `leaders_told`: v10+ (KIP-951)."""

    def fetch(
        self, request: FetchRequest, token: object, now: float, *, by_topic_id: bool, leaders_told: bool
    ) -> FetchResponse | Parked:
        """`by_topic_id`: v13+; `leaders_told`: v16+ (KIP-951).

        Handing in the same object for a request of the same bytes makes a held fetch cheap. Answers with nothing new to
        the same client are the same object every time; nobody may change them.
        """

    def list_offsets(self, request: ListOffsetsRequest, *, lowest_timestamp: int) -> ListOffsetsResponse:
        """`lowest_timestamp`: the last of the timestamps with a meaning of their own that the version knows."""

    def offset_for_leader_epoch(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse: ...

    def create_topics(
        self, request: CreateTopicsRequest, token: object, now: float
    ) -> CreateTopicsResponse | Parked: ...

    def delete_topics(
        self, request: DeleteTopicsRequest, token: object, now: float, *, disabled_is_73: bool
    ) -> DeleteTopicsResponse | Parked:
        """Topics are always in `request.topics`, also for v0-5. `disabled_is_73`: v3+ (else 42)."""

    def create_partitions(
        self, request: CreatePartitionsRequest, token: object, now: float
    ) -> CreatePartitionsResponse | Parked: ...

    def describe_configs(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse: ...

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, token: object, now: float
    ) -> IncrementalAlterConfigsResponse | Parked: ...

    def init_producer_id(self, request: InitProducerIdRequest, now: float) -> InitProducerIdResponse: ...

    def add_partitions_to_txn(self, request: AddPartitionsToTxnRequest, now: float) -> AddPartitionsToTxnResponse:
        """Transactions are always in `request.transactions`, also for v0-3; the answer is in v4+ form."""

    def add_offsets_to_txn(self, request: AddOffsetsToTxnRequest, now: float) -> AddOffsetsToTxnResponse: ...

    def end_txn(self, request: EndTxnRequest, now: float, *, bumps_epoch: bool) -> EndTxnResponse:
        """`bumps_epoch`: v5+ (KIP-890)."""

    def write_txn_markers(self, request: WriteTxnMarkersRequest, now: float) -> WriteTxnMarkersResponse: ...

    def next_deadline(self) -> float | None:
        """When `expire` is due next, or None."""

    def expire(self, now: float) -> None:
        """Answer the parked fetches whose wait is over."""

    def forget(self, token: object) -> None:
        """The connection of a parked request is gone; its reply is not wanted any more."""

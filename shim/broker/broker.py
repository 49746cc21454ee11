"""One broker as its clients see it: every API of it that is not about groups.

Decides nothing but which rule a request goes to, and what the broker says of itself. Does not know groups, versions,
connections or clocks: `now` is an argument, which `epoch_ms` turns into ms since the epoch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from kafka_shim.apis import add_partitions_to_txn, describe_transactions, list_transactions, write_txn_markers
from kafka_shim.apis.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafka_shim.apis.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafka_shim.apis.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafka_shim.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kafka_shim.apis.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafka_shim.apis.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kafka_shim.apis.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafka_shim.apis.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kafka_shim.apis.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafka_shim.apis.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafka_shim.apis.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kafka_shim.apis.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kafka_shim.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kafka_shim.apis.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kafka_shim.apis.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kafka_shim.apis.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kafka_shim.apis.end_txn import EndTxnRequest, EndTxnResponse
from kafka_shim.apis.fetch import FetchRequest, FetchResponse
from kafka_shim.apis.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kafka_shim.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_shim.apis.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from kafka_shim.apis.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka_shim.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka_shim.apis.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kafka_shim.apis.metadata import MetadataRequest, MetadataResponse
from kafka_shim.apis.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kafka_shim.apis.produce import ProduceRequest, ProduceResponse
from kafka_shim.apis.profiles import FEATURES, NEWEST, PROFILES
from kafka_shim.apis.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafka_shim.apis.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafka_shim.apis.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kafka_shim.broker import compaction, features, retention
from kafka_shim.broker.admin import Admin
from kafka_shim.broker.configs import Configs
from kafka_shim.broker.deletions import Deletions
from kafka_shim.broker.fetches import FetchApi
from kafka_shim.broker.metadata import MetadataApi
from kafka_shim.broker.offsets import Offsets
from kafka_shim.broker.produce import NO_ACKS, ProduceApi
from kafka_shim.broker.quorum import LogDirs, Quorum
from kafka_shim.broker.reassignments import Reassignments
from kafka_shim.broker.share_fetches import ShareFetchApi
from kafka_shim.broker.topic_pages import TopicPages
from kafka_shim.broker.topics import INTERNAL_TOPICS, Topics, name_refusal
from kafka_shim.broker.transaction_ends import TopicPartition
from kafka_shim.broker.transaction_requests import TransactionRequests
from kafka_shim.broker.transaction_views import TransactionViews, describe_producers
from kafka_shim.broker.transactions import Transactions, Waiting, WaitingBatches
from kafka_shim.broker.upkeep import Upkeep
from kafka_shim.groups.interface import PARKED, NoReply, Parked, TransactionSupportedOperation
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.service import GroupService
from kafka_shim.groups.share.persister import SharePersister
from kafka_shim.groups.streams.topics import InternalTopic

_LEGAL_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?\Z")


_Response = TypeVar("_Response", bound=Message)


class Shared(Protocol):
    """What several processes that share their topics and settings have for changes of them."""

    def change(self, rule: Callable[[Topics], Message], exchange: object) -> None:
        """Let `rule` change the topics of all processes; the parked request `exchange`, if there is one, gets the
        answer it returns."""


class Broker:
    """The rules of one broker, one for each API of it. `now` is monotonic seconds.

    The `topics` are the cluster's and shared by all brokers of it. `node_id` is its id among `topics.nodes`. Replies of
    parked fetches go to `outbox`. `new_id` gives 16 random bytes. `epoch_ms` turns monotonic seconds into ms since the
    epoch. `release` is the Kafka release it poses as. `shared` is there unless the topics are this process's alone.
    Where a laboratory moves the clock that `now` comes from, `clock_ahead()` is by how many seconds it is ahead of real
    time, in which fetches wait. `share_states` are those of the process, of this broker alone if None.
    `experimental_apis` are advertised beside those of the release.
    """

    def __init__(
        self,
        node_id: int,
        topics: Topics,
        outbox: Outbox,
        *,
        new_id: Callable[[], bytes],
        epoch_ms: Callable[[float], int],
        release: str = NEWEST,
        shared: Shared | None = None,
        clock_ahead: Callable[[], float] | None = None,
        share_states: SharePersister | None = None,
        experimental_apis: Sequence[ApiVersion] = (),
    ) -> None:
        self.node_id = node_id
        self.topics = topics
        self.outbox = outbox
        self.release = release
        self.configs = Configs(node_id, topics, release)
        self.shared = shared
        self._experimental_apis = experimental_apis
        self._clock_ahead = clock_ahead
        self._epoch_ms = epoch_ms
        self._metadata = MetadataApi(topics)
        self._fetch = FetchApi(node_id, topics, outbox, new_id)
        self._offsets = Offsets(node_id, topics)
        self._reassignments = Reassignments(topics, movable=shared is None)
        self._upkeep = (
            Upkeep(node_id, topics, epoch_ms, retention.CHECK_INTERVAL, topics.all, retention.delete_old),
            Upkeep(node_id, topics, epoch_ms, compaction.BACKOFF, topics.compacted_topics, compaction.clean),
        )
        self._views: TransactionViews | None = None
        self._produce = ProduceApi(node_id, topics, epoch_ms)
        self._transactions: TransactionRequests | None = None
        self.share = ShareFetchApi(
            node_id,
            topics,
            outbox,
            SharePersister() if share_states is None else share_states,
            epoch_ms,
            clock_ahead or (lambda: 0.0),
        )

    def has(self, topic: str, partition: int) -> bool:
        """Whether the partition exists."""
        found = self.topics.named(topic)
        return found is not None and found.partition(partition) is not None

    def partitions_of(self, topic: str) -> int:
        """How many partitions the topic has; 0 if it does not exist."""
        found = self.topics.named(topic)
        return len(found.partitions) if found is not None else 0

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self.topics.with_id(topic_id)
        return topic.name if topic is not None else None

    def topic_id(self, topic: str) -> bytes | None:
        found = self.topics.named(topic)
        return found.id if found is not None else None

    def ensure_offsets_topic(self) -> None:
        """Create `__consumer_offsets` if it is not there yet, as the first search for a coordinator does."""
        self.topics.ensure_offsets_topic()

    def has_feature(self, name: str) -> bool:
        return features.serves(self.release, self.topics.settings, name)

    def api_versions(self, request: ApiVersionsRequest, *, has_software: bool) -> ApiVersionsResponse:
        """`has_software`: v3+ say which software the client is; INVALID_REQUEST (42) when that is malformed."""
        if has_software and not (
            _LEGAL_SOFTWARE.match(request.client_software_name)
            and _LEGAL_SOFTWARE.match(request.client_software_version)
        ):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        supported = FEATURES[self.release]
        levels = {each.name: features.level(self.release, self.topics.settings, each.name) for each in supported}
        response = ApiVersionsResponse(
            api_keys=[
                *(ApiVersion(key, *versions) for key, versions in PROFILES[self.release].items()),
                *self._experimental_apis,
            ],
            supported_features=[SupportedFeatureKey(each.name, each.lowest, each.highest) for each in supported],
            finalized_features=[FinalizedFeatureKey(name, level, level) for name, level in levels.items() if level],
        )
        if supported:
            response.finalized_features_epoch = self.topics.settings.features_epoch
        return response

    def metadata(self, request: MetadataRequest, now: float) -> MetadataResponse:
        response = self._metadata.metadata(request)
        # It shows no topic that is not durable.
        self.outbox.required_batch = max(self.outbox.required_batch, self.topics.batch)
        self.topics.settle(now)
        return response

    def describe_cluster(self, request: DescribeClusterRequest) -> DescribeClusterResponse:
        return self._metadata.describe_cluster(request)

    def produce(
        self,
        request: ProduceRequest,
        exchange: object,
        now: float,
        *,
        by_topic_id: bool,
        zstd_allowed: bool,
        with_leaders: bool,
        supported_operation: TransactionSupportedOperation,
    ) -> ProduceResponse | NoReply | Parked:
        """`by_topic_id`: v13+; `zstd_allowed`: v7+; `with_leaders`: v10+ (KIP-951)."""
        verification = self._produce.verification(request, supported_operation, by_topic_id=by_topic_id)
        batches = WaitingBatches(exchange, request, by_topic_id, zstd_allowed, with_leaders, supported_operation)
        if verification is None:
            return self._append(batches, None, now)
        if not verification.topic_partitions or request.acks == NO_ACKS or self._transactions is None:
            return self._append(batches, {}, now)
        self._transactions.transactions.verify(verification, batches)
        return PARKED

    def _append(
        self, batches: WaitingBatches, errors: Mapping[TopicPartition, ErrorCode] | None, now: float
    ) -> ProduceResponse | NoReply:
        for upkeep in self._upkeep:
            upkeep.written(now)
        return self._produce.produce(
            batches.request,
            now,
            by_topic_id=batches.by_topic_id,
            zstd_allowed=batches.zstd_allowed,
            with_leaders=batches.with_leaders,
            supported_operation=batches.supported_operation,
            answers=errors,
        )

    def _verified(self, waiting: Waiting, errors: Mapping[TopicPartition, ErrorCode], now: float) -> None:
        """Another process has checked what a request waits for."""
        if isinstance(waiting, WaitingBatches):
            self.outbox.reply_at_once(waiting.exchange, self._append(waiting, errors, now))
        else:
            assert self._transactions is not None
            self._transactions.admitted(waiting, errors, now)

    def fetch(
        self, request: FetchRequest, exchange: object, now: float, *, by_topic_id: bool, with_leaders: bool
    ) -> FetchResponse | Parked:
        """`by_topic_id`: v13+; `with_leaders`: v16+ (KIP-951).

        Handing in the same object for a request of the same bytes makes a held fetch cheap. Answers with nothing new to
        the same client are the same object every time; nobody may change them.
        """
        if self._clock_ahead is not None:
            now -= self._clock_ahead()
        return self._fetch.fetch(request, exchange, now, by_topic_id=by_topic_id, with_leaders=with_leaders)

    def share_fetch(
        self, request: ShareFetchRequest, exchange: object, connection: object, now: float
    ) -> ShareFetchResponse | Parked:
        return self.share.fetch(request, exchange, connection, now)

    def share_acknowledge(self, request: ShareAcknowledgeRequest, now: float) -> ShareAcknowledgeResponse:
        return self.share.acknowledge(request, now)

    def list_offsets(self, request: ListOffsetsRequest, *, lowest_timestamp: int) -> ListOffsetsResponse:
        """`lowest_timestamp`: the last of the timestamps with a meaning of their own that the version has."""
        return self._offsets.list_offsets(request, lowest_timestamp=lowest_timestamp)

    def offset_for_leader_epoch(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        return self._offsets.offset_for_leader_epoch(request)

    def create_topics(
        self, request: CreateTopicsRequest, exchange: object, now: float
    ) -> CreateTopicsResponse | Parked:
        return self._change(exchange, lambda topics: Admin(topics, self.release).create_topics(request, now))

    def streams_refusal(self, topics: Iterable[str]) -> str | None:
        """Why a Kafka Streams application cannot use these topics, in Kafka's words, or None."""
        names = list(topics)
        if prohibited := [name for name in names if name in INTERNAL_TOPICS]:
            return f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        if illegal := [name for name in names if name_refusal(name) is not None]:
            return f"Topic names {','.join(illegal)} are not valid topic names."
        return None

    def create_internal_topics(self, topics: Iterable[InternalTopic], now: float) -> dict[str, str]:
        """Create the internal topics of a Kafka Streams application. Why some could not be created, by their names;
        nothing where several processes share their topics, which happens later."""
        request = CreateTopicsRequest(
            [
                CreatableTopic(
                    topic.name,
                    topic.partitions,
                    topic.replication_factor or -1,
                    [],
                    [CreatableTopicConfig(*config) for config in topic.configs],
                )
                for topic in topics
            ]
        )
        if self.shared is not None:
            self.shared.change(lambda topics: Admin(topics, self.release).create_topics(request, now), None)
            return {}
        response = Admin(self.topics, self.release).create_topics(request, now)
        return {result.name: result.error_message or "" for result in response.topics if result.error_code}

    def delete_topics(
        self, request: DeleteTopicsRequest, exchange: object, now: float, *, disabled_is_73: bool
    ) -> DeleteTopicsResponse | Parked:
        return self._change(
            exchange, lambda topics: Admin(topics).delete_topics(request, now, disabled_is_73=disabled_is_73)
        )

    def create_partitions(
        self, request: CreatePartitionsRequest, exchange: object, now: float
    ) -> CreatePartitionsResponse | Parked:
        return self._change(exchange, lambda topics: Admin(topics).create_partitions(request, now))

    def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, now: float
    ) -> AlterPartitionReassignmentsResponse:
        return self._reassignments.reassign(request, now)

    def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        return self._reassignments.under_way(request)

    def elect_leaders(self, request: ElectLeadersRequest, now: float) -> ElectLeadersResponse:
        return self._reassignments.elect(request, now)

    def describe_topic_partitions(self, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        return TopicPages(self.topics).describe(request)

    def describe_log_dirs(self, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        return LogDirs(self.node_id, self.topics).describe(request)

    def describe_quorum(self, request: DescribeQuorumRequest, now: float) -> DescribeQuorumResponse:
        return Quorum(self.topics).describe(request, self._epoch_ms(now))

    def delete_records(self, request: DeleteRecordsRequest, now: float) -> DeleteRecordsResponse:
        return Deletions(self.node_id, self.topics).delete(request, now)

    def describe_producers(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        return describe_producers(request, self.node_id, self.topics)

    def _change(self, exchange: object, rule: Callable[[Topics], _Response]) -> _Response | Parked:
        if self.shared is None:
            return rule(self.topics)
        self.shared.change(rule, exchange)
        return PARKED

    def describe_configs(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        return self.configs.describe_configs(request)

    def list_config_resources(
        self, request: ListConfigResourcesRequest, *, metrics_only: bool
    ) -> ListConfigResourcesResponse:
        return self.configs.list_config_resources(request, metrics_only=metrics_only)

    def alter_configs(
        self, request: AlterConfigsRequest, exchange: object, now: float
    ) -> AlterConfigsResponse | Parked:
        if self.shared is None:
            return self.configs.alter_configs(request)
        return self._change(exchange, lambda topics: Configs(self.node_id, topics, self.release).alter_configs(request))

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, exchange: object, now: float
    ) -> IncrementalAlterConfigsResponse | Parked:
        if self.shared is None:
            return self.configs.incremental_alter_configs(request)
        return self._change(
            exchange, lambda topics: Configs(self.node_id, topics, self.release).incremental_alter_configs(request)
        )

    def coordinate_transactions(self, transactions: Transactions, groups: GroupService) -> None:
        """From now on there are transactions here; `groups` keeps the transactional ids of this broker."""
        self._transactions = TransactionRequests(self.node_id, self.topics, transactions, groups)
        self._views = TransactionViews(groups)
        self._produce.transactions = transactions
        transactions.on_verified = self._verified

    def update_features(
        self, request: UpdateFeaturesRequest, exchange: object, now: float
    ) -> UpdateFeaturesResponse | Parked:
        return self._change(exchange, lambda topics: features.update(self.release, topics, request))

    def init_producer_id(self, request: InitProducerIdRequest, now: float) -> InitProducerIdResponse:
        if request.transactional_id == "" or (request.producer_id == -1) != (request.producer_epoch == -1):
            return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
        if request.transactional_id is None:
            return InitProducerIdResponse(producer_id=next(self.topics.producer_ids), producer_epoch=0)
        if self._transactions is None:
            return InitProducerIdResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, producer_epoch=-1)
        return self._transactions.init_producer_id(request, now)

    def add_partitions_to_txn(self, request: AddPartitionsToTxnRequest, now: float) -> AddPartitionsToTxnResponse:
        if self._transactions is None:
            return add_partitions_to_txn.error(request, ErrorCode.UNSUPPORTED_VERSION)
        return self._transactions.add_partitions_to_txn(request, now)

    def add_offsets_to_txn(self, request: AddOffsetsToTxnRequest, now: float) -> AddOffsetsToTxnResponse:
        if self._transactions is None:
            return AddOffsetsToTxnResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return self._transactions.add_offsets_to_txn(request, now)

    def end_txn(self, request: EndTxnRequest, now: float, *, bumps_epoch: bool) -> EndTxnResponse:
        if self._transactions is None:
            return EndTxnResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return self._transactions.end_txn(request, now, bumps_epoch=bumps_epoch)

    def write_txn_markers(self, request: WriteTxnMarkersRequest, now: float) -> WriteTxnMarkersResponse:
        if self._transactions is None:
            return write_txn_markers.error(request, ErrorCode.UNSUPPORTED_VERSION)
        return self._transactions.write_txn_markers(request, now)

    def describe_transactions(self, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        if self._views is None:
            return describe_transactions.error(request, ErrorCode.UNSUPPORTED_VERSION)
        return self._views.describe(request)

    def list_transactions(self, request: ListTransactionsRequest, now: float) -> ListTransactionsResponse:
        if self._views is None:
            return list_transactions.error(request, ErrorCode.UNSUPPORTED_VERSION)
        return self._views.listed(request, now)

    def next_deadline(self) -> float:
        """When `expire` is due next, in seconds of the coordinator's clock; infinity if never."""
        # Every tick asks this: see `Ticks.next_deadline`.
        deadline = self._fetch.next_deadline()
        if self._clock_ahead is not None:
            deadline += self._clock_ahead()
        share = self.share.next_deadline()
        if share < deadline:
            deadline = share
        for upkeep in self._upkeep:
            if upkeep.due < deadline:
                deadline = upkeep.due
        return deadline

    def expire(self, now: float) -> None:
        """Answer the parked fetches whose wait is over, release records whose lock has run out, delete old ones and
        those that newer ones replace."""
        for upkeep in self._upkeep:
            if now >= upkeep.due:
                upkeep.look(now)
        self.share.expire(now)
        self._fetch.expire(now if self._clock_ahead is None else now - self._clock_ahead())

    def forget(self, exchange: object) -> None:
        """The connection of a parked request is gone; its reply has no receiver."""
        self._fetch.drop(exchange)
        self.share.drop(exchange)

    def disconnected(self, connection: object) -> None:
        """A connection is gone: records that a share session of it has acquired are available again."""
        self.share.disconnected(connection)

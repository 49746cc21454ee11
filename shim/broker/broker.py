"""One broker as its clients see it: all its APIs except those of groups.

Each part has the rules of a few APIs, and the table of requests calls it. `now` is an argument, so nothing here reads a
clock; `epoch_ms` turns it into ms since the epoch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Final, Protocol

from kafka_shim.apis.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafka_shim.apis.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafka_shim.apis.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kafka_shim.apis.produce import ProduceRequest, ProduceResponse
from kafka_shim.apis.profiles import FEATURES, PROFILES
from kafka_shim.apis.releases import DEFAULT_RELEASE, rules_of
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker import compaction, retention
from kafka_shim.broker.admin import features, quotas
from kafka_shim.broker.admin.changes import Change
from kafka_shim.broker.admin.configs import Configs
from kafka_shim.broker.admin.deletions import Deletions
from kafka_shim.broker.admin.quorum import LogDirs, Quorum
from kafka_shim.broker.admin.reassignments import Reassignments
from kafka_shim.broker.admin.topic_pages import TopicPages
from kafka_shim.broker.admin.topics import Admin, Mutations, Room
from kafka_shim.broker.admin.transaction_views import TransactionViews
from kafka_shim.broker.dead_letters import DeadLetters
from kafka_shim.broker.fetches import FetchApi
from kafka_shim.broker.metadata import MetadataApi
from kafka_shim.broker.offsets import Offsets
from kafka_shim.broker.produce import NO_ACKS, Entry, ProduceApi
from kafka_shim.broker.share_fetches import ShareFetchApi
from kafka_shim.broker.share_partitions import SharePartitions
from kafka_shim.broker.share_states import RemoteShareStates, ShareStateApi
from kafka_shim.broker.topics import Topics
from kafka_shim.broker.transaction_ends import TopicPartition
from kafka_shim.broker.transaction_requests import TransactionRequests
from kafka_shim.broker.transactions import Transactions, Waiting, WaitingBatches
from kafka_shim.broker.upkeep import Upkeep
from kafka_shim.groups.interface import PARKED, NoReply, Parked, TransactionSupportedOperation
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.service import GroupService
from kafka_shim.groups.share.persister import SharePersister
from kafka_shim.groups.streams.topology import InternalTopic

_LEGAL_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?\Z")


_DEAD_LETTER_LEVEL: Final = 2
"""The level of `share.version` that has dead letter queues."""


class AppliesToTopics(Protocol):
    """A change of topics or of their settings, which may be applied several times."""

    @property
    def apply(self) -> Callable[[Topics], Message]:
        """The function that changes the topics and returns the answer."""


class Shared(Protocol):
    """The way to change, and to see, topics and settings that several processes share."""

    looked_at: float
    """The begin of the newest look for changes of other processes, monotonic seconds."""

    def look(self, exchange: object) -> None:
        """Look for changes, apply them, and run the parked request `exchange` again."""

    def change(self, change: AppliesToTopics, exchange: object) -> None:
        """Make a change in all processes. The parked request `exchange`, unless None, gets the answer."""


class Repeated(Protocol):
    """A rule that is due from time to time, in seconds of the coordinator's clock; infinity while it has nothing to
    do."""

    @property
    def due(self) -> float: ...

    def look(self, now: float) -> None:
        """Apply the rule."""

    def written(self, now: float) -> None:
        """Note that a log has records."""


class Broker:
    """One broker: the parts with its rules, and the rules that need several parts. `now` is monotonic seconds.

    - `topics`: the cluster's topics, shared by all its brokers; `node_id` is this broker's id among `topics.nodes`.
    - `outbox`: takes the replies of parked fetches.
    - `transactions`: those of the process; `groups` keeps the transactional ids of this broker.
    - `new_id`: makes 16 random bytes.
    - `epoch_ms`: turns monotonic seconds into ms since the epoch.
    - `release`: the Kafka release that the broker poses as.
    - `shared`: None if the topics are this process's alone.
    - `clock_ahead()`: seconds by which a laboratory's clock, the source of `now`, is ahead of real time, which
      bounds the wait of fetches.
    - `share_states`: those of the process; None for states of this broker alone.
    - `more_apis`: advertised beside those of the release.
    """

    def __init__(
        self,
        node_id: int,
        topics: Topics,
        outbox: Outbox,
        transactions: Transactions,
        groups: GroupService,
        *,
        new_id: Callable[[], bytes],
        epoch_ms: Callable[[float], int],
        release: str = DEFAULT_RELEASE,
        shared: Shared | None = None,
        clock_ahead: Callable[[], float] | None = None,
        share_states: SharePersister | None = None,
        more_apis: Sequence[ApiVersion] = (),
    ) -> None:
        self.node_id = node_id
        self.topics = topics
        self.outbox = outbox
        self.release = release
        self.rules = rules_of(release)
        self.shared = shared
        self.configs = Configs(node_id, topics, release)
        self.metadata = MetadataApi(topics, outbox)
        self.pages = TopicPages(topics)
        self.fetches = FetchApi(node_id, topics, outbox, new_id, clock_ahead)
        self.offsets = Offsets(node_id, topics)
        self.deletions = Deletions(node_id, topics)
        self.reassignments = Reassignments(topics, movable=shared is None)
        self.log_dirs = LogDirs(node_id, topics)
        self.quorum = Quorum(topics, epoch_ms)
        self._more_apis = more_apis
        self._forbidden_features = features.forbidden(topics.settings)
        self._upkeep: list[Repeated] = [
            Upkeep(
                node_id, topics, epoch_ms, retention.CHECK_INTERVAL, topics.all, retention.delete_old, outbox.failed
            ),
            Upkeep(
                node_id, topics, epoch_ms, compaction.BACKOFF, topics.compacted_topics, compaction.clean, outbox.failed
            ),
        ]
        self._produce = ProduceApi(node_id, topics, transactions, epoch_ms)
        self.transactions = TransactionRequests(node_id, topics, transactions, groups)
        self.transaction_views = TransactionViews(groups)
        transactions.on_verified = self._verified
        share_persister = SharePersister() if share_states is None else share_states
        self.share_states = ShareStateApi(node_id, topics, share_persister, self.rules)
        self.remote_share_states: RemoteShareStates | None = None
        """States of groups of this process in partitions that other processes lead; None without such processes."""
        dead_letters = self._dead_letters(transactions, epoch_ms) if self.rules.dead_letter_queues else None
        share_partitions = SharePartitions(node_id, topics, outbox, share_persister, epoch_ms, self.rules, dead_letters)
        self.share = ShareFetchApi(node_id, topics, outbox, share_partitions, clock_ahead or (lambda: 0.0), self.rules)

    def _dead_letters(self, transactions: Transactions, epoch_ms: Callable[[float], int]) -> DeadLetters:
        """Return the writer of dead letters. Other brokers of this process lead partitions of a queue too."""

        def produce(leader: int, request: ProduceRequest, now: float) -> ProduceResponse:
            for upkeep in self._upkeep:
                upkeep.written(now)
            answer = ProduceApi(leader, self.topics, transactions, epoch_ms).produce(
                request,
                now,
                by_topic_id=False,
                zstd_allowed=True,
                with_leaders=False,
                supported_operation=TransactionSupportedOperation.DEFAULT_ERROR,
            )
            assert isinstance(answer, ProduceResponse)
            return answer

        def create(request: CreateTopicsRequest, now: float) -> str:
            (result,) = Admin(self.topics, self.release).create_topics(request, now).topics
            return (result.error_message or ErrorCode(result.error_code).name) if result.error_code else ""

        return DeadLetters(
            self.topics,
            produce,
            create if self.shared is None else None,
            lambda leader: self.shared is None or leader == self.node_id,
            epoch_ms,
            lambda: features.level(self.release, self.topics.settings, "share.version") >= _DEAD_LETTER_LEVEL,
        )

    def has_feature(self, name: str) -> bool:
        """Return True if the APIs of a feature are served: its level is not 0, and the settings allow its kind of
        groups."""
        changed = self.topics.settings.features.get(name)
        level = features.FINALIZED[self.release].get(name, 0) if changed is None else changed
        return level > 0 and name not in self._forbidden_features

    def api_versions(self, request: ApiVersionsRequest, *, has_software: bool) -> ApiVersionsResponse:
        """List the APIs and features. `has_software`: v3+ names the client's software.

        Errors: INVALID_REQUEST (42) if the software is malformed, or only one of cluster and node id is there;
        REBOOTSTRAP_REQUIRED (129) for the ids of another cluster or node (KIP-1242).
        """
        if has_software and not (
            _LEGAL_SOFTWARE.match(request.client_software_name)
            and _LEGAL_SOFTWARE.match(request.client_software_version)
        ):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        # Only requests of v5+, and so a release with this rule, have ids.
        if request.cluster_id is not None or request.node_id != -1:
            if request.cluster_id is None or request.node_id == -1:
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
            if (request.cluster_id, request.node_id) != (self.topics.cluster_id, self.node_id):
                return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        supported = FEATURES[self.release]
        levels = {each.name: features.level(self.release, self.topics.settings, each.name) for each in supported}
        response = ApiVersionsResponse(
            api_keys=[
                *(ApiVersion(key, *versions) for key, versions in PROFILES[self.release].items()),
                *self._more_apis,
            ],
            supported_features=[SupportedFeatureKey(each.name, each.lowest, each.highest) for each in supported],
            finalized_features=[FinalizedFeatureKey(name, level, level) for name, level in levels.items() if level],
        )
        if supported:
            response.finalized_features_epoch = self.topics.settings.features_epoch
        return response

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
        entry: Entry | None = None,
    ) -> ProduceResponse | NoReply | Parked:
        """Append batches, or park them until another process has verified their transaction. `by_topic_id`: v13+;
        `zstd_allowed`: v7+; `with_leaders`: v10+ (KIP-951). `entry`: this is a part of a request."""
        if entry is not None and entry.open:
            return self._produce.add_partitions(request, entry, now, by_topic_id=by_topic_id)
        verification = self._produce.verification(request, supported_operation, by_topic_id=by_topic_id)
        batches = WaitingBatches(exchange, request, by_topic_id, zstd_allowed, with_leaders, supported_operation)
        if verification is None:
            return self._append(batches, None, now)
        # The coordinator may have moved amid the parts of a request: they cannot wait.
        if not verification.topic_partitions or request.acks == NO_ACKS or entry is not None:
            return self._append(batches, {}, now)
        self.transactions.transactions.verify(verification, batches)
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
        """Go on with a request that another process has verified."""
        if isinstance(waiting, WaitingBatches):
            self.outbox.reply_at_once(waiting.exchange, self._append(waiting, errors, now))
        else:
            self.transactions.admitted(waiting, errors, now)

    def looks_first(self, exchange: object, now: float) -> bool:
        """Return False if the topics are those of all processes at `now`; if not, look first, and run the exchange
        again."""
        if self.shared is None or self.shared.looked_at >= now:
            return False
        self.shared.look(exchange)
        return True

    def change(
        self,
        request: Message,
        exchange: object,
        now: float,
        *,
        disabled_is_73: bool = False,
        mutations: Mutations | None = None,
        room: Room | None = None,
    ) -> Message | Parked:
        """Change topics or settings, or let all processes that share them do it. `disabled_is_73`: see
        `Admin.delete_topics`; `room`: see `Admin.create_partitions`."""
        change = Change(request, self.node_id, self.release, now, disabled_is_73, mutations, room)
        if self.shared is None:
            return change.apply(self.topics)
        self.shared.change(change, exchange)
        return PARKED

    def describe_quotas(self, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
        """See `quotas.describe`. The answer shows no quota that is not durable."""
        self.outbox.required_batch = max(self.outbox.required_batch, self.topics.batch)
        return quotas.describe(request, self.topics.settings)

    def create_internal_topics(self, topics: Iterable[InternalTopic], now: float) -> dict[str, str]:
        """Create the internal topics of a Kafka Streams application. Return the reason of each failure by topic name;
        empty if several processes share their topics, since the creation follows later."""
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
        response = self.change(request, None, now)
        if not isinstance(response, CreateTopicsResponse):
            return {}
        return {result.name: result.error_message or "" for result in response.topics if result.error_code}

    def next_deadline(self) -> float:
        """Return the time of the next `expire`, in seconds of the coordinator's clock; infinity if none is due."""
        # Every tick asks this: see `Ticks.next_deadline`.
        deadline = self.fetches.next_deadline() if self.fetches.deadlines else inf
        share = self.share.next_deadline()
        if share < deadline:
            deadline = share
        for upkeep in self._upkeep:
            if upkeep.due < deadline:
                deadline = upkeep.due
        return deadline

    def expire(self, now: float) -> None:
        """Answer the parked fetches after their wait, release records after their lock, and let retention and
        compaction remove records."""
        for upkeep in self._upkeep:
            if now >= upkeep.due:
                upkeep.look(now)
        self.share.expire(now)
        if self.fetches.deadlines:
            self.fetches.expire(now)

    def repeat(self, rule: Repeated) -> None:
        """Call a rule each time that it is due."""
        self._upkeep.append(rule)

    def forget(self, exchange: object) -> None:
        """Drop a parked request of a closed connection."""
        self.fetches.drop(exchange)
        self.share.drop(exchange)
        self.transaction_views.drop(exchange)

    def disconnected(self, connection: object) -> None:
        """End the share sessions of a connection: the records they have acquired are available again."""
        self.share.disconnected(connection)

"""Topics, their partitions and their leaders: the state that all brokers of a cluster share.

It checks names, assigns ids and replicas, and calls back on each change. One `Topics` serves all brokers of a process.
Leaders never change their epoch, so clients have nothing to check for truncation. Sources: Kafka's Topic class for
names; KRaft's ReplicationControlManager for refusals.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple, Protocol

from kafka_shim.apis.wire.errors import ErrorCode, fitting
from kafka_shim.broker.log import DEFAULT_LOG_BYTES, PartitionLog
from kafka_shim.broker.setting import as_list
from kafka_shim.broker.settings import Settings

OFFSETS_TOPIC: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})
MAX_NAME_LENGTH: Final = 249
MAX_PARTITIONS: Final = 10_000
"""The most new partitions of one request, as in Kafka's controller: a request could demand two thousand million."""
TOO_MANY_PARTITIONS: Final = "Excessively large number of partitions per request."

NO_ID: Final = bytes(16)

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")


class Node(NamedTuple):
    """One broker and its address for clients."""

    id: int
    host: str
    port: int
    rack: str | None = None


class TopicError(Exception):
    """The reason why a topic cannot be created or changed: the Kafka error and a sentence."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = None if message is None else fitting(message)


class Partition:
    """One partition: the node ids of its leader and of its replicas, the leader first unless moved, and its log.

    `begin_log()`, if not None, makes the log at its first read. It returns the error for the reader, 0 for none, and is
    called again until it becomes None.
    """

    __slots__ = ("begin_log", "index", "leader", "log", "replicas")

    def __init__(self, index: int, replicas: Sequence[int], log: PartitionLog) -> None:
        self.index = index
        self.leader = replicas[0]
        self.replicas = list(replicas)
        self.log = log
        self.begin_log: Callable[[], int] | None = None


class Topic:
    """One topic. `configs` has its own values."""

    __slots__ = (
        "configs",
        "id",
        "log_append_time",
        "max_message_bytes",
        "name",
        "partitions",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
    )

    def __init__(self, name: str, id: bytes) -> None:
        self.name = name
        self.id = id
        self.partitions: list[Partition] = []
        self.configs: dict[str, str] = {}
        self.max_message_bytes = 0
        self.log_append_time = False
        self.timestamp_before_max_ms = self.timestamp_after_max_ms = 0

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class Woken(Protocol):
    """An object with requests that wait for changes of logs."""

    def settle(self, now: float) -> None:
        """Answer those of them that need not wait any longer."""


class Topics:
    """All topics of the cluster.

    - `cluster_id` is sent to clients; `new_id` makes topic ids, 16 random bytes; `log_bytes` bounds the log of each
      partition.
    - `producer_ids` begin at an arbitrary number, so that a producer from before a restart has the id of no new one.
    - `revision` grows with every change of topics or leaders; then a remembered partition must be looked up again.
    - `on_topic_changed(name)` is called after a topic was created or has grown, `on_topic_configured(name)` after its
      settings have changed, `on_topic_deleted(name, id)` after its deletion.
    - `on_settings_applied()` is called after values that clients have set for brokers were applied.
    - `woken` has those that wait for logs, if these have changed since the last `settle`.
    - `offsets_owner(index)` returns the node that coordinates the groups of a partition of `__consumer_offsets`, and so
      leads it; without it leaders go round. `offsets_topic_id`, if not None, is the id of that topic at each
      start and in every process.
    - `make_later(name)` creates a topic for a client's request, where several processes share the topics.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        settings: Settings,
        new_id: Callable[[], bytes],
        log_bytes: int = DEFAULT_LOG_BYTES,
        *,
        cluster_id: str = "",
        offsets_owner: Callable[[int], int] | None = None,
        offsets_topic_id: bytes | None = None,
        make_later: Callable[[str], None] | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.offsets_owner = offsets_owner
        self.offsets_topic_id = offsets_topic_id
        self.make_later = make_later
        self.nodes: dict[int, Node] = {node.id: node for node in nodes}
        self.settings = settings
        self.revision = 0
        self._compacted: set[str] = set()
        # The first of a dict is found past all that have gone before it.
        self.woken: OrderedDict[Woken, None] = OrderedDict()
        self._is_settling = False
        self.on_topic_changed: list[Callable[[str], None]] = []
        self.on_topic_configured: list[Callable[[str], None]] = []
        self.on_topic_deleted: list[Callable[[str, bytes], None]] = []
        self.on_settings_applied: list[Callable[[], None]] = []
        self.batch = 0
        """The newest batch of the store with a record of a topic, if the store keeps topics."""
        self.max_batch_bytes = 0
        """`max.message.bytes` of `__consumer_offsets`."""
        self.producer_ids = count(int.from_bytes(new_id()[-5:], "big"))
        self.new_id = new_id
        self._log_bytes = log_bytes
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._collisions: dict[str, str] = {}
        self._next_node = 0
        self.apply_all_settings()

    def settle(self, now: float) -> None:
        """Answer the requests that wait for changed logs. Every change of logs ends with this call.

        An answer may change logs itself: the call that is under way goes on with those that wait for them.
        """
        if self._is_settling or not self.woken:
            return
        self._is_settling = True
        try:
            while self.woken:
                self.woken.popitem(last=False)[0].settle(now)
        finally:
            self._is_settling = False

    def controller_id(self) -> int:
        """The node that Metadata names as controller; -1 without one."""
        return min(self.nodes, default=-1)

    def named(self, name: str | None) -> Topic | None:
        return self._by_name.get(name) if name is not None else None

    def with_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def all(self) -> list[Topic]:
        return list(self._by_name.values())

    def compacted_topics(self) -> list[Topic]:
        """Return the compacted topics whose records are in their logs."""
        return [self._by_name[name] for name in sorted(self._compacted)]

    # As groups see them: `TopicCatalogue` of `shim/groups/shard.py`

    def names(self) -> list[str]:
        return list(self._by_name)

    def partitions_of(self, topic: str) -> int:
        known_topic = self._by_name.get(topic)
        return 0 if known_topic is None else len(known_topic.partitions)

    def topic_id(self, topic: str) -> bytes | None:
        known_topic = self._by_name.get(topic)
        return None if known_topic is None else known_topic.id

    def topic_name(self, topic_id: bytes) -> str | None:
        known_topic = self._by_id.get(topic_id)
        return None if known_topic is None else known_topic.name

    def check_new(self, name: str) -> None:
        """Check that a topic of this name can be created. Raises TopicError: TOPIC_ALREADY_EXISTS (36),
        INVALID_TOPIC_EXCEPTION (17) also if the name differs from an existing one only by `.` and `_`."""
        if (refusal := name_refusal(name)) is not None:
            raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, refusal)
        if name in self._by_name:
            raise TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = self._collisions.get(name.replace(".", "_"))
        if other is not None:
            raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")

    def placed(self, partitions: int, replication_factor: int) -> list[list[int]]:
        """Return the replicas of `partitions` new partitions: leaders go round the nodes, followers are the next nodes.

        Raises TopicError: INVALID_PARTITIONS (37), INVALID_REPLICATION_FACTOR (38). -1 means the default.
        """
        if partitions == -1:
            partitions = self.settings.number("num.partitions")
        if replication_factor == -1:
            replication_factor = min(self.settings.number("default.replication.factor"), len(self.nodes))
        if replication_factor <= 0:
            raise TopicError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if partitions > MAX_PARTITIONS:
            raise TopicError(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
        if partitions <= 0:
            raise TopicError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        if replication_factor > len(self.nodes):
            raise TopicError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replication_factor} time(s): "
                f"The target replication factor of {replication_factor} cannot be reached because only "
                f"{len(self.nodes)} broker(s) are registered.",
            )
        return self.around(partitions, replication_factor)

    def around(self, partitions: int, replication_factor: int) -> list[list[int]]:
        """Return replicas for `partitions` partitions, going round the nodes; no more of each than there are nodes."""
        ids = list(self.nodes)
        first = self._next_node
        replication_factor = min(replication_factor, len(ids))
        return [
            [ids[(first + index + replica) % len(ids)] for replica in range(replication_factor)]
            for index in range(partitions)
        ]

    def check_replicas(self, assignments: Sequence[Sequence[int]]) -> None:
        """Check the replicas. Raises TopicError with INVALID_REPLICA_ASSIGNMENT (39)."""
        for replicas in assignments:
            if not replicas:
                refusal = "The manual partition assignment includes an empty replica list."
            elif len(set(replicas)) < len(replicas):
                repeated = next(each for each, times in Counter(replicas).items() if times > 1)
                refusal = f"The manual partition assignment includes the broker {repeated} more than once."
            elif unknown := set(replicas) - self.nodes.keys():
                refusal = (
                    f"The manual partition assignment includes broker {min(unknown)}, but no such broker is registered."
                )
            elif len(replicas) != len(assignments[0]):
                refusal = (
                    f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this "
                    f"is not consistent with previous partitions, which have {len(assignments[0])} replica(s)."
                )
            else:
                continue
            raise TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, refusal)

    def create(
        self,
        name: str,
        assignments: Sequence[Sequence[int]],
        configs: Mapping[str, str] | None = None,
        *,
        id: bytes | None = None,
    ) -> Topic:
        """Create a topic with one partition per list of replicas, and `id` or a new id.

        Raises TopicError as `check_new` does.
        """
        self.check_new(name)
        topic = Topic(name, self.new_id() if id is None else id)
        self._by_name[name] = self._by_id[topic.id] = topic
        self._collisions[name.replace(".", "_")] = name
        topic.configs = dict(configs or {})
        self.apply_settings(topic)
        self.grow(topic, assignments)
        return topic

    def declare(self, name: str, partitions: int = -1, *, id: bytes | None = None) -> Topic:
        """Create a topic with the broker's defaults, and `id` or a new id. Raises TopicError."""
        return self.create(name, self.placed(partitions, -1), id=id)

    def auto_create(self, name: str) -> None:
        """Create a topic for a client's request; with `make_later` the creation follows after the return. Raises
        TopicError."""
        if name == OFFSETS_TOPIC:
            self.ensure_offsets_topic()
        elif self.make_later is None:
            self.declare(name)
        else:
            self.check_new(name)
            self.make_later(name)

    def ensure_offsets_topic(self) -> Topic:
        """Return `__consumer_offsets`, created if necessary; its logs are made of the coordinator's records."""
        topic = self._by_name.get(OFFSETS_TOPIC)
        if topic is None:
            partitions = self.settings.number("offsets.topic.num.partitions")
            replication_factor = min(self.settings.number("offsets.topic.replication.factor"), len(self.nodes))
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": self.settings.text("offsets.topic.segment.bytes"),
            }
            placed = self.placed(partitions, replication_factor)
            topic = self.create(OFFSETS_TOPIC, placed, configs, id=self.offsets_topic_id)
        return topic

    def grow(self, topic: Topic, assignments: Sequence[Sequence[int]]) -> None:
        """Add one partition per list of replicas."""
        limit = self._limit(topic)
        for replicas in assignments:
            index = len(topic.partitions)
            topic.partitions.append(Partition(index, replicas, PartitionLog(limit)))
            if topic.name == OFFSETS_TOPIC and self.offsets_owner is not None:
                self.lead(topic, index, self.offsets_owner(index))
        self._next_node = (self._next_node + len(assignments)) % len(self.nodes)
        self.revision += 1
        for tell in self.on_topic_changed:
            tell(topic.name)

    def shrink(self, topic: Topic, partitions: int) -> None:
        """Remove the newest partitions down to this number, to undo a growth."""
        removed = topic.partitions[partitions:]
        del topic.partitions[partitions:]
        self.revision += 1
        for partition in removed:
            partition.log.clear()
        for tell in self.on_topic_changed:
            tell(topic.name)

    def delete(self, topic: Topic) -> None:
        """Delete a topic and its logs, and wake the fetches that wait for it."""
        del self._by_name[topic.name], self._by_id[topic.id], self._collisions[topic.name.replace(".", "_")]
        self._compacted.discard(topic.name)
        if topic.name == OFFSETS_TOPIC:
            self.apply_all_settings()
        self.revision += 1
        for partition in topic.partitions:
            partition.log.clear()
        for tell in self.on_topic_deleted:
            tell(topic.name, topic.id)

    def configure(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Replace the settings of a topic by these, which must be valid."""
        topic.configs = dict(configs)
        self.apply_settings(topic)
        for tell in self.on_topic_configured:
            tell(topic.name)

    def apply_settings(self, topic: Topic) -> None:
        """Apply the values that are in force for a topic to it."""
        value = self.settings.topic_text
        topic.max_message_bytes = int(value("max.message.bytes", topic.configs))
        topic.log_append_time = value("message.timestamp.type", topic.configs) == "LogAppendTime"
        topic.timestamp_before_max_ms = int(value("message.timestamp.before.max.ms", topic.configs))
        topic.timestamp_after_max_ms = int(value("message.timestamp.after.max.ms", topic.configs))
        is_compacted = "compact" in as_list(value("cleanup.policy", topic.configs)) and not topic.is_internal
        (self._compacted.add if is_compacted else self._compacted.discard)(topic.name)
        limit = self._limit(topic)
        for partition in topic.partitions:
            partition.log.limit = limit
        if topic.name == OFFSETS_TOPIC:
            self.max_batch_bytes = topic.max_message_bytes

    def apply_all_settings(self) -> None:
        """Apply the values that are in force to every topic."""
        self.max_batch_bytes = int(self.settings.topic_text("max.message.bytes", {}))
        for topic in self._by_name.values():
            self.apply_settings(topic)
        for tell in self.on_settings_applied:
            tell()

    def lead(self, topic: Topic, index: int, node_id: int, replicas: Sequence[int] = ()) -> None:
        """Make a node the leader of a partition, and `replicas`, unless empty, its replicas."""
        partition = topic.partitions[index]
        if replicas:
            partition.replicas = list(replicas)
        elif node_id not in partition.replicas:
            partition.replicas = [node_id, *partition.replicas[1:]]
        partition.leader = node_id
        self.revision += 1
        partition.log.tell()

    def _limit(self, topic: Topic) -> int:
        if topic.name == OFFSETS_TOPIC:
            # Compaction bounds it: no group may lose a record.
            return sys.maxsize
        retention = int(self.settings.topic_text("retention.bytes", topic.configs))
        return self._log_bytes if retention < 0 else min(retention, self._log_bytes)


def streams_refusal(names: Sequence[str]) -> str | None:
    """Return the reason why a Kafka Streams application cannot use these topics, in Kafka's words, or None."""
    if prohibited := [name for name in names if name in INTERNAL_TOPICS]:
        return f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
    if illegal := [name for name in names if name_refusal(name) is not None]:
        return f"Topic names {','.join(illegal)} are not valid topic names."
    return None


def name_refusal(name: str) -> str | None:
    """Return the reason why a topic name is illegal, in Kafka's words, or None."""
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        why = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _LEGAL_NAME.match(name):
        why = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {why}"

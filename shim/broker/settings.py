"""Configuration values by Kafka's names: type, default, bounds, and the broker setting behind a topic's default.

These are all names that Kafka 4.2 to 4.4 describe, compared with running ones by
`tests/conformance/test_settings_of_kafka.py`; those without any effect here are in `unused_settings.py`. `configs.py`
describes and changes them, `meanings.py` explains them. Sources: the answers of a running Kafka 4.2.2 and 4.4.0;
semantics 6.2 for groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from kafka_shim.apis.releases import DEFAULT_RULES, Rules
from kafka_shim.apis.similar import similar_name
from kafka_shim.broker.offset_reset import offset_reset
from kafka_shim.broker.setting import MAX_INT, MAX_LONG, ConfigType, Setting, as_list
from kafka_shim.broker.unused_settings import unused_settings
from kafka_shim.groups.config import NAMES


def _table(settings: Iterable[Setting]) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


_BOOLEAN, _STRING, _INT, _SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST

_COMPRESSION: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
_NO_LIMIT: Final = str(MAX_LONG)
_QUEUES: Final = "dead_letter_queues"
_NEW_IN_4_4: Final = "late_remote_copies"

TOPIC_SETTINGS: Final = _table(
    [
        Setting("cleanup.policy", _LIST, "delete", choices=("compact", "delete"), synonym="log.cleanup.policy"),
        Setting("compression.gzip.level", _INT, "-1", -1, 9, synonym="compression.gzip.level"),
        Setting("compression.lz4.level", _INT, "9", 1, 17, synonym="compression.lz4.level"),
        Setting("compression.type", _STRING, "producer", choices=_COMPRESSION, synonym="compression.type"),
        Setting("compression.zstd.level", _INT, "3", -131072, 22, synonym="compression.zstd.level"),
        Setting("delete.retention.ms", _LONG, "86400000", 0, synonym="log.cleaner.delete.retention.ms"),
        Setting("errors.deadletterqueue.group.enable", _BOOLEAN, "false", rule=_QUEUES),
        Setting("file.delete.delay.ms", _LONG, "60000", 0, synonym="log.segment.delete.delay.ms"),
        Setting("flush.messages", _LONG, _NO_LIMIT, 1, synonym="log.flush.interval.messages"),
        Setting("flush.ms", _LONG, _NO_LIMIT, 0, synonym="log.flush.interval.ms"),
        Setting("follower.replication.throttled.replicas", _LIST, ""),
        Setting("index.interval.bytes", _INT, "4096", 0, synonym="log.index.interval.bytes"),
        Setting("leader.replication.throttled.replicas", _LIST, ""),
        Setting("local.retention.bytes", _LONG, "-2", -2, synonym="log.local.retention.bytes"),
        Setting("local.retention.ms", _LONG, "-2", -2, synonym="log.local.retention.ms"),
        Setting("max.compaction.lag.ms", _LONG, _NO_LIMIT, 1, synonym="log.cleaner.max.compaction.lag.ms"),
        Setting(
            "max.decompressed.message.bytes",
            _INT,
            "2147483639",
            1,
            2_147_483_639,
            synonym="max.decompressed.message.bytes",
        ),
        Setting("max.message.bytes", _INT, "1048588", 0, synonym="message.max.bytes"),
        Setting("message.timestamp.after.max.ms", _LONG, "3600000", 0, synonym="log.message.timestamp.after.max.ms"),
        Setting("message.timestamp.before.max.ms", _LONG, _NO_LIMIT, 0, synonym="log.message.timestamp.before.max.ms"),
        Setting(
            "message.timestamp.type",
            _STRING,
            "CreateTime",
            choices=_TIMESTAMP_TYPES,
            synonym="log.message.timestamp.type",
        ),
        Setting("min.cleanable.dirty.ratio", _DOUBLE, "0.5", 0, 1, synonym="log.cleaner.min.cleanable.ratio"),
        Setting("min.compaction.lag.ms", _LONG, "0", 0, synonym="log.cleaner.min.compaction.lag.ms"),
        Setting("min.insync.replicas", _INT, "1", 1, synonym="min.insync.replicas"),
        Setting("preallocate", _BOOLEAN, "false", synonym="log.preallocate"),
        Setting("remote.copy.lag.bytes", _LONG, "-1", -1, synonym="log.remote.copy.lag.bytes", rule=_NEW_IN_4_4),
        Setting("remote.copy.lag.ms", _LONG, "0", -1, synonym="log.remote.copy.lag.ms", rule=_NEW_IN_4_4),
        Setting("remote.log.copy.disable", _BOOLEAN, "false"),
        Setting("remote.log.delete.on.disable", _BOOLEAN, "false"),
        Setting("remote.storage.enable", _BOOLEAN, "false"),
        Setting("retention.bytes", _LONG, "-1", synonym="log.retention.bytes"),
        Setting("retention.ms", _LONG, "604800000", -1, synonym="log.retention.ms"),
        Setting("segment.bytes", _INT, "1073741824", 1048576, synonym="log.segment.bytes"),
        Setting("segment.index.bytes", _INT, "10485760", 4, synonym="log.index.size.max.bytes"),
        Setting("segment.jitter.ms", _LONG, "0", 0, synonym="log.roll.jitter.ms"),
        Setting("segment.ms", _LONG, "604800000", 1, synonym="log.roll.ms"),
        Setting("unclean.leader.election.enable", _BOOLEAN, "false", synonym="unclean.leader.election.enable"),
    ]
)

IN_OTHER_UNITS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
}
"""Broker settings without a default: the settings that are in force instead, each with the factor from its unit."""

_BATCHED: Final = "batched_assignments"
_BY_GROUP: Final = "share_limits_by_group"
_OFFSETS: Final = "task_offsets"
_ASSIGNOR: Final = "chosen_assignor"
_TAGS: Final = "client_tags_required"
_OFFLOAD: Final = "assignor_offload"
DESCRIPTIONS_IN_MEMORY: Final = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
"""The plugin that keeps topology descriptions of streams groups in memory; there is no other."""


_INTERVAL: Final = "assignment.interval.ms"


def _interval(group_type: str) -> list[Setting]:
    """Return the assignment interval of a kind of groups, and its bounds."""
    names = {"": "1000", "min.": "0", "max.": "15000"}
    return [
        Setting(f"group.{group_type}.{bound}{_INTERVAL}", _INT, default, 0, dynamic=not bound, rule=_BATCHED)
        for bound, default in names.items()
    ]


def _offload(group_type: str) -> Setting:
    """Return the setting of computations in threads. Kafka 4.4 takes it and reads it nowhere."""
    name = f"group.{group_type}.assignor.offload.enable"
    return Setting(name, _BOOLEAN, "true", internal=True, rule=_OFFLOAD)


def _internal(name: str, type: ConfigType, default: str, least: int) -> Setting:
    """Return an internal setting of streams groups, about the offsets of their tasks."""
    return Setting(name, type, default, least, dynamic=False, internal=True, rule=_OFFSETS)


BROKER_SETTINGS: Final = _table(
    [
        Setting("auto.create.topics.enable", _BOOLEAN, "true", dynamic=False),
        Setting("log.cleaner.backoff.ms", _LONG, "15000"),
        Setting("controller.quota.window.num", _INT, "11", 1, dynamic=False),
        Setting("controller.quota.window.size.seconds", _INT, "1", 1, dynamic=False),
        Setting("quota.window.num", _INT, "11", 1, dynamic=False),
        Setting("quota.window.size.seconds", _INT, "1", 1, dynamic=False),
        Setting("connections.max.idle.ms", _LONG, "600000", dynamic=False),
        Setting("default.replication.factor", _INT, "1", 1, dynamic=False),
        Setting("delete.topic.enable", _BOOLEAN, "true", dynamic=False),
        Setting("errors.deadletterqueue.auto.create.topics.enable", _BOOLEAN, "false", rule=_QUEUES),
        Setting("errors.deadletterqueue.topic.name.prefix", _STRING, "dlq.", rule=_QUEUES),
        Setting("fetch.max.bytes", _INT, "57671680", 1024, dynamic=False),
        Setting("log.flush.scheduler.interval.ms", _LONG, _NO_LIMIT, dynamic=False),
        Setting("log.retention.check.interval.ms", _LONG, "300000", 1, dynamic=False),
        Setting("log.retention.hours", _INT, "168", dynamic=False),
        Setting("log.retention.minutes", _INT, None, dynamic=False),
        Setting("log.roll.hours", _INT, "168", 1, dynamic=False),
        Setting("log.roll.jitter.hours", _INT, "0", 0, dynamic=False),
        Setting("max.connection.creation.rate", _INT, "2147483647"),
        Setting("max.connections", _INT, "2147483647", 0),
        Setting("max.connections.per.ip", _INT, "2147483647", 0),
        Setting("max.connections.per.ip.overrides", _STRING, ""),
        Setting("max.request.partition.size.limit", _INT, "2000", 1, dynamic=False),
        *_interval("consumer"),
        _offload("consumer"),
        Setting("group.consumer.assignors", _LIST, "uniform,range", dynamic=False),
        Setting("group.consumer.heartbeat.interval.ms", _INT, "5000", 1, dynamic=False),
        Setting("group.consumer.max.heartbeat.interval.ms", _INT, "15000", 1, dynamic=False),
        Setting("group.consumer.max.session.timeout.ms", _INT, "60000", 1, dynamic=False),
        Setting("group.consumer.max.size", _INT, str(MAX_INT), 1, dynamic=False),
        Setting(
            "group.consumer.migration.policy",
            _STRING,
            "bidirectional",
            choices=("bidirectional", "upgrade", "downgrade", "disabled"),
            dynamic=False,
        ),
        Setting("group.consumer.min.heartbeat.interval.ms", _INT, "5000", 1, dynamic=False),
        Setting("group.consumer.min.session.timeout.ms", _INT, "45000", 1, dynamic=False),
        Setting("group.consumer.regex.refresh.interval.ms", _INT, "600000", 10000, dynamic=False, internal=True),
        Setting("group.consumer.session.timeout.ms", _INT, "45000", 1, dynamic=False),
        Setting(
            "group.coordinator.rebalance.protocols",
            _LIST,
            "classic,consumer,streams",
            choices=("classic", "consumer", "share", "streams"),
            dynamic=False,
        ),
        Setting("group.initial.rebalance.delay.ms", _INT, "3000", dynamic=False),
        Setting("group.max.session.timeout.ms", _INT, "1800000", dynamic=False),
        Setting("group.max.size", _INT, str(MAX_INT), 1, dynamic=False),
        Setting("group.min.session.timeout.ms", _INT, "6000", dynamic=False),
        *_interval("share"),
        _offload("share"),
        Setting("group.share.delivery.count.limit", _INT, "5", 2, 10, dynamic=False),
        Setting("group.share.heartbeat.interval.ms", _INT, "5000", 1, dynamic=False),
        Setting("group.share.max.delivery.count.limit", _INT, "10", 5, 25, dynamic=False, rule=_BY_GROUP),
        Setting("group.share.max.heartbeat.interval.ms", _INT, "15000", 1, dynamic=False),
        Setting("group.share.max.partition.max.record.locks", _INT, "4000", 2000, 10000, dynamic=False, rule=_BY_GROUP),
        Setting("group.share.max.record.lock.duration.ms", _INT, "60000", 30000, dynamic=False),
        Setting("group.share.max.session.timeout.ms", _INT, "60000", 1, dynamic=False),
        Setting("group.share.max.share.sessions", _INT, "2000", 1, dynamic=False),
        Setting("group.share.max.size", _INT, "200", 1, 1000, dynamic=False),
        Setting("group.share.min.delivery.count.limit", _INT, "2", 2, 5, dynamic=False, rule=_BY_GROUP),
        Setting("group.share.min.heartbeat.interval.ms", _INT, "5000", 1, dynamic=False),
        Setting("group.share.min.partition.max.record.locks", _INT, "100", 100, 2000, dynamic=False, rule=_BY_GROUP),
        Setting("group.share.min.record.lock.duration.ms", _INT, "15000", 1000, dynamic=False),
        Setting("group.share.min.session.timeout.ms", _INT, "45000", 1, dynamic=False),
        Setting("group.share.partition.max.record.locks", _INT, "2000", 100, 10000, dynamic=False),
        Setting("group.share.record.lock.duration.ms", _INT, "30000", 1000, dynamic=False),
        Setting("group.share.session.timeout.ms", _INT, "45000", 1, dynamic=False),
        *_interval("streams"),
        _offload("streams"),
        Setting(
            "group.streams.acceptable.recovery.lag", _LONG, "10000", 0, dynamic=False, internal=True, rule=_OFFSETS
        ),
        Setting("group.streams.assignors", _LIST, "sticky", choices=("sticky",), dynamic=False, rule=_ASSIGNOR),
        Setting("group.streams.heartbeat.interval.ms", _INT, "5000", 1, dynamic=False),
        Setting("group.streams.initial.rebalance.delay.ms", _INT, "3000", 0, dynamic=False),
        Setting("group.streams.max.heartbeat.interval.ms", _INT, "15000", 1, dynamic=False),
        Setting("group.streams.max.session.timeout.ms", _INT, "60000", 1, dynamic=False),
        Setting("group.streams.max.size", _INT, str(MAX_INT), 1, dynamic=False),
        Setting("group.streams.max.standby.replicas", _INT, "2", 0, dynamic=False),
        _internal("group.streams.max.warmup.replicas", _INT, "20", 0),
        Setting("group.streams.min.heartbeat.interval.ms", _INT, "5000", 1, dynamic=False),
        Setting("group.streams.min.session.timeout.ms", _INT, "45000", 1, dynamic=False),
        Setting(
            "group.streams.min.task.offset.interval.ms", _INT, "15000", 1, dynamic=False, internal=True, rule=_OFFSETS
        ),
        Setting("group.streams.num.standby.replicas", _INT, "0", 0, dynamic=False),
        _internal("group.streams.num.warmup.replicas", _INT, "2", 0),
        Setting("group.streams.rack.aware.assignment.tags", _LIST, "", dynamic=False, rule=_TAGS),
        Setting("group.streams.session.timeout.ms", _INT, "45000", 1, dynamic=False),
        _internal("group.streams.task.offset.interval.ms", _INT, "60000", 1),
        Setting(
            "group.streams.topology.description.plugin.class",
            ConfigType.CLASS,
            None,
            choices=(DESCRIPTIONS_IN_MEMORY,),
            dynamic=False,
            rule="topology_descriptions",
        ),
        Setting("max.incremental.fetch.session.cache.slots", _INT, "1000", 0, dynamic=False),
        Setting("num.partitions", _INT, "1", 1, dynamic=False),
        Setting("offset.metadata.max.bytes", _INT, "4096", dynamic=False),
        Setting("offsets.commit.timeout.ms", _INT, "5000", 1, dynamic=False),
        Setting("offsets.retention.check.interval.ms", _LONG, "600000", 1, dynamic=False),
        Setting("offsets.retention.minutes", _INT, "10080", 1, dynamic=False),
        Setting("offsets.topic.num.partitions", _INT, "50", 1, dynamic=False),
        Setting("offsets.topic.replication.factor", _SHORT, "3", 1, dynamic=False),
        Setting("offsets.topic.segment.bytes", _INT, "104857600", 1, dynamic=False),
        Setting("transaction.max.timeout.ms", _INT, "900000", 1, dynamic=False),
        Setting("transactional.id.expiration.ms", _INT, "604800000", 1, dynamic=False),
        *(
            topic._replace(
                name=topic.synonym, synonym="", default=None if topic.synonym in IN_OTHER_UNITS else topic.default
            )
            for topic in TOPIC_SETTINGS.values()
            if topic.synonym
        ),
        *unused_settings(),
    ]
)


OFFSET_RESET: Final = "share.auto.offset.reset"
DEAD_LETTER_QUEUE: Final = "errors.deadletterqueue.topic.name"
TASK_ASSIGNOR: Final = "streams.assignor.name"
CLIENT_TAGS: Final = "streams.rack.aware.assignment.tags"


class GroupSetting(NamedTuple):
    """A group's configuration name, and the broker settings that bound its number."""

    setting: Setting
    least: str = ""
    most: str = ""


def _offload_of_group(group_type: str) -> GroupSetting:
    of_broker = _offload(group_type)
    return GroupSetting(of_broker._replace(name=of_broker.name.removeprefix("group."), synonym=of_broker.name))


def _bounded(group_type: str, what: str, *, least: int = 1, rule: str = "") -> GroupSetting:
    broker = f"group.{group_type}."
    default = BROKER_SETTINGS[broker + what].default
    setting = Setting(f"{group_type}.{what}", _INT, default, least, synonym=broker + what, rule=rule)
    return GroupSetting(setting, f"{broker}min.{what}", f"{broker}max.{what}")


GROUP_SETTINGS: Final = {
    each.setting.name: each
    for each in [
        _bounded("consumer", "assignment.interval.ms", least=0, rule=_BATCHED),
        _offload_of_group("consumer"),
        _bounded("consumer", "heartbeat.interval.ms"),
        _bounded("consumer", "session.timeout.ms"),
        GroupSetting(Setting("errors.deadletterqueue.copy.record.enable", _BOOLEAN, "false", rule=_QUEUES)),
        GroupSetting(Setting(DEAD_LETTER_QUEUE, _STRING, "", rule=_QUEUES)),
        _bounded("share", "assignment.interval.ms", least=0, rule=_BATCHED),
        _offload_of_group("share"),
        GroupSetting(Setting(OFFSET_RESET, _STRING, "latest")),
        _bounded("share", "delivery.count.limit", least=2, rule=_BY_GROUP),
        _bounded("share", "heartbeat.interval.ms"),
        GroupSetting(
            Setting(
                "share.isolation.level", _STRING, "read_uncommitted", choices=("read_committed", "read_uncommitted")
            )
        ),
        _bounded("share", "partition.max.record.locks", least=100, rule=_BY_GROUP),
        _bounded("share", "record.lock.duration.ms"),
        GroupSetting(Setting("share.renew.acknowledge.enable", _BOOLEAN, "true", rule=_BY_GROUP)),
        _bounded("share", "session.timeout.ms"),
        GroupSetting(
            _internal("streams.acceptable.recovery.lag", _LONG, "10000", 0)._replace(
                dynamic=True, synonym="group.streams.acceptable.recovery.lag"
            )
        ),
        _bounded("streams", "assignment.interval.ms", least=0, rule=_BATCHED),
        _offload_of_group("streams"),
        GroupSetting(Setting(TASK_ASSIGNOR, _STRING, "sticky", synonym="group.streams.assignors", rule=_ASSIGNOR)),
        _bounded("streams", "heartbeat.interval.ms"),
        GroupSetting(
            Setting(
                "streams.initial.rebalance.delay.ms",
                _INT,
                "3000",
                0,
                synonym="group.streams.initial.rebalance.delay.ms",
            )
        ),
        GroupSetting(
            Setting("streams.num.standby.replicas", _INT, "0", 0, synonym="group.streams.num.standby.replicas"),
            most="group.streams.max.standby.replicas",
        ),
        GroupSetting(
            _internal("streams.num.warmup.replicas", _INT, "2", 0)._replace(
                dynamic=True, synonym="group.streams.num.warmup.replicas"
            ),
            most="group.streams.max.warmup.replicas",
        ),
        GroupSetting(Setting(CLIENT_TAGS, _LIST, "", synonym="group.streams.rack.aware.assignment.tags", rule=_TAGS)),
        _bounded("streams", "session.timeout.ms"),
        GroupSetting(
            _internal("streams.task.offset.interval.ms", _INT, "60000", 1)._replace(
                dynamic=True, synonym="group.streams.task.offset.interval.ms"
            ),
            least="group.streams.min.task.offset.interval.ms",
        ),
    ]
}


class Format(NamedTuple):
    """The release that a store was last opened as, and the id of its cluster."""

    release: str
    cluster_id: str


Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""The types and names of a client with a quota, sorted by type; None is the default of the type."""
Quotas: TypeAlias = Mapping[Entity, Mapping[str, float]]
"""The quotas of each entity, by name."""


class Settings:
    """The values in force: defaults, values from the command line, and values that clients have set while the broker
    runs, for it or for a group.

    Clients set `altered` for all brokers, and `altered_of` by node id for one of them. The other brokers of a process
    obey the latter too, because they share their topics. Raises ValueError for a value that its setting refuses, or one
    beyond the bounds that other settings give it. Names that are not the broker's are kept and ignored: the same
    command line configures groups and server too.
    """

    def __init__(self, static: Mapping[str, str] | None = None) -> None:
        self.static: dict[str, str] = dict(static or {})
        self.altered: dict[str, str] = {}
        self.altered_of: dict[int, dict[str, str]] = {}
        self.groups: dict[str, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        """Finalized levels of features that clients have changed; `features_epoch` counts their changes."""
        self.features_epoch = 0
        self.format: Format | None = None
        """None where the store ends with the process."""
        self.acls: tuple[tuple[Any, ...], ...] = ()
        """The ACLs, which an authorizer reads and changes."""
        self.scram: tuple[tuple[Any, ...], ...] = ()
        """The credentials of users that administrators have set."""
        self.tokens: Mapping[str, tuple[Any, ...]] = {}
        """The delegation tokens by id, without their HMACs: another object after each change."""
        self.quotas: Quotas = {}
        """The quotas that administrators have set: another object after each change."""
        self.on_changed: list[Callable[[], None]] = []
        """Called after a client has changed any of these, except values of groups."""
        self.on_group_changed: list[Callable[[str], None]] = []
        """Called with a group id after a client has changed the values of this group."""
        self.on_quotas: list[Callable[[], None]] = []
        """Called after the quotas have changed, by a client of this process or of another."""
        for name, value in self.static.items():
            setting = BROKER_SETTINGS.get(name)
            if setting is not None and (refusal := setting.refusal(value)) is not None:
                raise ValueError(refusal)
        if (refusal := _start_refusal(self)) is not None:
            raise ValueError(refusal)

    def tell(self) -> None:
        """Announce that a client has changed something other than values of groups."""
        for call in self.on_changed:
            call()

    def set_group(self, group_id: str, values: dict[str, str]) -> None:
        """Replace the values that clients have set for a group."""
        if values:
            self.groups[group_id] = values
        else:
            self.groups.pop(group_id, None)
        for call in self.on_group_changed:
            call(group_id)

    def set_quotas(self, quotas: Quotas) -> None:
        """Replace the quotas, unless they are equal."""
        if quotas != self.quotas:
            self.quotas = quotas
            for call in self.on_quotas:
                call()

    def text(self, name: str) -> str:
        """Return the value of a broker setting as text, empty for none. Raises KeyError for an unknown name."""
        for values in (*self.altered_of.values(), self.altered, self.static):
            if name in values:
                return values[name]
        for other, factor in IN_OTHER_UNITS.get(name, ()):
            if value := self.text(other):
                return str(max(-1, int(value) * factor))
        return BROKER_SETTINGS[name].default or ""

    def number(self, name: str) -> int:
        return int(self.text(name))

    def flag(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def topic_text(self, name: str, overrides: Mapping[str, str]) -> str:
        """Return the value of a topic setting: the topic's own, or the broker's for all topics."""
        if (own := overrides.get(name)) is not None:
            return own
        setting = TOPIC_SETTINGS[name]
        return self.text(setting.synonym) if setting.synonym else setting.default or ""


def topic_refusal(values: Mapping[str, str], settings: Settings) -> str | None:
    """Return the reason why a topic cannot have these values together, each valid by itself, or None."""
    least, most = (settings.topic_text(f"{bound}.compaction.lag.ms", values) for bound in ("min", "max"))
    if int(least) > int(most):
        return f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
    if settings.topic_text("remote.storage.enable", values).lower() == "true":
        return (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return None


_BOUNDED: Final = {each.setting.synonym: each for each in GROUP_SETTINGS.values() if each.least or each.most}
"""Broker settings with the settings that bound them, which bound the same setting of a group too."""
_FREE_AT_START: Final = ("session.timeout.ms", "heartbeat.interval.ms", "record.lock.duration.ms")
"""A server may start with these below their bounds, which Kafka refuses: tests with real clients need short times."""
_BOUNDED_FROM_ABOVE: Final = ("delivery.count.limit", "partition.max.record.locks")
"""Kafka's sentence about these begins with the upper bound."""


def _start_refusal(settings: Settings) -> str | None:
    """Return the reason why a broker cannot start with these values, each valid by itself, or None."""
    for name, (_, least, most) in _BOUNDED.items():
        if least and most and settings.number(most) < settings.number(least):
            return f"{most} must be greater than or equal to {least}"
        refusal = broker_refusal({name: settings.text(name)}, settings)
        if refusal is not None and not name.endswith(_FREE_AT_START):
            return refusal
    return None


def broker_refusal(values: Mapping[str, str], settings: Settings) -> str | None:
    """Return the reason why a broker cannot have these values, each valid by itself, or None."""
    for name, value in values.items():
        if name not in _BOUNDED:
            continue
        _, least, most = _BOUNDED[name]
        if least and int(value) < settings.number(least):
            return f"{name} must be greater than or equal to {least}"
        if most and int(value) > settings.number(most):
            if name.endswith(_BOUNDED_FROM_ABOVE):
                return f"{most} must be greater than or equal to {name}"
            return f"{name} must be less than or equal to {most}"
    return None


def topic_settings(rules: Rules) -> dict[str, Setting]:
    """Return the settings of a topic, by name, in a release with these rules."""
    return {name: each for name, each in TOPIC_SETTINGS.items() if each.exists(rules)}


def broker_settings(rules: Rules) -> dict[str, Setting]:
    """Return the settings of a broker, by name, in a release with these rules."""
    return {name: each for name, each in BROKER_SETTINGS.items() if each.exists(rules)}


def group_settings(rules: Rules) -> dict[str, GroupSetting]:
    """Return the settings of a group, by name, in a release with these rules."""
    return {name: each for name, each in GROUP_SETTINGS.items() if each.setting.exists(rules)}


def group_refusal(values: Mapping[str, str], settings: Settings, rules: Rules = DEFAULT_RULES) -> str | None:
    """Return the reason why a group cannot have these values, or None. The broker bounds each; a session must be longer
    than a heartbeat interval."""
    for name, value in values.items():
        setting, least, most = GROUP_SETTINGS[name]
        if (refusal := setting.refusal(value)) is not None:
            return refusal
        if name == OFFSET_RESET and offset_reset(value) is None:
            return (
                f"Invalid value {value} for configuration {name}: Invalid value `{value}` for configuration {name}. "
                "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
            )
        if name == DEAD_LETTER_QUEUE and value.startswith("__"):
            return f"{name}: DLQ topic name must not start with '__'"
        if name == TASK_ASSIGNOR and value not in (assignors := as_list(settings.text("group.streams.assignors"))):
            return (
                f"{name} '{value}' is not a registered task assignor. Registered assignors are: "
                f"[{', '.join(assignors)}]."
            )
        if name == CLIENT_TAGS and value.strip():
            tags = [part.strip() for part in value.split(",")]
            if "" in tags:
                return f"Configuration '{name}' values must not be empty."
            if len(set(tags)) < len(tags):
                return f"{name} must not contain duplicate tag keys."
        is_low = least and int(value) < settings.number(least)
        is_high = most and int(value) > settings.number(most)
        if (is_low or is_high) and rules.bounds_by_number:
            if least and most:
                return f"{name} must be in the range {settings.text(least)} to {settings.text(most)} inclusive."
            if is_low:
                return f"{name} must be greater than or equal to {settings.text(least)}"
            return f"{name} must be less than or equal to {settings.text(most)}"
        if is_low:
            return f"{name} must be greater than or equal to {least}"
        if is_high:
            return f"{name} must be less than or equal to {most}"
    for group_type in ("consumer", "share", "streams"):
        session, heartbeat = f"{group_type}.session.timeout.ms", f"{group_type}.heartbeat.interval.ms"
        if int(group_value(session, values, settings)) <= int(group_value(heartbeat, values, settings)):
            return f"{session} must be greater than {heartbeat}"
    return None


def group_value(name: str, values: Mapping[str, str], settings: Settings) -> str:
    """Return the value of a group's setting: its own, or the broker's for all groups."""
    if (own := values.get(name)) is not None:
        return own
    setting = GROUP_SETTINGS[name].setting
    return settings.text(setting.synonym) if setting.synonym else setting.default or ""


def values_in_force(values: Mapping[str, str], settings: Settings, rules: Rules) -> Mapping[str, str]:
    """Return the values that a group has set, each as the nearest bound if a broker with other bounds stored it."""
    if not rules.settings_within_bounds:
        return values
    return {name: _within_bounds(name, value, settings) for name, value in values.items()}


def _within_bounds(name: str, value: str, settings: Settings) -> str:
    _, least, most = GROUP_SETTINGS[name]
    if least and int(value) < settings.number(least):
        return settings.text(least)
    if most and int(value) > settings.number(most):
        return settings.text(most)
    return value


def unknown_setting(name: str) -> str:
    """Return a sentence about an unknown setting, with the most similar name."""
    near = similar_name(name, {*NAMES, *BROKER_SETTINGS})
    hint = f"; did you mean {near!r}?" if near else "."
    return f"{name!r} is not a setting of this coordinator{hint}"

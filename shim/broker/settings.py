"""Configuration values by Kafka's names: type, default, bounds, and which broker value a topic's default comes from.

Decides which names there are and what a value is when nobody set it. Does not know who asks (`configs.py` describes and
alters them) nor what a value is for (`meanings.py`). These are all names that Kafka 4.2 describes, compared with a
running one by `tests/conformance/test_settings_of_kafka.py`; those that have no effect here at all are in
`unused_settings.py`. Sources: the answers of a running Kafka 4.2.2; semantics 6.2 for groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

from kafka_shim.broker.setting import MAX_INT, MAX_LONG, ConfigType, Setting
from kafka_shim.broker.unused_settings import unused_settings
from kafka_shim.groups.config import NAMES


def _table(settings: Iterable[Setting]) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


_BOOLEAN, _STRING, _INT, _SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST

_COMPRESSION: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
_NO_LIMIT: Final = str(MAX_LONG)

TOPIC_SETTINGS: Final = _table(
    [
        Setting("cleanup.policy", _LIST, "delete", choices=("compact", "delete"), synonym="log.cleanup.policy"),
        Setting("compression.gzip.level", _INT, "-1", -1, 9, synonym="compression.gzip.level"),
        Setting("compression.lz4.level", _INT, "9", 1, 17, synonym="compression.lz4.level"),
        Setting("compression.type", _STRING, "producer", choices=_COMPRESSION, synonym="compression.type"),
        Setting("compression.zstd.level", _INT, "3", -131072, 22, synonym="compression.zstd.level"),
        Setting("delete.retention.ms", _LONG, "86400000", 0, synonym="log.cleaner.delete.retention.ms"),
        Setting("file.delete.delay.ms", _LONG, "60000", 0, synonym="log.segment.delete.delay.ms"),
        Setting("flush.messages", _LONG, _NO_LIMIT, 1, synonym="log.flush.interval.messages"),
        Setting("flush.ms", _LONG, _NO_LIMIT, 0, synonym="log.flush.interval.ms"),
        Setting("follower.replication.throttled.replicas", _LIST, ""),
        Setting("index.interval.bytes", _INT, "4096", 0, synonym="log.index.interval.bytes"),
        Setting("leader.replication.throttled.replicas", _LIST, ""),
        Setting("local.retention.bytes", _LONG, "-2", -2, synonym="log.local.retention.bytes"),
        Setting("local.retention.ms", _LONG, "-2", -2, synonym="log.local.retention.ms"),
        Setting("max.compaction.lag.ms", _LONG, _NO_LIMIT, 1, synonym="log.cleaner.max.compaction.lag.ms"),
        Setting("max.decompressed.message.bytes", _INT, "2147483639", 1, synonym="max.decompressed.message.bytes"),
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
"""Broker settings without a default of their own: the settings that count where they have no value, and by how much
those are to be multiplied."""

BROKER_SETTINGS: Final = _table(
    [
        Setting("auto.create.topics.enable", _BOOLEAN, "true", dynamic=False),
        Setting("log.cleaner.backoff.ms", _LONG, "15000"),
        Setting("connections.max.idle.ms", _LONG, "600000", dynamic=False),
        Setting("default.replication.factor", _INT, "1", 1, dynamic=False),
        Setting("delete.topic.enable", _BOOLEAN, "true", dynamic=False),
        Setting("fetch.max.bytes", _INT, "57671680", 1024, dynamic=False),
        Setting("log.flush.scheduler.interval.ms", _LONG, _NO_LIMIT, dynamic=False),
        Setting("log.retention.check.interval.ms", _LONG, "300000", 1, dynamic=False),
        Setting("log.retention.hours", _INT, "168", dynamic=False),
        Setting("log.retention.minutes", _INT, None, dynamic=False),
        Setting("log.roll.hours", _INT, "168", 1, dynamic=False),
        Setting("log.roll.jitter.hours", _INT, "0", 0, dynamic=False),
        Setting("max.request.partition.size.limit", _INT, "2000", 1, dynamic=False),
        Setting("group.consumer.assignment.interval.ms", _INT, "1000", 0, dynamic=False, internal=True),
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
        Setting("group.share.delivery.count.limit", _INT, "5", 2, 10, dynamic=False),
        Setting("group.share.heartbeat.interval.ms", _INT, "5000", 1, dynamic=False),
        Setting("group.share.max.heartbeat.interval.ms", _INT, "15000", 1, dynamic=False),
        Setting("group.share.max.record.lock.duration.ms", _INT, "60000", 30000, dynamic=False),
        Setting("group.share.max.session.timeout.ms", _INT, "60000", 1, dynamic=False),
        Setting("group.share.max.share.sessions", _INT, "2000", 1, dynamic=False),
        Setting("group.share.max.size", _INT, "200", 1, 1000, dynamic=False),
        Setting("group.share.min.heartbeat.interval.ms", _INT, "5000", 1, dynamic=False),
        Setting("group.share.min.record.lock.duration.ms", _INT, "15000", 1000, dynamic=False),
        Setting("group.share.min.session.timeout.ms", _INT, "45000", 1, dynamic=False),
        Setting("group.share.partition.max.record.locks", _INT, "2000", 100, 10000, dynamic=False),
        Setting("group.share.record.lock.duration.ms", _INT, "30000", 1000, dynamic=False),
        Setting("group.share.session.timeout.ms", _INT, "45000", 1, dynamic=False),
        Setting("group.streams.heartbeat.interval.ms", _INT, "5000", 1, dynamic=False),
        Setting("group.streams.initial.rebalance.delay.ms", _INT, "3000", 0, dynamic=False),
        Setting("group.streams.max.heartbeat.interval.ms", _INT, "15000", 1, dynamic=False),
        Setting("group.streams.max.session.timeout.ms", _INT, "60000", 1, dynamic=False),
        Setting("group.streams.max.size", _INT, str(MAX_INT), 1, dynamic=False),
        Setting("group.streams.max.standby.replicas", _INT, "2", 0, dynamic=False),
        Setting("group.streams.min.heartbeat.interval.ms", _INT, "5000", 1, dynamic=False),
        Setting("group.streams.min.session.timeout.ms", _INT, "45000", 1, dynamic=False),
        Setting("group.streams.num.standby.replicas", _INT, "0", 0, dynamic=False),
        Setting("group.streams.session.timeout.ms", _INT, "45000", 1, dynamic=False),
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


class GroupSetting(NamedTuple):
    """A group's configuration name, and the broker values its number may not go below or above."""

    setting: Setting
    least: str = ""
    most: str = ""


def _bounded(group_type: str, what: str) -> GroupSetting:
    broker = f"group.{group_type}."
    default = BROKER_SETTINGS[broker + what].default
    setting = Setting(f"{group_type}.{what}", _INT, default, 1, synonym=broker + what)
    return GroupSetting(setting, f"{broker}min.{what}", f"{broker}max.{what}")


GROUP_SETTINGS: Final = {
    each.setting.name: each
    for each in [
        _bounded("consumer", "heartbeat.interval.ms"),
        _bounded("consumer", "session.timeout.ms"),
        GroupSetting(Setting("share.auto.offset.reset", _STRING, "latest")),
        _bounded("share", "heartbeat.interval.ms"),
        GroupSetting(
            Setting(
                "share.isolation.level", _STRING, "read_uncommitted", choices=("read_committed", "read_uncommitted")
            )
        ),
        _bounded("share", "record.lock.duration.ms"),
        _bounded("share", "session.timeout.ms"),
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
        _bounded("streams", "session.timeout.ms"),
    ]
}


class Settings:
    """Values in force: defaults, what the command line set, what clients set while the broker runs, for it or a group.

    `altered` are those that clients set for all brokers, `altered_of` by node id those for one of them, which the other
    brokers of a process obey too: they share their topics. Raises ValueError for a value that its setting refuses.
    Names that are not the broker's are kept and ignored: the same command line configures groups and server too.
    """

    def __init__(self, static: Mapping[str, str] | None = None) -> None:
        self.static: dict[str, str] = dict(static or {})
        self.altered: dict[str, str] = {}
        self.altered_of: dict[int, dict[str, str]] = {}
        self.groups: dict[str, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        """Finalized levels of features that clients have changed; `features_epoch` counts their changes."""
        self.features_epoch = 0
        self.on_changed: list[Callable[[], None]] = []
        """Called when a client has set something for groups, brokers or features."""
        for name, value in self.static.items():
            setting = BROKER_SETTINGS.get(name)
            if setting is not None and (refusal := setting.refusal(value)) is not None:
                raise ValueError(refusal)

    def tell(self) -> None:
        """A client has set something."""
        for call in self.on_changed:
            call()

    def text(self, name: str) -> str:
        """The value of a broker setting as text, empty for none. Raises KeyError for a name that is none."""
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
        """The value of a topic setting: the topic's own, or the broker's for all topics."""
        if (own := overrides.get(name)) is not None:
            return own
        setting = TOPIC_SETTINGS[name]
        return self.text(setting.synonym) if setting.synonym else setting.default or ""


def group_refusal(values: Mapping[str, str], settings: Settings) -> str | None:
    """Why a group cannot have these values, or None. Each is bounded by the broker's; sessions outlast heartbeats."""
    for name, value in values.items():
        setting, least, most = GROUP_SETTINGS[name]
        if (refusal := setting.refusal(value)) is not None:
            return refusal
        if least and int(value) < settings.number(least):
            return f"{name} must be greater than or equal to {least}"
        if most and int(value) > settings.number(most):
            return f"{name} must be less than or equal to {most}"
    for group_type in ("consumer", "share", "streams"):
        session, heartbeat = f"{group_type}.session.timeout.ms", f"{group_type}.heartbeat.interval.ms"
        if int(group_value(session, values, settings)) <= int(group_value(heartbeat, values, settings)):
            return f"{session} must be greater than {heartbeat}"
    return None


def group_value(name: str, values: Mapping[str, str], settings: Settings) -> str:
    """The value of a group's setting: its own, or the broker's for all groups."""
    if (own := values.get(name)) is not None:
        return own
    setting = GROUP_SETTINGS[name].setting
    return settings.text(setting.synonym) if setting.synonym else setting.default or ""


def unknown_setting(name: str) -> str:
    """One sentence on a name that is no setting, with the nearest that is."""
    near = get_close_matches(name, {*NAMES, *BROKER_SETTINGS}, 1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"{name!r} is not a setting of this coordinator{hint}"

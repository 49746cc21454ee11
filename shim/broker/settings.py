"""Configuration values by Kafka's names: type, default, bounds, and which broker value a topic's default comes from.

Decides what a value may be and what it is when nobody set it. Does not know who asks (`configs.py` describes and alters
them) nor what a value is for. A name that is not in these tables is unknown here as it would be to Kafka; those of
Kafka's settings that have no effect here are left out, but for the topic settings that tools often set.
Sources: Kafka 4.2's topic and broker configuration reference; semantics 6.2 for groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import IntEnum
from typing import Final, NamedTuple

from kafka_shim.groups.config import NAMES

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1


class ConfigType(IntEnum):
    """The type of a value, by its number in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Setting(NamedTuple):
    """One configuration name. `least` and `most` bound numbers, `choices` names; `synonym` is the broker's name for the
    default of a topic's or group's value; `dynamic` says whether it can be changed while the broker runs."""

    name: str
    type: ConfigType
    default: str
    least: float = -MAX_LONG - 1
    most: float = MAX_LONG
    choices: tuple[str, ...] = ()
    synonym: str = ""
    dynamic: bool = True

    def refusal(self, value: str) -> str | None:
        """Why `value` cannot be, in a sentence, or None when it can."""
        if self.type is ConfigType.BOOLEAN:
            legal = value.lower() in ("true", "false")
            return None if legal else self._refused(value, "Expected value to be either true or false")
        if self.type in (ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE):
            try:
                number = float(value) if self.type is ConfigType.DOUBLE else int(value)
            except ValueError:
                return self._refused(value, f"Not a number of type {self.type.name}")
            if abs(number) > (MAX_INT if self.type is ConfigType.INT else MAX_LONG):
                return self._refused(value, f"Not a number of type {self.type.name}")
            if number < self.least:
                return self._refused(value, f"Value must be at least {self.least}")
            return self._refused(value, f"Value must be no more than {self.most}") if number > self.most else None
        parts = as_list(value) if self.type is ConfigType.LIST else [value]
        if self.choices and any(part not in self.choices for part in parts):
            return self._refused(value, f"String must be one of: {', '.join(self.choices)}")
        return None

    def _refused(self, value: str, why: str) -> str:
        return f"Invalid value {value} for configuration {self.name}: {why}"


def as_list(value: str) -> list[str]:
    """The elements of a LIST value."""
    return [part.strip() for part in value.split(",") if part.strip()]


def _table(settings: Iterable[Setting]) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = ConfigType

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

BROKER_SETTINGS: Final = _table(
    [
        Setting("auto.create.topics.enable", _BOOLEAN, "true", dynamic=False),
        Setting("connections.max.idle.ms", _LONG, "600000", dynamic=False),
        Setting("default.replication.factor", _INT, "1", 1, dynamic=False),
        Setting("delete.topic.enable", _BOOLEAN, "true", dynamic=False),
        Setting("fetch.max.bytes", _INT, "57671680", 1024, dynamic=False),
        Setting("log.dir", _LIST, "/tmp/kafka-logs", dynamic=False),
        Setting("log.dirs", _LIST, "", dynamic=False),
        Setting("max.request.partition.size.limit", _INT, "2000", 1, dynamic=False),
        Setting("group.consumer.assignment.interval.ms", _INT, "1000", 0, dynamic=False),
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
        Setting("group.consumer.regex.refresh.interval.ms", _INT, "600000", 10000, dynamic=False),
        Setting("group.consumer.session.timeout.ms", _INT, "45000", 1, dynamic=False),
        Setting("group.coordinator.rebalance.protocols", _LIST, "classic,consumer,streams", dynamic=False),
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
        Setting("offsets.topic.replication.factor", _INT, "3", 1, dynamic=False),
        Setting("offsets.topic.segment.bytes", _INT, "104857600", 1, dynamic=False),
        Setting("transaction.max.timeout.ms", _INT, "900000", 1, dynamic=False),
        Setting("transactional.id.expiration.ms", _INT, "604800000", 1, dynamic=False),
        *(topic._replace(name=topic.synonym, synonym="") for topic in TOPIC_SETTINGS.values() if topic.synonym),
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

    Raises ValueError for a value that its setting refuses. Names that are not the broker's are kept and ignored:
    the same command line configures groups and server too.
    """

    def __init__(self, static: Mapping[str, str] | None = None) -> None:
        self.static: dict[str, str] = dict(static or {})
        self.altered: dict[str, str] = {}
        self.groups: dict[str, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        """Finalized levels of features that clients have changed; `features_epoch` counts their changes."""
        self.features_epoch = 0
        for name, value in self.static.items():
            setting = BROKER_SETTINGS.get(name)
            if setting is not None and (refusal := setting.refusal(value)) is not None:
                raise ValueError(refusal)

    def text(self, name: str) -> str:
        """The value of a broker setting as text. Raises KeyError for a name that is none."""
        for values in (self.altered, self.static):
            if name in values:
                return values[name]
        return BROKER_SETTINGS[name].default

    def number(self, name: str) -> int:
        return int(self.text(name))

    def flag(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def topic_text(self, name: str, overrides: Mapping[str, str]) -> str:
        """The value of a topic setting: the topic's own, or the broker's for all topics."""
        if (own := overrides.get(name)) is not None:
            return own
        setting = TOPIC_SETTINGS[name]
        return self.text(setting.synonym) if setting.synonym else setting.default


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
    return settings.text(setting.synonym) if setting.synonym else setting.default


def unknown_setting(name: str) -> str:
    """One sentence on a name that is no setting, with the nearest that is."""
    near = get_close_matches(name, {*NAMES, *BROKER_SETTINGS}, 1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"{name!r} is not a setting of this coordinator{hint}"

"""Values of topics, groups and brokers that are in force, and where each comes from.

Decides which of the values that a name could have counts. Does not know who asks (`configs.py`), nor which names there
are (`settings.py`). Sources: KIP-226; Kafka's ConfigHelper; the answers of a running Kafka 4.2.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from kafka_shim.broker.features import level
from kafka_shim.broker.setting import ConfigType, Setting
from kafka_shim.broker.settings import (
    BROKER_SETTINGS,
    GROUP_SETTINGS,
    IN_OTHER_UNITS,
    TOPIC_SETTINGS,
    Settings,
    group_value,
)
from kafka_shim.broker.topics import Topics

MIN_ISR: Final = "min.insync.replicas"
"""While eligible leader replicas are on, it always has a value for the whole cluster (KIP-966)."""


class Source(IntEnum):
    """Where a value comes from, by its number in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    GROUP = 8


Synonym = tuple[str, str, Source]


class Value(NamedTuple):
    """A value in force, None for none. `synonyms` are all that count towards it, by descending precedence."""

    setting: Setting
    value: str | None
    synonyms: list[Synonym]
    is_sensitive: bool = False

    @property
    def name(self) -> str:
        return self.setting.name

    @property
    def source(self) -> Source:
        return self.synonyms[0][2] if self.synonyms else Source.DEFAULT


class Inherited:
    """What topics and brokers have when nothing is set for them alone; of broker `node_id`, or of none in particular.

    `is_elr_on`: eligible leader replicas are on.
    """

    def __init__(self, topics: Topics, node_id: int = -1, *, is_elr_on: bool) -> None:
        self.settings = topics.settings
        self.is_elr_on = is_elr_on
        self._node_id = node_id
        self._static = self.settings.static
        if node_id in topics.nodes:
            self._static = _identity(topics, node_id) | self._static

    @classmethod
    def of_release(cls, topics: Topics, release: str, node_id: int = -1) -> Inherited:
        """As in a cluster of this Kafka release."""
        is_on = level(release, topics.settings, "eligible.leader.replicas.version") > 0
        return cls(topics, node_id, is_elr_on=is_on)

    def of_broker(self, name: str) -> list[Synonym]:
        """The values of a broker setting, that in force first."""
        settings, found = self.settings, []
        own = settings.altered_of.get(self._node_id, {})
        if name in own:
            found.append((name, own[name], Source.DYNAMIC_BROKER))
        if name in settings.altered:
            found.append((name, settings.altered[name], Source.DYNAMIC_DEFAULT_BROKER))
        elif name == MIN_ISR and self.is_elr_on:
            found.append((name, settings.text(MIN_ISR), Source.DYNAMIC_DEFAULT_BROKER))
        for each in (name, *(other for other, _ in IN_OTHER_UNITS.get(name, ()))):
            if each in self._static:
                found.append((each, self._static[each], Source.STATIC_BROKER))
        default = BROKER_SETTINGS[name].default if name in BROKER_SETTINGS else None
        return found if default is None else [*found, (name, default, Source.DEFAULT)]

    def default(self) -> list[tuple[str, str]]:
        """The names and values that clients have set for all brokers."""
        found = dict(self.settings.altered)
        if self.is_elr_on:
            found.setdefault(MIN_ISR, self.settings.text(MIN_ISR))
        return list(found.items())


def topic_values(overrides: Mapping[str, str], inherited: Inherited) -> list[Value]:
    """Every value of a topic that has these of its own."""
    values = []
    for name, setting in TOPIC_SETTINGS.items():
        synonyms = [(name, overrides[name], Source.TOPIC)] if name in overrides else []
        synonyms += inherited.of_broker(setting.synonym) if setting.synonym else []
        values.append(Value(setting, inherited.settings.topic_text(name, overrides), synonyms))
    return values


def group_values(overrides: Mapping[str, str], settings: Settings) -> list[Value]:
    """Every value of a group that has these of its own."""
    values = []
    for name, each in GROUP_SETTINGS.items():
        synonyms = [(name, overrides[name], Source.GROUP)] if name in overrides else []
        synonyms.append((name, group_value(name, {}, settings), Source.DEFAULT))
        values.append(Value(each.setting, synonyms[0][1], synonyms))
    return values


def broker_values(inherited: Inherited, altered: Mapping[str, str]) -> list[Value]:
    """Every value of a broker; `altered` are those that clients have set for it alone."""
    names = [setting.name for setting in BROKER_SETTINGS.values() if not setting.internal]
    unknown = [name for name in altered if name not in BROKER_SETTINGS]
    return [_of_broker(name, inherited.of_broker(name)) for name in (*names, *unknown)]


def default_values(inherited: Inherited) -> list[Value]:
    """What clients have set for all brokers."""
    return [_of_broker(name, [(name, value, Source.DYNAMIC_DEFAULT_BROKER)]) for name, value in inherited.default()]


def logger_values() -> list[Value]:
    """The loggers of a broker: one for all, which nobody can change."""
    root = Setting("root", ConfigType.UNKNOWN, None)
    return [Value(root, "INFO", [("root", "INFO", Source.DYNAMIC_BROKER_LOGGER)])]


def _of_broker(name: str, synonyms: list[Synonym]) -> Value:
    """Names that are nobody's are kept, as Kafka keeps them for plugins, and shown as secrets."""
    setting = BROKER_SETTINGS.get(name)
    if setting is None:
        return Value(Setting(name, ConfigType.UNKNOWN, None, dynamic=False), None, synonyms, is_sensitive=True)
    is_secret = setting.type is ConfigType.PASSWORD
    return Value(setting, synonyms[0][1] if synonyms and not is_secret else None, synonyms, is_secret)


def _identity(topics: Topics, node_id: int) -> dict[str, str]:
    """What a broker says of itself: who it is, and where it is reached."""
    node, controller = topics.nodes[node_id], topics.nodes[topics.controller_id()]
    listener = f"PLAINTEXT://{node.host}:{node.port}"
    found = {
        "advertised.listeners": listener,
        "broker.id": str(node_id),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{controller.id}@{controller.host}:{controller.port}",
        "listeners": listener,
        "node.id": str(node_id),
        "process.roles": "broker,controller" if node is controller else "broker",
    }
    return found if node.rack is None else found | {"broker.rack": node.rack}

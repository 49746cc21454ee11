"""The values in force of topics, groups and brokers, and the source of each.

Of all values for a name, the one with the highest precedence is in force. Sources: KIP-226; Kafka's ConfigHelper; the
answers of a running Kafka 4.2.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from kafka_shim.apis.releases import Rules
from kafka_shim.broker.admin.features import level
from kafka_shim.broker.setting import ConfigType, Setting
from kafka_shim.broker.settings import (
    BROKER_SETTINGS,
    IN_OTHER_UNITS,
    broker_settings,
    group_settings,
    group_value,
    topic_settings,
)
from kafka_shim.broker.topics import Topics

MIN_ISR: Final = "min.insync.replicas"
"""A setting that always has a value for the whole cluster while eligible leader replicas are on (KIP-966)."""


class Source(IntEnum):
    """The source of a value, by its number in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    GROUP = 8


Synonym = tuple[str, str, Source]


class Value(NamedTuple):
    """A value in force, None for none. `synonyms` are all values for the name, by descending precedence."""

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
    """The values that topics and brokers inherit if they have no own ones; of broker `node_id`, or of no particular
    broker.

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
        """Return the inherited values in a cluster of this Kafka release."""
        is_on = level(release, topics.settings, "eligible.leader.replicas.version") > 0
        return cls(topics, node_id, is_elr_on=is_on)

    def of_broker(self, name: str) -> list[Synonym]:
        """Return the values of a broker setting, the one in force first."""
        settings, values = self.settings, []
        own = settings.altered_of.get(self._node_id, {})
        if name in own:
            values.append((name, own[name], Source.DYNAMIC_BROKER))
        if name in settings.altered:
            values.append((name, settings.altered[name], Source.DYNAMIC_DEFAULT_BROKER))
        elif name == MIN_ISR and self.is_elr_on:
            values.append((name, settings.text(MIN_ISR), Source.DYNAMIC_DEFAULT_BROKER))
        for each in (name, *(other for other, _ in IN_OTHER_UNITS.get(name, ()))):
            if each in self._static:
                values.append((each, self._static[each], Source.STATIC_BROKER))
        default = BROKER_SETTINGS[name].default if name in BROKER_SETTINGS else None
        return values if default is None else [*values, (name, default, Source.DEFAULT)]

    def default(self) -> list[tuple[str, str]]:
        """Return names and values that clients have set for all brokers."""
        values = dict(self.settings.altered)
        if self.is_elr_on:
            values.setdefault(MIN_ISR, self.settings.text(MIN_ISR))
        return list(values.items())


def topic_values(overrides: Mapping[str, str], inherited: Inherited, rules: Rules) -> list[Value]:
    """Return every value of a topic whose own values are `overrides`, in a release with these rules."""
    values = []
    for name, setting in topic_settings(rules).items():
        synonyms = [(name, overrides[name], Source.TOPIC)] if name in overrides else []
        synonyms += inherited.of_broker(setting.synonym) if setting.synonym else []
        values.append(Value(setting, inherited.settings.topic_text(name, overrides), synonyms))
    return values


def group_values(overrides: Mapping[str, str], inherited: Inherited, rules: Rules) -> list[Value]:
    """Return every value of a group whose own values are `overrides`, in a release with these rules."""
    values = []
    for name, each in group_settings(rules).items():
        if each.setting.internal and name not in overrides:
            continue
        value = group_value(name, overrides, inherited.settings)
        own: list[Synonym] = [(name, value, Source.GROUP)] if name in overrides else []
        if not rules.group_synonyms_of_broker:
            synonyms = own or [(name, value, Source.DEFAULT)]
        elif synonym := each.setting.synonym:
            synonyms = own + inherited.of_broker(synonym)
        else:
            synonyms = [*own, (name, each.setting.default or "", Source.DEFAULT)]
        values.append(Value(each.setting, value, synonyms))
    return values


def broker_values(inherited: Inherited, altered: Mapping[str, str], rules: Rules) -> list[Value]:
    """Return every value of a broker of a release with these rules; clients have set the `altered` ones for it
    alone."""
    names = [setting.name for setting in broker_settings(rules).values() if not setting.internal]
    unknown = [name for name in altered if name not in BROKER_SETTINGS]
    return [_of_broker(name, inherited.of_broker(name)) for name in (*names, *unknown)]


def default_values(inherited: Inherited) -> list[Value]:
    """Return the values that clients have set for all brokers."""
    return [_of_broker(name, [(name, value, Source.DYNAMIC_DEFAULT_BROKER)]) for name, value in inherited.default()]


def logger_values() -> list[Value]:
    """Return the loggers of a broker: a single one, which cannot be changed."""
    root = Setting("root", ConfigType.UNKNOWN, None)
    return [Value(root, "INFO", [("root", "INFO", Source.DYNAMIC_BROKER_LOGGER)])]


def _of_broker(name: str, synonyms: list[Synonym]) -> Value:
    """Return the value of a broker setting. Unknown names are kept, as Kafka keeps them for plugins, and shown as
    secrets."""
    setting = BROKER_SETTINGS.get(name)
    if setting is None:
        return Value(Setting(name, ConfigType.UNKNOWN, None, dynamic=False), None, synonyms, is_sensitive=True)
    is_secret = setting.type is ConfigType.PASSWORD
    return Value(setting, synonyms[0][1] if synonyms and not is_secret else None, synonyms, is_secret)


def _identity(topics: Topics, node_id: int) -> dict[str, str]:
    """Return the values that identify a broker: its id and its addresses."""
    node, controller = topics.nodes[node_id], topics.nodes[topics.controller_id()]
    listener = f"PLAINTEXT://{node.host}:{node.port}"
    values = {
        "advertised.listeners": listener,
        "broker.id": str(node_id),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{controller.id}@{controller.host}:{controller.port}",
        "listeners": listener,
        "node.id": str(node_id),
        "process.roles": "broker,controller" if node is controller else "broker",
    }
    return values if node.rack is None else values | {"broker.rack": node.rack}

"""The tables of `docs/running.md`: every option of `serve` and every setting, made from the code that reads them.

Decides what a setting means, in one sentence, where something here obeys it. Defaults and ranges are those that are
checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import click

from kafka_shim.broker.settings import BROKER_SETTINGS, MAX_INT, MAX_LONG, ConfigType, Setting
from kafka_shim.groups.config import AT_LEAST

MEANINGS: Final = {
    "auto.create.topics.enable": "A topic is created when a client first asks for it.",
    "connections.max.idle.ms": "A connection without traffic for so long is closed; none if negative.",
    "default.replication.factor": "Replicas of a topic whose creator names no number.",
    "delete.topic.enable": "Clients may delete topics.",
    "fetch.max.bytes": "Bytes of records in one answer to a Fetch.",
    "group.consumer.assignors": "Assignors of the broker for groups of KIP-848; the first is the default.",
    "group.consumer.heartbeat.interval.ms": "The heartbeat interval of members of a KIP-848 group.",
    "group.consumer.max.heartbeat.interval.ms": "The longest heartbeat interval that a group may have.",
    "group.consumer.max.session.timeout.ms": "The longest session timeout that a group may have.",
    "group.consumer.max.size": "How many members a KIP-848 group may have.",
    "group.consumer.migration.policy": "Which way groups with members move between the classic protocol and KIP-848.",
    "group.consumer.min.heartbeat.interval.ms": "The shortest heartbeat interval that a group may have.",
    "group.consumer.min.session.timeout.ms": "The shortest session timeout that a group may have.",
    "group.consumer.regex.refresh.interval.ms": "How long the topics found for a regular expression are kept.",
    "group.consumer.session.timeout.ms": "A member of a KIP-848 group that is silent for so long is expelled.",
    "group.initial.rebalance.delay.ms": "The first round of an empty group waits so long for more members.",
    "group.max.session.timeout.ms": "The longest session timeout that a member may ask for; else error 26.",
    "group.max.size": "How many members a classic group may have; others get error 81.",
    "group.min.session.timeout.ms": "The shortest session timeout that a member may ask for; else error 26.",
    "group.share.heartbeat.interval.ms": "The heartbeat interval of members of a share group.",
    "group.share.max.size": "How many members a share group may have.",
    "group.share.session.timeout.ms": "A member of a share group that is silent for so long is expelled.",
    "group.streams.heartbeat.interval.ms": "The heartbeat interval of members of a streams group.",
    "group.streams.initial.rebalance.delay.ms": "How long the first assignment of an Empty streams group waits for more"
    " members.",
    "group.streams.max.heartbeat.interval.ms": "The longest heartbeat interval that a streams group may have.",
    "group.streams.max.session.timeout.ms": "The longest session timeout that a streams group may have.",
    "group.streams.max.size": "How many members a streams group may have.",
    "group.streams.max.standby.replicas": "The most standbys of a task that a streams group may have.",
    "group.streams.min.heartbeat.interval.ms": "The shortest heartbeat interval that a streams group may have.",
    "group.streams.min.session.timeout.ms": "The shortest session timeout that a streams group may have.",
    "group.streams.num.standby.replicas": "How many standbys of each task with state a streams group has.",
    "group.streams.session.timeout.ms": "A member of a streams group that is silent for so long is expelled.",
    "log.message.timestamp.after.max.ms": "A record may be so far ahead of the broker's clock; else error 32.",
    "log.message.timestamp.before.max.ms": "A record may be so far behind the broker's clock; else error 32.",
    "log.message.timestamp.type": "Whether records keep their own time or get that of the broker.",
    "max.incremental.fetch.session.cache.slots": "How many fetch sessions a broker remembers.",
    "message.max.bytes": "The largest batch of records that a topic takes; else error 10.",
    "num.partitions": "Partitions of a topic whose creator names no number.",
    "offset.metadata.max.bytes": "The longest metadata of a committed offset; else error 12.",
    "offsets.commit.timeout.ms": "An answer waits so long for the store, and is then error 15.",
    "offsets.retention.check.interval.ms": "How often expired offsets are looked for.",
    "offsets.retention.minutes": "Offsets of a group without members are kept for so long.",
    "offsets.topic.num.partitions": "Partitions of `__consumer_offsets`; a store keeps the number it began with.",
    "offsets.topic.replication.factor": "Replicas of `__consumer_offsets`, as clients see it.",
    "offsets.topic.segment.bytes": "Segment size of `__consumer_offsets`, as clients see it.",
    "transaction.max.timeout.ms": "The longest transaction timeout that a producer may ask for; else error 50.",
    "transactional.id.expiration.ms": "A transactional id that is not used for so long is forgotten.",
}
"""What a setting does, for those that something here obeys."""

_BEGIN, _END = "<!-- {name}: generated, `kafka-shim reference docs/running.md` -->", "<!-- end of {name} -->"
_TYPES: Final = {
    ConfigType.BOOLEAN: "true, false",
    ConfigType.STRING: "text",
    ConfigType.LIST: "names, with commas",
}


def renewed(page: str, serve: click.Command) -> str:
    """The page with its tables as the code has them now."""
    for name, table in (("options", _options(serve)), ("settings", _settings())):
        begin, end = _BEGIN.format(name=name), _END.format(name=name)
        found = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        body = "\n".join(table)
        page = found.sub(lambda _, text=f"{begin}\n\n{body}\n\n{end}": text, page)  # type: ignore[misc]
    return page


def _options(command: click.Command) -> Iterator[str]:
    yield "| option | default | meaning |"
    yield "| --- | --- | --- |"
    for option in command.params:
        if isinstance(option, click.Option):
            yield f"| `{_spelling(option)}` | {_default(option)} | {option.help} |"


def _spelling(option: click.Option) -> str:
    if option.is_flag:
        return option.opts[0]
    if isinstance(option.type, click.Choice):
        return f"{option.opts[0]} {', '.join(map(str, option.type.choices))}"
    kinds: tuple[type[click.ParamType[Any]], ...] = (click.types.IntRange, click.types.FloatRange)
    if isinstance(option.type, kinds):
        bounds = f"{_number(option.type.min)} to {_number(option.type.max)}"  # type: ignore[attr-defined]
        return f"{option.opts[0]} {option.metavar or 'N'} ({bounds})"
    metavar = option.metavar or ("FILE" if isinstance(option.type, click.Path) else option.type.name)
    return f"{option.opts[0]} {metavar}{' ...' if option.multiple else ''}"


def _default(option: click.Option) -> str:
    if option.is_flag or option.multiple or not isinstance(option.default, (str, int, float)):
        return ""
    return f"`{_number(option.default) if isinstance(option.default, float) else option.default}`"


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _settings() -> Iterator[str]:
    yield "| setting | default | range | meaning |"
    yield "| --- | --- | --- | --- |"
    for name in sorted(MEANINGS):
        setting = BROKER_SETTINGS[name]
        yield f"| `{name}` | `{setting.default}` | {_range(setting)} | {MEANINGS[name]} |"
    yield ""
    yield "These too can be set, altered and described, as in Kafka; they have no effect here:"
    yield ""
    yield "| setting | default | range |"
    yield "| --- | --- | --- |"
    for name in sorted(BROKER_SETTINGS.keys() - MEANINGS.keys()):
        setting = BROKER_SETTINGS[name]
        yield f"| `{name}` | {f'`{setting.default}`' if setting.default else ''} | {_range(setting)} |"


def _range(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if setting.type in _TYPES:
        return _TYPES[setting.type]
    limit = MAX_INT if setting.type is ConfigType.INT else MAX_LONG
    at_least = max(setting.least, AT_LEAST.get(setting.name.replace(".", "_"), setting.least))
    least = None if at_least < -limit else _number(at_least)
    most = None if setting.most >= limit else _number(setting.most)
    if least is None:
        return "any number" if most is None else f"up to {most}"
    return f"from {least}" if most is None else f"{least} to {most}"

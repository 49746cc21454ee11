"""Topics and settings as documents that a store keeps: for the next start, and for processes that share them.

Decides what is in a document, and changes the topics of this process to match. Does not know the store, nor who changed
a document. The leader of a partition is in no document: every process computes it from the processes that are there
(`shim/server/placement.py`). Logs are only on their leader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from kafka_shim.broker.settings import Settings
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topic, Topics

Documents: TypeAlias = Mapping[tuple[str, str], str]
"""`(kind, name)` -> text."""

TOPIC: Final = "topic"
GROUP: Final = "group"
"""The configuration of one group."""
FEATURES: Final = "features"
"""The levels of features that clients have changed; its name is empty."""
BROKERS: Final = "brokers"
"""What clients have set for all brokers; its name is empty."""


def describe(topics: Topics) -> dict[tuple[str, str], str]:
    """The documents that say how these topics and their settings are."""
    documents = of_settings(topics.settings)
    for topic in topics.all():
        documents |= of_topic(topic)
    return documents


def of_topic(topic: Topic) -> dict[tuple[str, str], str]:
    """The document of one topic."""
    text = _text(
        id=topic.id.hex(),
        partitions=len(topic.partitions),
        replicas=len(topic.partitions[0].replicas),
        configs=topic.configs,
    )
    return {(TOPIC, topic.name): text}


def of_settings(settings: Settings) -> dict[tuple[str, str], str]:
    """The documents of what clients have set for groups, brokers and features."""
    documents = {(GROUP, group_id): _text(configs=configs) for group_id, configs in settings.groups.items()}
    if settings.altered:
        documents[BROKERS, ""] = _text(configs=settings.altered)
    for node_id, configs in settings.altered_of.items():
        documents[BROKERS, str(node_id)] = _text(configs=configs)
    if settings.features_epoch:
        documents[FEATURES, ""] = _text(levels=settings.features, epoch=settings.features_epoch)
    return documents


def changes(before: Documents, after: Documents) -> dict[tuple[str, str], str | None]:
    """What makes the documents `before` those `after`; None is a document that goes."""
    gone: dict[tuple[str, str], str | None] = {key: None for key in before if key not in after}
    return gone | {key: value for key, value in after.items() if before.get(key) != value}


def apply(documents: Documents, topics: Topics, group_changed: Callable[[str], None]) -> None:
    """Change topics and settings to match the documents; `group_changed(group_id)` is called for each group whose
    settings change.

    Every process creates `__consumer_offsets` for itself; it stays if no document has it.
    """
    by_kind: dict[str, dict[str, Any]] = {TOPIC: {}, GROUP: {}, BROKERS: {}, FEATURES: {}}
    for (kind, name), text in documents.items():
        by_kind.setdefault(kind, {})[name] = json.loads(text)
    of_brokers = {name: content["configs"] for name, content in by_kind[BROKERS].items()}
    of_all = of_brokers.pop("", {})
    _apply_brokers(of_all, {int(node_id): configs for node_id, configs in of_brokers.items()}, topics)
    _apply_topics(by_kind[TOPIC], topics)
    features = by_kind[FEATURES].get("", {})
    topics.settings.features, topics.settings.features_epoch = features.get("levels", {}), features.get("epoch", 0)
    groups = {group_id: content["configs"] for group_id, content in by_kind[GROUP].items()}
    before, topics.settings.groups = topics.settings.groups, groups
    for group_id in before.keys() | groups.keys():
        if before.get(group_id) != groups.get(group_id):
            group_changed(group_id)


def _apply_brokers(of_all: dict[str, str], of_one: dict[int, dict[str, str]], topics: Topics) -> None:
    settings = topics.settings
    if (of_all, of_one) != (settings.altered, settings.altered_of):
        settings.altered, settings.altered_of = of_all, of_one
        for topic in topics.all():
            topics.apply_settings(topic)


def _apply_topics(specs: Mapping[str, Any], topics: Topics) -> None:
    for topic in topics.all():
        if topic.name in specs:
            is_another = bytes.fromhex(specs[topic.name]["id"]) != topic.id
        else:
            is_another = topic.name != OFFSETS_TOPIC
        if is_another:
            topics.delete(topic)
    for name, spec in specs.items():
        existing = topics.named(name)
        if existing is None:
            replicas = topics.around(spec["partitions"], spec["replicas"])
            topics.create(name, replicas, spec["configs"], id=bytes.fromhex(spec["id"]))
            continue
        if spec["partitions"] < len(existing.partitions):
            topics.shrink(existing, spec["partitions"])
        elif spec["partitions"] > len(existing.partitions):
            topics.grow(existing, topics.around(spec["partitions"] - len(existing.partitions), spec["replicas"]))
        if spec["configs"] != existing.configs:
            topics.configure(existing, spec["configs"])


def _text(**fields: Any) -> str:
    return json.dumps(fields, sort_keys=True)

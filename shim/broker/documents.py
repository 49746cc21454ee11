"""What all processes of a cluster must know alike of topics and settings, as text that a store keeps.

Decides what such a document says, and what must be done to the topics here for them to be as the documents say. Does
not know the store, nor who changed a document. Who leads a partition is in none: every process works that out from who
is there (`shim/server/placement.py`), and logs are their leader's alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from kafka_shim.broker.topics import OFFSETS_TOPIC, Topics

Documents: TypeAlias = Mapping[tuple[str, str], str]
"""`(kind, name)` -> text."""

TOPIC: Final = "topic"
GROUP: Final = "group"
"""The configuration of one group."""
BROKERS: Final = "brokers"
"""What clients have set for all brokers; its name is empty."""


def describe(topics: Topics) -> dict[tuple[str, str], str]:
    """The documents that say how these topics and their settings are."""
    documents = {
        (TOPIC, topic.name): _text(
            id=topic.id.hex(),
            partitions=len(topic.partitions),
            replicas=len(topic.partitions[0].replicas),
            configs=topic.configs,
        )
        for topic in topics.all()
    }
    for group_id, configs in topics.settings.groups.items():
        documents[GROUP, group_id] = _text(configs=configs)
    if topics.settings.altered:
        documents[BROKERS, ""] = _text(configs=topics.settings.altered)
    return documents


def changes(before: Documents, after: Documents) -> dict[tuple[str, str], str | None]:
    """What makes the documents `before` those `after`; None is a document that goes."""
    gone: dict[tuple[str, str], str | None] = {key: None for key in before if key not in after}
    return gone | {key: value for key, value in after.items() if before.get(key) != value}


def obey(documents: Documents, topics: Topics, group_changed: Callable[[str], None]) -> None:
    """Let topics and settings be as the documents say; `group_changed(group_id)` is told of new values of a group.

    `__consumer_offsets` is made by every process for itself, and stays where no document has it.
    """
    by_kind: dict[str, dict[str, Any]] = {TOPIC: {}, GROUP: {}, BROKERS: {}}
    for (kind, name), text in documents.items():
        by_kind.setdefault(kind, {})[name] = json.loads(text)
    _obey_brokers(by_kind[BROKERS].get("", {}).get("configs", {}), topics)
    _obey_topics(by_kind[TOPIC], topics)
    groups = {group_id: said["configs"] for group_id, said in by_kind[GROUP].items()}
    known, topics.settings.groups = topics.settings.groups, groups
    for group_id in known.keys() | groups.keys():
        if known.get(group_id) != groups.get(group_id):
            group_changed(group_id)


def _obey_brokers(configs: dict[str, str], topics: Topics) -> None:
    if configs != topics.settings.altered:
        topics.settings.altered = configs
        for topic in topics.all():
            topics.apply_settings(topic)


def _obey_topics(said: Mapping[str, Any], topics: Topics) -> None:
    for topic in topics.all():
        if topic.name in said:
            is_another = bytes.fromhex(said[topic.name]["id"]) != topic.id
        else:
            is_another = topic.name != OFFSETS_TOPIC
        if is_another:
            topics.delete(topic)
    for name, each in said.items():
        known = topics.named(name)
        if known is None:
            replicas = topics.around(each["partitions"], each["replicas"])
            topics.create(name, replicas, each["configs"], id=bytes.fromhex(each["id"]))
            continue
        if each["partitions"] > len(known.partitions):
            topics.grow(known, topics.around(each["partitions"] - len(known.partitions), each["replicas"]))
        if each["configs"] != known.configs:
            topics.configure(known, each["configs"])


def _text(**fields: Any) -> str:
    return json.dumps(fields, sort_keys=True)

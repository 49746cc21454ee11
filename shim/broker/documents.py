"""Topics and settings as documents that a store keeps: for the next start, and for processes that share them.

No document has the leader of a partition: every process computes it from the list of running processes
(`shim/server/placement.py`). Logs are only on their leader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from kafka_shim.broker.settings import Format, Settings
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topic, Topics

Documents: TypeAlias = Mapping[tuple[str, str], str]
"""`(kind, name)` -> text."""

TOPIC: Final = "topic"
GROUP: Final = "group"
"""The configuration of one group."""
FEATURES: Final = "features"
"""The levels of features that clients have changed; its name is empty."""
BROKERS: Final = "brokers"
"""The values that clients have set for all brokers (its name is empty) or for one (its name is the node id)."""

ACLS: Final = "acls"
"""All ACLs; its name is empty."""
SCRAM: Final = "scram"
"""The credentials of users that administrators have set; its name is empty."""
TOKEN: Final = "token"
"""One delegation token, by its id."""
QUOTAS: Final = "quotas"
"""The quotas of users, client ids and addresses; its name is empty."""
CLUSTER: Final = "cluster"
"""The format of the store; its name is empty."""


def describe(topics: Topics) -> dict[tuple[str, str], str]:
    """Return the documents of these topics and their settings."""
    documents = of_settings(topics.settings)
    for group_id in topics.settings.groups:
        documents |= of_group(topics.settings, group_id)
    for topic in topics.all():
        documents |= of_topic(topic)
    return documents


def of_topic(topic: Topic) -> dict[tuple[str, str], str]:
    """Return the document of one topic."""
    text = _text(
        id=topic.id.hex(),
        partitions=len(topic.partitions),
        replicas=len(topic.partitions[0].replicas),
        configs=topic.configs,
    )
    return {(TOPIC, topic.name): text}


def of_group(settings: Settings, group_id: str) -> dict[tuple[str, str], str]:
    """Return the document of the values that clients have set for one group; none without values."""
    values = settings.groups.get(group_id)
    return {} if values is None else {(GROUP, group_id): _text(configs=values)}


def of_settings(settings: Settings) -> dict[tuple[str, str], str]:
    """Return the documents of all settings except those of topics and groups."""
    documents = {}
    if settings.altered:
        documents[BROKERS, ""] = _text(configs=settings.altered)
    for node_id, configs in settings.altered_of.items():
        documents[BROKERS, str(node_id)] = _text(configs=configs)
    if settings.features_epoch:
        documents[FEATURES, ""] = _text(levels=settings.features, epoch=settings.features_epoch)
    if settings.acls:
        documents[ACLS, ""] = _text(acls=settings.acls)
    if settings.scram:
        documents[SCRAM, ""] = _text(scram=settings.scram)
    for token_id, fields in settings.tokens.items():
        documents[TOKEN, token_id] = _text(token=fields)
    if settings.quotas:
        documents[QUOTAS, ""] = _text(quotas=[*settings.quotas.items()])
    if settings.format is not None:
        documents[CLUSTER, ""] = _text(release=settings.format.release, id=settings.format.cluster_id)
    return documents


def changes(before: Documents, after: Documents) -> dict[tuple[str, str], str | None]:
    """Return the changes that turn the documents `before` into `after`; None deletes a document."""
    gone: dict[tuple[str, str], str | None] = {key: None for key in before if key not in after}
    return gone | {key: value for key, value in after.items() if before.get(key) != value}


def apply(documents: Documents, topics: Topics) -> None:
    """Change topics and settings to match the documents. `__consumer_offsets` stays even without a document."""
    kinds = TOPIC, GROUP, BROKERS, FEATURES, ACLS, SCRAM, TOKEN, QUOTAS, CLUSTER
    by_kind: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    for (kind, name), text in documents.items():
        by_kind.setdefault(kind, {})[name] = json.loads(text)
    of_brokers = {name: content["configs"] for name, content in by_kind[BROKERS].items()}
    of_all = of_brokers.pop("", {})
    _apply_brokers(of_all, {int(node_id): configs for node_id, configs in of_brokers.items()}, topics)
    _apply_topics(by_kind[TOPIC], topics)
    features = by_kind[FEATURES].get("", {})
    topics.settings.features, topics.settings.features_epoch = features.get("levels", {}), features.get("epoch", 0)
    acls = tuple(tuple(each) for each in by_kind[ACLS].get("", {}).get("acls", ()))
    if acls != topics.settings.acls:
        # Equal ACLs stay the same object, since another means a change.
        topics.settings.acls = acls
    topics.settings.scram = tuple(tuple(each) for each in by_kind[SCRAM].get("", {}).get("scram", ()))
    topics.settings.tokens = {token_id: tuple(content["token"]) for token_id, content in by_kind[TOKEN].items()}
    topics.settings.set_quotas(
        {
            tuple((kind, name) for kind, name in entity): values
            for entity, values in by_kind[QUOTAS].get("", {}).get("quotas", ())
        }
    )
    topics.settings.groups = {group_id: content["configs"] for group_id, content in by_kind[GROUP].items()}
    if cluster := by_kind[CLUSTER].get(""):
        topics.settings.format = Format(cluster["release"], cluster["id"])


def _apply_brokers(of_all: dict[str, str], of_one: dict[int, dict[str, str]], topics: Topics) -> None:
    settings = topics.settings
    if (of_all, of_one) != (settings.altered, settings.altered_of):
        settings.altered, settings.altered_of = of_all, of_one
        topics.apply_all_settings()


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

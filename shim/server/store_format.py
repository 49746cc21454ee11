"""The format of a store: the newest release that opened it, and the id of its cluster."""

from __future__ import annotations

from kafka_shim.apis.releases import RELEASES
from kafka_shim.broker.admin.features import unsupported
from kafka_shim.broker.settings import Format
from kafka_shim.broker.topics import Topics
from kafka_shim.persistence.store import StoreError


def open_as(release: str, topics: Topics) -> None:
    """Make the store of these topics one of `release`, with the id of its cluster, or of `topics` for a new store.

    Raises StoreError if the store has a feature at a level that the release does not support. Kafka does not start then
    either.
    """
    settings = topics.settings
    before = settings.format or Format(release, topics.cluster_id)
    above = unsupported(release, before.release, settings)
    if above or before.release not in RELEASES:
        levels = ", ".join(above) or "its features"
        raise StoreError(
            f"The store is one of Kafka {before.release}, with {levels}, which Kafka {release} does not support: start"
            f" with --as-version {before.release}, where these levels can be lowered first."
        )
    settings.format = Format(release, before.cluster_id)
    topics.cluster_id = before.cluster_id

"""One object for each request that changes topics or settings, with its function and arguments, so that it can be run
twice.

Processes that share their topics run a change on a copy of them, and run it again if another process came first
(`shim/server/catalogue.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kafka_shim.apis.alter_client_quotas import AlterClientQuotasRequest
from kafka_shim.apis.alter_configs import AlterConfigsRequest
from kafka_shim.apis.create_partitions import CreatePartitionsRequest
from kafka_shim.apis.create_topics import CreateTopicsRequest
from kafka_shim.apis.delete_topics import DeleteTopicsRequest
from kafka_shim.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_shim.apis.update_features import UpdateFeaturesRequest
from kafka_shim.apis.wire import Message
from kafka_shim.broker.admin import features, quotas
from kafka_shim.broker.admin.configs import Configs
from kafka_shim.broker.admin.topics import Admin, Mutations, Room
from kafka_shim.broker.topics import Topics


class Change(NamedTuple):
    """A request to broker `node_id` at `now`. `disabled_is_73`: see `Admin.delete_topics`; `room`: see
    `Admin.create_partitions`."""

    request: Any
    node_id: int
    release: str
    now: float
    disabled_is_73: bool = False
    mutations: Mutations | None = None
    room: Room | None = None

    def apply(self, topics: Topics) -> Message:
        """Change the topics, and return the answer."""
        return _RULES[type(self.request)](self, topics)


_RULES: Final[dict[type[Message], Callable[[Change, Topics], Message]]] = {
    CreateTopicsRequest: lambda c, topics: Admin(topics, c.release).create_topics(c.request, c.now, c.mutations),
    DeleteTopicsRequest: lambda c, topics: Admin(topics).delete_topics(
        c.request, c.now, c.mutations, disabled_is_73=c.disabled_is_73
    ),
    CreatePartitionsRequest: lambda c, topics: Admin(topics).create_partitions(c.request, c.now, c.mutations, c.room),
    AlterConfigsRequest: lambda c, topics: Configs(c.node_id, topics, c.release).alter_configs(c.request),
    IncrementalAlterConfigsRequest: lambda c, topics: Configs(c.node_id, topics, c.release).incremental_alter_configs(
        c.request
    ),
    AlterClientQuotasRequest: lambda c, topics: quotas.alter(c.request, topics.settings),
    UpdateFeaturesRequest: lambda c, topics: features.update(c.release, topics, c.request),
}

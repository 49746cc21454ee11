"""The requests about delegation tokens, for a server with listeners by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kafka_shim.apis.expire_delegation_token import ExpireDelegationTokenResponse
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import Message
from kafka_shim.groups.interface import Client, Parked
from kafka_shim.security.delegation import Removal, Tokens
from kafka_shim.security.token_requests import create_token, describe_tokens, expire_token, renew_token
from kafka_shim.server.cluster import Cluster
from kafka_shim.server.extensions import Extension
from kafka_shim.server.jointly import change_durably, change_together, once_durable
from kafka_shim.server.requests import REQUESTS

Rule: TypeAlias = Callable[[Any, Client, Tokens, int], Message]
"""From a request, its client, the tokens and the time in ms since the epoch to the answer."""


def requests_about(tokens: Tokens) -> Extension:
    """Return the rules of the four APIs on these tokens."""
    rules = {
        ApiKey.CREATE_DELEGATION_TOKEN: _durable(create_token, tokens),
        ApiKey.RENEW_DELEGATION_TOKEN: _durable(renew_token, tokens),
        ApiKey.EXPIRE_DELEGATION_TOKEN: _durable(expire_token, tokens),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: _durable(_describe, tokens),
    }
    return Extension({APIS[key]: REQUESTS[key]._replace(rule=rule) for key, rule in rules.items()})


def _describe(request: Any, client: Client, tokens: Tokens, now: int) -> Message:
    return describe_tokens(request, client, tokens)


def _durable(rule: Rule, tokens: Tokens) -> Callable[[Any, Any], Message | Parked]:
    """Return the rule with an answer that waits until the store has the tokens."""

    def answer(request: Any, exchange: Any) -> Message | Parked:
        now, client = int((exchange.arrived + tokens.wall_offset) * 1000), exchange.client
        if rule is _describe:
            return once_durable(exchange, rule(request, client, tokens, now))
        return change_durably(exchange, tokens, lambda of_tokens: rule(request, client, of_tokens, now))

    return answer


def keep(tokens: Tokens, cluster: Cluster) -> None:
    """Keep tokens with the settings of a cluster, and remove them after their end by its clock."""
    tokens.place, tokens.wall_offset = cluster.topics.settings, cluster.wall_offset
    if not tokens.are_on:
        return
    broker = next(iter(cluster.nodes.values())).broker
    shared = broker.shared

    def remove(ids: set[str]) -> None:
        if shared is None:
            tokens.remove(ids)
        else:
            change_together(shared, None, lambda topics: _removed(tokens.at(topics.settings), ids))

    broker.repeat(Removal(tokens, lambda now: int((now + tokens.wall_offset) * 1000), cluster.clock(), remove))


def _removed(tokens: Tokens, ids: set[str]) -> Message:
    """Remove tokens. The answer is for no client."""
    tokens.remove(ids)
    return ExpireDelegationTokenResponse()

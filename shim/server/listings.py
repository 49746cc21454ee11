"""Division of the requests that list all groups or transactional ids of a broker: a few bytes ask for all of them.

The parts are the request itself, again and again; `Exchange.common` has the ids of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from kafka_shim.apis.list_groups import ListGroupsRequest
from kafka_shim.apis.list_transactions import ListTransactionsRequest
from kafka_shim.server.exchange import Exchange

LISTED: Final = 1000
"""Groups or transactional ids of a part."""

_Request = TypeVar("_Request")


def list_groups_parts(request: ListGroupsRequest, call: Exchange) -> Iterator[ListGroupsRequest] | None:
    """Divide the answer of a broker with many groups."""
    groups = call.groups
    return None if len(groups.groups) <= LISTED or groups.is_loading else _listing(request, call, groups.group_ids())


def list_transactions_parts(
    request: ListTransactionsRequest, call: Exchange
) -> Iterator[ListTransactionsRequest] | None:
    """Divide the answer of a broker with many transactional ids, unless a pattern may park the request."""
    ids = call.broker.transaction_views.ids()
    is_short = len(ids) <= LISTED or bool(request.transactional_id_pattern) or call.groups.is_loading
    return None if is_short else _listing(request, call, ids)


def _listing(request: _Request, call: Exchange, ids: Sequence[Any]) -> Iterator[_Request]:
    for at in range(0, len(ids), LISTED):
        call.common[:] = ids[at : at + LISTED]
        is_last = call.groups.is_loading
        yield request
        if is_last:
            # The error of the last part is that of the answer.
            return

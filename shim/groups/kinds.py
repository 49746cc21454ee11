"""Kinds of groups: the list of them, and lookup by request or record.

`Group` in `group.py` is their interface; `docs/kinds.md` tells how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kafka_shim.groups.classic import records
from kafka_shim.groups.classic.kind import KIND as CLASSIC
from kafka_shim.groups.consumer.kind import KIND as CONSUMER
from kafka_shim.groups.group import Group
from kafka_shim.groups.rows import Row
from kafka_shim.groups.shard import Kind
from kafka_shim.groups.share.kind import KIND as SHARE
from kafka_shim.groups.streams.kind import KIND as STREAMS
from kafka_shim.persistence.own_types import type_of


class Kinds:
    """Ordered kinds of groups. Without a group, the first kind with a rule for a request answers it."""

    def __init__(self, *kinds: Kind) -> None:
        self.by_name = {kind.name: kind for kind in kinds}
        """Kinds by type."""
        self.by_record = {record: kind for kind in kinds for record in (*kind.records, *kind.own_records)}
        """Kind that replays a record, by class of its key."""
        self.own_types = {type_of(key): (key, value) for kind in kinds for key, value in kind.own_records.items()}
        """Classes of key and value by record type, for types that only a kind knows."""
        self.checks = {request: check for kind in kinds for request, check in kind.checks.items()}
        """Checks before the lookup of the group, by class of request."""
        self._defaults = {request: kind for kind in reversed(kinds) for request in kind.rules}
        defaults = {request: kind.rules[request] for request, kind in self._defaults.items()}
        self.rules: dict[tuple[type, str | None], Callable[..., Any]] = {
            (request, None if kind is None else kind.name): rule
            for kind in (None, *kinds)
            for request, rule in (defaults if kind is None else {**defaults, **kind.rules}).items()
        }
        """Rule by class of request and type of the group, None without a group: that of the group's kind, else of the
        first kind with one. In the second case the rule may find a group of another kind."""

    def __iter__(self) -> Iterator[Kind]:
        return iter(self.by_name.values())

    def row_of(self, request: Any, group: Group | None, *, member_id_required: bool) -> Row | None:
        """Return the row of the table that selects the rule for a request now; None if no table does.

        `member_id_required`: a version of JoinGroup with MEMBER_ID_REQUIRED (v4+, KIP-394).
        """
        default = self._defaults.get(type(request))
        own = None if group is None else self.by_name[group.type]
        kind = default if own is None or (default is not None and type(request) not in own.rules) else own
        return None if kind is None else kind.row_of(group, request, member_id_required=member_id_required)


KINDS: Final = Kinds(CLASSIC, CONSUMER, SHARE, STREAMS)
"""Kinds of a coordinator."""

SIMPLE: Final = CLASSIC
"""Kind of a group that a commit created and that has offsets alone."""

precreate: Final = records.precreate
"""Creates a group before its first member."""

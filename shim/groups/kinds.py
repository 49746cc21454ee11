"""The kinds of groups: which there are, and which of them answers a request or replays a record.

Decides only that. What every kind can do is `Group` in `group.py`; how one is added is in `docs/kinds.md`.
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


class Kinds:
    """Kinds of groups, in order: a request that several have a rule for goes, if there is no group, to the first."""

    def __init__(self, *kinds: Kind) -> None:
        self.by_name = {kind.name: kind for kind in kinds}
        """By the type of its groups."""
        self.by_record = {record: kind for kind in kinds for record in kind.records}
        """By class of its key, the kind that replays a record."""
        self._defaults = {request: kind for kind in reversed(kinds) for request in kind.rules}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self.by_name.values())

    def rule_for(self, request: type, group: Group | None = None) -> Callable[..., Any]:
        """The rule that answers a class of request: that of the group's kind. If that kind has none, or there is no
        group, it is the rule of the first kind that has one; that rule then finds a group of another kind."""
        rule = None if group is None else self.by_name[group.type].rules.get(request)
        return self._defaults[request].rules[request] if rule is None else rule

    def row_of(self, request: Any, group: Group | None, *, member_id_required: bool) -> Row | None:
        """The row of a table that decides about a request as things are now, by the kind whose rule answers it; None
        if no table decides. `member_id_required`: a version of JoinGroup whose members come back with the id they were
        given (v4+, KIP-394)."""
        default = self._defaults.get(type(request))
        own = None if group is None else self.by_name[group.type]
        kind = default if own is None or (default is not None and type(request) not in own.rules) else own
        return None if kind is None else kind.row_of(group, request, member_id_required=member_id_required)


KINDS: Final = Kinds(CLASSIC, CONSUMER, SHARE, STREAMS)
"""The kinds that a coordinator has."""

SIMPLE: Final = CLASSIC
"""The kind of a group that was made by a commit and has only offsets."""

precreate: Final = records.precreate
"""Makes a group before anybody joins it."""

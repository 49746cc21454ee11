"""The kinds of groups: which there are, and which rule of which kind answers a request or replays a record.

Decides only that. What every kind can do is `Group` in `group.py`; how one is added is in `docs/kinds.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka_shim.groups.classic import records
from kafka_shim.groups.classic.kind import KIND as CLASSIC
from kafka_shim.groups.consumer.kind import KIND as CONSUMER
from kafka_shim.groups.group import Group
from kafka_shim.groups.shard import Kind

KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in (CLASSIC, CONSUMER)}
"""By the type of its groups. A request that several kinds have a rule for is, where there is no group, for the
first of them."""

SIMPLE: Final = CLASSIC
"""The kind of a group that was made by a commit and has only offsets."""

precreate: Final = records.precreate
"""Makes a group before anybody joins it."""

BY_RECORD: Final[dict[type, Kind]] = {record: kind for kind in KINDS.values() for record in kind.records}
"""By class of its key, the kind that replays a record."""

_DEFAULT_RULES: Final[dict[type, Callable[..., Any]]] = {
    request: rule for kind in reversed(KINDS.values()) for request, rule in kind.rules.items()
}


def rule_for(request: type, group: Group | None = None) -> Callable[..., Any]:
    """The rule that answers a class of request: that of the group's kind, or if it has none, or there is no group, that
    of the first kind that has one, which then finds a group that is not its own."""
    rule = None if group is None else KINDS[group.type].rules.get(request)
    return _DEFAULT_RULES[request] if rule is None else rule

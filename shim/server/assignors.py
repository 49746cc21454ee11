"""Server-side assignors by name: Kafka's own, and a user's, which are found as entry points.

Decides which assignors `group.consumer.assignors` names. A package offers one in its `pyproject.toml`:

    [project.entry-points."kafka_shim.assignors"]
    rack-aware = "my_package.assignors:RackAware"

and the server is started with `--config group.consumer.assignors=uniform,range,rack-aware`. What an assignor is called
with and answers is in `kafka_shim.groups.assignors.spec`; an answer that cannot be used is refused.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

from kafka_shim.broker.setting import as_list
from kafka_shim.groups.assignors.registry import BUILT_IN, Assignors
from kafka_shim.groups.assignors.spec import Assignor
from kafka_shim.groups.config import ConfigError

ENTRY_POINTS: Final = "kafka_shim.assignors"


def load_assignors(names: str) -> Assignors:
    """The assignors of a list with commas, the default first. Raises ConfigError, in one sentence."""
    found = [_load(name) for name in as_list(names)]
    if not found:
        raise ConfigError("group.consumer.assignors must name at least one assignor.")
    return Assignors(found)


def _load(name: str) -> Assignor:
    if name in BUILT_IN:
        return BUILT_IN[name]
    offered = {each.name: each for each in entry_points(group=ENTRY_POINTS)}
    if name not in offered:
        names = ", ".join([*BUILT_IN, *offered])
        raise ConfigError(f"group.consumer.assignors names {name!r}, which is no assignor; there are {names}.")
    try:
        made = offered[name].load()
        assignor: Assignor = made() if isinstance(made, type) else made
    except Exception as error:
        raise ConfigError(f"Assignor {name} cannot be loaded: {type(error).__name__}: {error}.") from error
    if getattr(assignor, "name", None) != name or not callable(getattr(assignor, "assign", None)):
        raise ConfigError(f"Assignor {name} must have the attribute name, {name!r}, and a method assign.")
    return assignor

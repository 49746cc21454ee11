"""Loads server-side assignors by name: Kafka's own, and a user's, which are entry points.

`group.consumer.assignors` lists the names. A package offers an assignor in its `pyproject.toml`:

    [project.entry-points."kafka_shim.assignors"]
    rack-aware = "my_package.assignors:RackAware"

and the server is started with `--config group.consumer.assignors=uniform,range,rack-aware`.
`kafka_shim.groups.assignors.spec` defines the call and its result; an unusable result is refused.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.broker.setting import as_list
from kafka_shim.groups.assignors.registry import BUILT_IN, Assignors
from kafka_shim.groups.assignors.spec import Assignor
from kafka_shim.groups.config import ConfigError

ENTRY_POINTS: Final = "kafka_shim.assignors"


def load_assignors(names: str) -> Assignors:
    """Load the assignors of a list with commas, the default first. Raises ConfigError, in one sentence."""
    assignors = [_load(name) for name in as_list(names)]
    if not assignors:
        raise ConfigError("group.consumer.assignors must name at least one assignor.")
    return Assignors(assignors)


def _load(name: str) -> Assignor:
    if name in BUILT_IN:
        return BUILT_IN[name]
    # Imported here: few coordinators have an assignor of a user.
    from importlib.metadata import entry_points

    offered = {each.name: each for each in entry_points(group=ENTRY_POINTS)}
    if name not in offered:
        names = ", ".join([*BUILT_IN, *offered])
        raise ConfigError(f"group.consumer.assignors names {name!r}, which is no assignor; there are {names}.")
    try:
        factory = offered[name].load()
        assignor: Assignor = factory() if isinstance(factory, type) else factory
    except Exception as error:
        raise ConfigError(f"Assignor {name} cannot be loaded: {type(error).__name__}: {error}.") from error
    if getattr(assignor, "name", None) != name or not callable(getattr(assignor, "assign", None)):
        raise ConfigError(f"Assignor {name} must have the attribute name, {name!r}, and a method assign.")
    return assignor

"""Checks of a test's arguments before anything starts.

A wrong value raises ValueError in one sentence that names the argument and its value: typos fail at once, and not by
the timeout of a wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from math import isfinite
from typing import Any

from kafka_shim.apis.profiles import PROFILES
from kafka_shim.broker.settings import BROKER_SETTINGS, unknown_setting
from kafka_shim.broker.topics import name_refusal
from kafka_shim.groups.classic.states import State
from kafka_shim.groups.config import NAMES
from kafka_shim.lab.interception import api_names, similar
from kafka_shim.server.extensions import load as load_experiments


def topics_of(value: Any) -> dict[str, int]:
    """Check the topics: numbers of partitions by name."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"topics must map names to numbers of partitions, such as {{'orders': 4}}, not {value!r}.")
    for name, partitions in value.items():
        if refusal := name_refusal(str(name)):
            raise ValueError(f"{refusal}.")
        whole(f"The partitions of topic {name!r}", partitions, 1)
    return dict(value)


def settings_of(value: Any) -> dict[str, str]:
    """Check Kafka's configuration, and return its values as text."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"config must map Kafka setting names to values, not {value!r}.")
    names = {*NAMES, *BROKER_SETTINGS}
    for name in value:
        if name not in names:
            raise ValueError(unknown_setting(str(name)))
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in value.items()}


def release_of(value: Any) -> str | None:
    """Check the Kafka release to pose as."""
    if value is not None and value not in PROFILES:
        raise ValueError(f"release must be one of {', '.join(PROFILES)}, not {value!r}.")
    return value  # type: ignore[no-any-return]


def experiments_of(value: Any) -> Sequence[str]:
    """Check the names of experiments, and load them."""
    names("experimental", value)
    load_experiments(value)
    return tuple(value)


def faults_of(value: Any) -> Sequence[Mapping[str, Any]]:
    """Check faults, each as the keywords of `fault`."""
    if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
        raise ValueError(f"faults must be a list of the keywords of fault(), not {value!r}.")
    for fault in value:
        if not isinstance(fault, Mapping) or "action" not in fault:
            raise ValueError(f"A fault must have its keywords, action among them, not {fault!r}.")
    return value


def offsets_of(value: Any) -> Mapping[tuple[str, int], int]:
    """Check offsets by topic and partition."""
    right = isinstance(value, Mapping) and all(
        isinstance(key, tuple) and [type(each) for each in key] == [str, int] and type(offset) is int
        for key, offset in value.items()
    )
    if not right:
        raise ValueError(f"offsets must be by topic and partition, such as {{('orders', 0): 17}}, not {value!r}.")
    return value  # type: ignore[no-any-return]


def match_of(value: Mapping[str, Any]) -> None:
    """Check the fields of a match: the state must exist."""
    state = value.get("state")
    if isinstance(state, str) and not any(fnmatchcase(each.value, state) for each in State):
        raise ValueError(f"{state!r} is not a state of a group; there are {', '.join(State)}.")


def event_of(kind: str, value: Mapping[str, Any]) -> None:
    """Check a kind of event and some of its fields, so that no wait is for an event that never comes."""
    # Imported here: few tests wait for an event by its fields.
    from kafka_shim.trace.schema import EVENTS

    event = EVENTS.get(kind)
    if event is None:
        raise ValueError(f"{kind!r} is not a kind of event; there are {', '.join(EVENTS)}.")
    fields = [field.name for field in event.fields]
    if unknown := [name for name in value if name not in fields]:
        raise ValueError(f"Events of kind {kind} have no {', '.join(unknown)}; they have {', '.join(fields)}.")
    api = value.get("api")
    if isinstance(api, str) and api not in api_names():
        raise ValueError(f"{api!r} is not an API; {similar(str(api), api_names())}")


def names(label: str, value: Any) -> None:
    """Check a list of texts; a single text is refused."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{label} must be a list of names, not {value!r}.")


def whole(label: str, value: Any, least: int) -> None:
    """Check a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{label} must be a whole number of at least {least}, not {value!r}.")


def seconds(label: str, value: Any, *, positive: bool = False) -> None:
    """Check a time in seconds of at least 0; with `positive` more than 0."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not isfinite(value) or value < 0:
        raise ValueError(f"{label} must be seconds of at least 0, not {value!r}.")
    if positive and not value:
        raise ValueError(f"{label} must be longer than 0 seconds.")

"""What a test asks of the kit, looked at before anything is started.

Decides whether it can be. What cannot raises ValueError in one sentence that names the argument and what was given, so
that a slip of the pen is not found by a wait that ends in vain. It does not know what is done with the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from math import isfinite
from typing import Any

from kafka_shim.apis.profiles import PROFILES
from kafka_shim.broker.settings import BROKER_SETTINGS, unknown_setting
from kafka_shim.groups.classic.states import State
from kafka_shim.groups.config import NAMES
from kafka_shim.groups.trace import EVENTS
from kafka_shim.lab.interception import API_NAMES


def topics_of(given: Any) -> dict[str, int]:
    """Partitions by topic."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"topics are numbers of partitions by name, such as {{'orders': 4}}, not {given!r}.")
    for name, partitions in given.items():
        whole(f"The partitions of topic {name!r}", partitions, 1)
    return dict(given)


def settings_of(given: Any) -> dict[str, str]:
    """Kafka's configuration, its values as text."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"config is values by Kafka's names for them, not {given!r}.")
    known = {*NAMES, *BROKER_SETTINGS}
    for name in given:
        if name not in known:
            raise ValueError(unknown_setting(str(name)))
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}


def release_of(given: Any) -> str | None:
    """The Kafka release to pose as."""
    if given is not None and given not in PROFILES:
        raise ValueError(f"release is one of {', '.join(PROFILES)}, not {given!r}.")
    return given  # type: ignore[no-any-return]


def faults_of(given: Any) -> Sequence[Mapping[str, Any]]:
    """Faults as the keywords of `fault`."""
    if isinstance(given, (str, Mapping)) or not isinstance(given, Sequence):
        raise ValueError(f"faults are a list of the keywords of fault(), not {given!r}.")
    for fault in given:
        if not isinstance(fault, Mapping) or "action" not in fault:
            raise ValueError(f"A fault is its keywords, action among them, not {fault!r}.")
    return given


def offsets_of(given: Any) -> Mapping[tuple[str, int], int]:
    """Offsets by topic and partition."""
    right = isinstance(given, Mapping) and all(
        isinstance(key, tuple) and [type(each) for each in key] == [str, int] and type(offset) is int
        for key, offset in given.items()
    )
    if not right:
        raise ValueError(f"offsets are by topic and partition, such as {{('orders', 0): 17}}, not {given!r}.")
    return given  # type: ignore[no-any-return]


def match_of(given: Mapping[str, Any]) -> None:
    """Fields of a match: that there is such a state."""
    state = given.get("state")
    if isinstance(state, str) and not any(fnmatchcase(each.value, state) for each in State):
        raise ValueError(f"{state!r} is not a state of a group; there are {', '.join(State)}.")


def event_of(kind: str, given: Mapping[str, Any]) -> None:
    """A kind of event and some of its fields: nobody waits for what never comes because of a slip of the pen."""
    event = EVENTS.get(kind)
    if event is None:
        raise ValueError(f"{kind!r} is not a kind of event; there are {', '.join(EVENTS)}.")
    fields = [field.name for field in event.fields]
    if unknown := [name for name in given if name not in fields]:
        raise ValueError(f"Events of kind {kind} have no {', '.join(unknown)}; they have {', '.join(fields)}.")
    api = given.get("api")
    if isinstance(api, str) and api not in API_NAMES:
        raise ValueError(f"{api!r} is not an API; there are {', '.join(sorted(API_NAMES))}.")


def names(what: str, given: Any) -> None:
    """A list of texts, and not one text."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise ValueError(f"{what} are a list of names, not {given!r}.")


def whole(what: str, given: Any, least: int) -> None:
    """A whole number from `least` on."""
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise ValueError(f"{what} must be a whole number from {least} on, not {given!r}.")


def seconds(what: str, given: Any, *, positive: bool = False) -> None:
    """A time in seconds, from 0 on or longer than that."""
    if not isinstance(given, (int, float)) or isinstance(given, bool) or not isfinite(given) or given < 0:
        raise ValueError(f"{what} must be seconds from 0 on, not {given!r}.")
    if positive and not given:
        raise ValueError(f"{what} must be longer than 0 seconds.")

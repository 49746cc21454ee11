"""The capabilities that some cases need: derived from the limits of a target, or declared by its user."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kafka_shim.conformance.targets.base import PROFILES, Limits


@dataclass(frozen=True)
class Capability:
    """One capability: the setting that grants it, and the reason for skips without it."""

    name: str
    setting: str
    value: Callable[[Limits], int]
    holds: Callable[[int], bool]
    otherwise: str

    def lack(self, limits: Limits) -> str:
        """Return why a target with these limits does not have it."""
        return f"{self.otherwise}: {self.setting} is {self.value(limits)}"


CAPABILITIES: Final = {
    each.name: each
    for each in (
        Capability(
            "short-sessions",
            "group.min.session.timeout.ms",
            lambda limits: limits.min_session_timeout,
            lambda value: value <= 2_000,
            "sessions are too long to wait for their end",
        ),
        Capability(
            "initial-delay",
            "group.initial.rebalance.delay.ms",
            lambda limits: limits.initial_rebalance_delay,
            lambda value: 100 <= value <= 10_000,
            "there is no delay before a first round that could be seen",
        ),
        Capability(
            "small-groups",
            "group.max.size",
            lambda limits: limits.max_group_size,
            lambda value: value <= 32,
            "a group cannot be filled",
        ),
        Capability(
            "small-consumer-groups",
            "group.consumer.max.size",
            lambda limits: limits.max_consumer_group_size,
            lambda value: value <= 32,
            "a consumer group cannot be filled",
        ),
        Capability(
            "small-streams-groups",
            "group.streams.max.size",
            lambda limits: limits.max_streams_group_size,
            lambda value: value <= 32,
            "a streams group cannot be filled",
        ),
        Capability(
            "frequent-expiry",
            "offsets.retention.check.interval.ms",
            lambda limits: limits.retention_check_interval,
            lambda value: value <= 5_000,
            "offsets expire too seldom to wait for it",
        ),
    )
}


def capabilities_of(limits: Limits) -> frozenset[str]:
    """Return the capabilities that these limits grant."""
    return frozenset(name for name, each in CAPABILITIES.items() if each.holds(each.value(limits)))


def lack_of(missing: Iterable[str], limits: Limits) -> str:
    """Return why a case that needs these is skipped."""
    return "; ".join(CAPABILITIES[name].lack(limits) for name in sorted(missing))


def advice(limits: Limits) -> str:
    """Return the settings for a faster and more complete run; empty if the present ones are good."""
    better = PROFILES["default"]
    current = {
        "group.initial.rebalance.delay.ms": limits.initial_rebalance_delay,
        "group.min.session.timeout.ms": limits.min_session_timeout,
    }
    slow = {name: value for name, value in current.items() if value > max(1_000, int(better[name]))}
    if not slow:
        return ""
    facts = " and ".join(f"{name} is {value}" for name, value in slow.items())
    wish = ", ".join(f"{name}={better[name]}" for name in slow)
    return f"{facts}: with {wish} a run is about ten times faster, and judges more cases"

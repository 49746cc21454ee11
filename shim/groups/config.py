"""Configuration of the group coordinator, with Kafka's names and defaults. Source: semantics 6.2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Final


class ConfigError(ValueError):
    """Invalid setting; the message is one sentence for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Settings of the group coordinator. A field's Kafka name has dots for underscores."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_assignors: str = "uniform,range"
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
    group_streams_acceptable_recovery_lag: int = 10_000
    group_streams_assignment_interval_ms: int = 1_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_streams_max_size: int = 2**31 - 1
    group_streams_num_standby_replicas: int = 0
    group_streams_rack_aware_assignment_tags: str = ""
    group_streams_session_timeout_ms: int = 45_000
    group_streams_task_offset_interval_ms: int = 60_000
    group_streams_topology_description_plugin_class: str = ""
    group_share_assignment_interval_ms: int = 1_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_max_size: int = 200
    group_share_session_timeout_ms: int = 45_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_num_partitions: int = 50
    offsets_commit_timeout_ms: int = 5_000

    def __post_init__(self) -> None:
        for name, least in AT_LEAST.items():
            value = getattr(self, name)
            if not least <= value < 2**31:
                raise ConfigError(f"{kafka_name(name)} must be from {least} to {2**31 - 1}, not {value}.")
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                f"group.min.session.timeout.ms ({self.group_min_session_timeout_ms}) is greater than"
                f" group.max.session.timeout.ms ({self.group_max_session_timeout_ms})."
            )
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigError(f"{kafka_name(name)} must be one of {', '.join(choices)}.")

    def with_settings(self, settings: Iterable[str]) -> GroupConfig:
        """Return this configuration with `name=value` strings applied; the last one of a name counts.

        Raises ConfigError for an unknown name, a value that is no integer or out of range.
        """
        values: dict[str, int | str] = {}
        for setting in settings:
            name, equals, text = (part.strip() for part in setting.partition("="))
            if not equals:
                raise ConfigError(f"{setting!r} is not of the form name=value.")
            if name not in NAMES:
                raise ConfigError(f"{name!r} is not a setting of the group coordinator; there are {', '.join(NAMES)}.")
            field_name = name.replace(".", "_")
            if isinstance(getattr(self, field_name), str):
                values[field_name] = text.lower() if field_name in _CHOICES else text
                continue
            try:
                values[field_name] = int(text)
            except ValueError:
                raise ConfigError(f"{name} must be an integer, not {text!r}.") from None
        return replace(self, **values)  # type: ignore[arg-type]


def kafka_name(field_name: str) -> str:
    """Return Kafka's name of a field of `GroupConfig`."""
    return field_name.replace("_", ".")


AT_LEAST: Final = {
    "group_min_session_timeout_ms": 1,
    "group_max_session_timeout_ms": 1,
    "group_initial_rebalance_delay_ms": 0,
    "group_max_size": 1,
    "group_consumer_assignment_interval_ms": 0,
    "group_consumer_heartbeat_interval_ms": 1,
    "group_consumer_max_size": 1,
    "group_consumer_regex_refresh_interval_ms": 10_000,
    "group_consumer_session_timeout_ms": 1,
    "group_streams_acceptable_recovery_lag": 0,
    "group_streams_assignment_interval_ms": 0,
    "group_streams_heartbeat_interval_ms": 1,
    "group_streams_initial_rebalance_delay_ms": 0,
    "group_streams_max_size": 1,
    "group_streams_num_standby_replicas": 0,
    "group_streams_session_timeout_ms": 1,
    "group_streams_task_offset_interval_ms": 1,
    "group_share_assignment_interval_ms": 0,
    "group_share_heartbeat_interval_ms": 1,
    "group_share_max_size": 1,
    "group_share_session_timeout_ms": 1,
    "offset_metadata_max_bytes": 0,
    "offsets_retention_minutes": 1,
    "offsets_retention_check_interval_ms": 1,
    "offsets_topic_num_partitions": 1,
    "offsets_commit_timeout_ms": 1,
}

_CHOICES: Final = {"group_consumer_migration_policy": ("bidirectional", "upgrade", "downgrade", "disabled")}

NAMES: Final[tuple[str, ...]] = tuple(kafka_name(field.name) for field in fields(GroupConfig))
"""Every setting, by Kafka's name."""

"""One configuration name: its type, its bounds, and the check of a value. All names are in `settings.py`."""

from __future__ import annotations

from enum import IntEnum
from math import inf
from typing import Final, NamedTuple

from kafka_shim.apis.releases import Rules

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1


class ConfigType(IntEnum):
    """The type of a value, by its number in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_LARGEST: Final = {ConfigType.SHORT: 2**15 - 1, ConfigType.INT: MAX_INT, ConfigType.LONG: MAX_LONG}


class Setting(NamedTuple):
    """One configuration name. `least` and `most` bound numbers, `choices` lists the legal names; `synonym` is the
    broker setting with the default for a topic or group; a `dynamic` one can change while the broker runs. An
    `internal` one is not shown to clients. A `default` of None means no value. A setting with a `rule` exists in the
    releases that have this rule of `Rules`."""

    name: str
    type: ConfigType
    default: str | None
    least: float = -inf
    most: float = inf
    choices: tuple[str, ...] = ()
    synonym: str = ""
    dynamic: bool = True
    internal: bool = False
    rule: str = ""

    def exists(self, rules: Rules) -> bool:
        """Return True if a release with these rules has the setting."""
        return not self.rule or getattr(rules, self.rule)

    def parsed(self, value: str) -> str:
        """Return a valid value as Kafka shows it once it has read the value."""
        if self.type is ConfigType.BOOLEAN:
            return value.lower()
        return ",".join(as_list(value)) if self.type is ConfigType.LIST else value

    def refusal(self, value: str) -> str | None:
        """Return the reason why `value` is refused, in a sentence, or None if it is valid."""
        if self.type is ConfigType.BOOLEAN:
            legal = value.lower() in ("true", "false")
            return None if legal else self._refused(value, "Expected value to be either true or false")
        if self.type in (*_LARGEST, ConfigType.DOUBLE):
            try:
                number = float(value) if self.type is ConfigType.DOUBLE else int(value)
            except ValueError:
                return self._refused(value, f"Not a number of type {self.type.name}")
            if abs(number) > _LARGEST.get(self.type, inf):
                return self._refused(value, f"Not a number of type {self.type.name}")
            if number < self.least:
                return self._refused(value, f"Value must be at least {self.least}")
            return self._refused(value, f"Value must be no more than {self.most}") if number > self.most else None
        if not self.choices:
            return None
        parts = [value]
        if self.type is ConfigType.LIST:
            parts = [part.strip() for part in value.split(",")] if value.strip() else []
            if len({*parts}) != len(parts):
                return f"Configuration '{self.name}' values must not be duplicated."
            if "" in parts:
                return f"Configuration '{self.name}' values must not be empty."
        if any(part not in self.choices for part in parts):
            return self._refused(value, f"String must be one of: {', '.join(self.choices)}")
        return None

    def _refused(self, value: str, why: str) -> str:
        return f"Invalid value {value} for configuration {self.name}: {why}"


def as_list(value: str) -> list[str]:
    """Return the elements of a LIST value."""
    return [part.strip() for part in value.split(",") if part.strip()]

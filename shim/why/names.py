"""What members are called in a text: short, and each name one member's.

Decides nothing else. A member id is a client id or group instance id followed by a UUID; the UUID helps nobody who
reads.
"""

from __future__ import annotations

from typing import Final

_UUID: Final = len("00000000-0000-0000-0000-000000000000")


class Names:
    """Names of members, given out in the order in which they are first met."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def __call__(self, member_id: str) -> str:
        """The client id or group instance id of a member, with a number from the second member of that name on."""
        name = self._names.get(member_id)
        if name is None:
            base = member_id[: -_UUID - 1] if len(member_id) > _UUID + 1 else member_id
            number = self._count[base] = self._count.get(base, 0) + 1
            name = self._names[member_id] = base if number == 1 else f"{base}#{number}"
        return name

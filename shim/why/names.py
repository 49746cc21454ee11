"""What members are called in a text: short, and each name one member's.

Decides nothing else. A member id is a client id or group instance id followed by a UUID; the UUID helps nobody who
reads. In KIP-848 it is a UUID alone, and the client id or group instance id comes from elsewhere.
"""

from __future__ import annotations

from typing import Final

_UUID: Final = len("00000000-0000-0000-0000-000000000000")
_BARE: Final = (_UUID, 22)
"""How long ids are that are nothing but a UUID: in hexadecimal, and in the Base64 that Kafka's clients write."""


class Names:
    """Names of members, given out in the order in which they are first met."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def __call__(self, member_id: str) -> str:
        """The client id or group instance id of a member, with a number from the second member of that name on."""
        name = self._names.get(member_id)
        if name is None:
            name = self._give(member_id, member_id[: -_UUID - 1] if len(member_id) > _UUID + 1 else member_id)
        return name

    def introduce(self, member_id: str, client: str) -> None:
        """A member of this client id or group instance id: its id may be a UUID alone, and is not its name then."""
        if client and len(member_id) in _BARE and member_id not in self._names:
            self._give(member_id, client)

    def _give(self, member_id: str, base: str) -> str:
        number = self._count[base] = self._count.get(base, 0) + 1
        name = self._names[member_id] = base if number == 1 else f"{base}#{number}"
        return name

"""Short and unique names of members for texts.

A member id is a client id or group instance id followed by a UUID; the UUID does not help a reader. In KIP-848 it is
only a UUID, and `introduce` adds the client id or group instance id.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.readable import readable
from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.members import client_id_of

_BARE: Final = (36, 22)
"""Lengths of ids that are only a UUID: in hexadecimal, and in the Base64 of Kafka's clients."""


class Names:
    """Names of members, assigned in the order of their first use."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def __call__(self, member_id: str) -> str:
        """Return the client id or group instance id of a member, with a number from the second member of that name
        on.
        """
        name = self._names.get(member_id)
        if name is None:
            name = self._give(member_id, client_id_of(member_id) or member_id)
        return name

    def introduce(self, member_id: str, client: str) -> None:
        """Register the client id or group instance id of a member, as its name if its id is only a UUID."""
        if client and len(member_id) in _BARE and member_id not in self._names:
            self._give(member_id, client)

    def _give(self, member_id: str, base: str) -> str:
        base = readable(base)
        number = self._count[base] = self._count.get(base, 0) + 1
        name = self._names[member_id] = base if number == 1 else f"{base}#{number}"
        return name


def names_of(history: GroupHistory) -> Names:
    """Return the names of all members of a group, in the order of their coming."""
    names = Names()
    for member_id, member in history.members.items():
        names.introduce(member_id, member.instance_id or member.client_id)
        names(member_id)
    return names

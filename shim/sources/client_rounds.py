"""`Round`: a generation, or an epoch, as the clients of a group saw it; `Members`: the clients of member ids."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafka_shim.sources.clients import Client, Membership
from kafka_shim.sources.signs import Sign, SignName
from kafka_shim.trace.members import client_id_of

_MEMBERS: Final = re.compile(r"(?:^\{|\), )(?P<member>[^{}]+?)=Assignment\(partitions=\[(?P<partitions>[^\]]*)\]")
"""A member in the assignments of Java's leader."""
_LATE_MS: Final = 500
"""All members of a generation receive its number at once; one that receives it so much later took another's place."""


_TOGETHER_MS: Final = 3_000
"""Generations without a number that come so close are one."""


@dataclass
class Round:
    """A generation with the lines in which its members learned of it. `assignments` are those of Java's leader, by
    member id; `replaces` has static members that took the place of another in this generation, each with that one.
    """

    generation: int
    joins: dict[str, Sign] = field(default_factory=dict)
    assignments: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    leader: str = ""
    assignment: Sign | None = None
    replaces: dict[str, str] = field(default_factory=dict)

    @property
    def first(self) -> Sign:
        """The first line about it: the requests to join were answered."""
        return min(self.joins.values(), key=time_of)

    @property
    def ended(self) -> int:
        """The time of the first answer to a request to join, milliseconds since 1970."""
        return time_of(self.first)

    @property
    def members(self) -> list[str]:
        """The ids of its members, as far as the logs have them."""
        return list(self.assignments) or [each for each in self.joins if each not in self.replaces]


class Members:
    """Member ids of the clients of a group."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self._of: dict[str, tuple[Client, Membership]] = {}
        self._joins: dict[int, list[tuple[int, str]]] = {}
        for client in clients:
            joins = self._joins[id(client)] = []
            for membership in client.memberships:
                self._of[membership.member_id] = client, membership
                signs = (each for each in membership.generations.values() if each.time is not None)
                joins += [(time_of(each), membership.member_id) for each in signs]
            joins.sort()

    def client(self, member_id: str) -> Client | None:
        """Return the client of a member id, None if its log is missing."""
        return self._of[member_id][0] if member_id in self._of else None

    def membership(self, member_id: str) -> Membership | None:
        """Return the newest membership of a member id."""
        return self._of[member_id][1] if member_id in self._of else None

    def at(self, client: Client, sign: Sign) -> str:
        """Return the member id of a client at the time of a sign; that of the sign if it was in no generation yet."""
        joins = self._joins.get(id(client), [])
        before = bisect_right(joins, time_of(sign), key=lambda each: each[0])
        return joins[before - 1][1] if before else sign.member


def rounds_of(clients: Sequence[Client], members: Members) -> list[Round]:
    """Return the generations that the clients saw, in order."""
    rounds: dict[int, Round] = {}
    numbers = _numbers(clients)
    for client in clients:
        for membership in client.memberships:
            for generation, sign in membership.generations.items():
                if sign.time is not None:
                    number = numbers.get(generation, generation)
                    rounds.setdefault(number, Round(number)).joins[membership.member_id] = sign
    for client in clients:
        for sign in client.of(SignName.LEADS, SignName.SYNCED):
            current = rounds.get(int(sign.fields["generation"]))
            if current is None or sign.time is None:
                continue
            if current.assignment is None or sign.time < time_of(current.assignment):
                current.assignment = sign
            if sign.name is SignName.LEADS:
                current.assignments = dict(_assignments(sign))
                current.leader = members.at(client, sign)
    for each in rounds.values():
        _find_replacing(each, members)
    return [rounds[generation] for generation in sorted(rounds)]


def _numbers(clients: Sequence[Client]) -> dict[int, int]:
    """Return a number for each time of a generation without one, from 1 on; those that come together have one."""
    keys = {each for client in clients for membership in client.memberships for each in membership.generations}
    numbers: dict[int, int] = {}
    number = last = 0
    for at in sorted(-each for each in keys if each < 0):
        number += at - last > _TOGETHER_MS
        numbers[-at] = number
        last = at
    return numbers


def time_of(sign: Sign) -> int:
    """Return the time of a sign, milliseconds since 1970; 0 without a stamp."""
    return sign.time or 0


def _find_replacing(now: Round, members: Members) -> None:
    """Find static members that joined without a new generation. Some libraries do not print the instance id: the member
    id begins with it.
    """
    victims = {
        client_id_of(each) for each in now.joins if (its := members.membership(each)) and its.expulsion is not None
    }
    holders: dict[str, str] = {}
    for member_id, sign in sorted(now.joins.items(), key=lambda each: time_of(each[1])):
        client, prefix = members.client(member_id), client_id_of(member_id)
        if client is None:
            continue
        if not client.instance and prefix in victims and time_of(sign) - now.ended > _LATE_MS:
            for other in [each for each in now.joins if client_id_of(each) == prefix]:
                its_client = members.client(other)
                if its_client is not None:
                    its_client.instance = prefix
                    holders.setdefault(prefix, other)
        holder = holders.get(client.instance)
        if holder is not None and holder != member_id:
            now.replaces[member_id] = holder
        if client.instance:
            holders[client.instance] = member_id


def _assignments(sign: Sign) -> Iterator[tuple[str, dict[str, list[int]]]]:
    for each in _MEMBERS.finditer(sign.fields.get("assignments", "")):
        shares: dict[str, list[int]] = {}
        for partition in filter(None, each["partitions"].split(", ")):
            topic, _, number = partition.rpartition("-")
            if number.isdigit():
                shares.setdefault(topic, []).append(int(number))
        yield each["member"], shares

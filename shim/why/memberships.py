"""Memberships of the processes in a group: the stays of each, the time between two of them, and their end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kafka_shim.trace.clients import Library
from kafka_shim.trace.history import MISSED_POLL, GroupHistory
from kafka_shim.trace.members import Member, Membership
from kafka_shim.why.past import client_of

EVEN_S = 0.5
"""The times of heartbeats that an interval brings about differ by less."""
_CLOSING_S = 5.0
"""Seconds from the first to the last departure of members that shut down together."""


def library_of_client(history: GroupHistory, member: Member) -> Library:
    """Return the library of a member. Some tell their library only when they leave: then by an earlier membership."""
    if member.library is Library.LIBRDKAFKA:
        for each in history.members.values():
            if each.client_id == member.client_id and each.library is Library.KAFKA_PYTHON:
                return each.library
    return member.library


def members_by_library(history: GroupHistory) -> Iterator[tuple[Member, Library]]:
    """Yield all members with the `library_of_client` of each."""
    of_python = {each.client_id for each in history.members.values() if each.library is Library.KAFKA_PYTHON}
    for each in history.members.values():
        is_python = each.library is Library.LIBRDKAFKA and each.client_id in of_python
        yield each, Library.KAFKA_PYTHON if is_python else each.library


def libraries_of_refused(history: GroupHistory) -> dict[Library, Library]:
    """Return the library of refused clients by the library that their JoinGroup shows. They send this alone: so theirs
    is that of the members that join in the same way, if these have only one.
    """
    alike: dict[Library, set[Library]] = {}
    for each, library in members_by_library(history):
        if each.library is not Library.UNKNOWN:
            alike.setdefault(each.joins_as, set()).add(library)
    return {by_join: libraries.pop() for by_join, libraries in alike.items() if len(libraries) == 1}


def library_of_instance(history: GroupHistory, instance_id: str) -> Library:
    """Return the library of the processes with this group instance id: the newest of those with later requests than a
    JoinGroup that tell it, or else the newest that is known.
    """
    members = [each for each in reversed(history.members.values()) if each.instance_id == instance_id]
    members.sort(key=lambda each: (each.library is Library.UNKNOWN, each.library is each.joins_as))
    return library_of_client(history, members[0]) if members else Library.UNKNOWN


def libraries_of(history: GroupHistory) -> set[Library]:
    """Return the libraries of the members of a group, or else of the refused: the known ones, or the unknown one."""
    libraries = {library for _, library in members_by_library(history)}
    libraries = libraries or {each.library for each in history.refusals.refused.values()}
    return libraries - {Library.UNKNOWN} or {Library.UNKNOWN}


def memberships_by_client(history: GroupHistory) -> dict[str, list[Membership]]:
    """Return the memberships of the process of each client, the oldest first."""
    lives: dict[str, list[Membership]] = {}
    for member in history.members.values():
        lives.setdefault(client_of(member), []).extend(member.memberships)
    for each in lives.values():
        each.sort(key=lambda membership: membership.joined)
    return lives


def memberships_of(history: GroupHistory, client: str) -> list[Membership]:
    """Return the memberships of the process of one client, the oldest first."""
    memberships = [
        membership for each in history.members.values() if client_of(each) == client for membership in each.memberships
    ]
    return sorted(memberships, key=lambda membership: membership.joined)


def last_of(history: GroupHistory, client: str) -> str:
    """Return the newest member id of a client."""
    return memberships_of(history, client)[-1].member_id


def gaps(memberships: Sequence[Membership]) -> list[float]:
    """Return the seconds between the end of each membership of a process and the start of its next."""
    return [
        after.joined - before.ended
        for before, after in pairwise(memberships)
        if before.ended is not None and after.joined >= before.ended
    ]


def absences_of(history: GroupHistory, client: str) -> list[float]:
    """Return the absences of the process of one client, in seconds."""
    return gaps(memberships_of(history, client))


def late_by(member: Member) -> float | None:
    """Return the seconds from the last sign of life of an expelled member to its first heartbeat; None if one was in
    time, or if none came. librdkafka joins again instead of that, as soon as its session has ended.
    """
    session = (member.session_timeout_ms or 0) / 1000
    if member.lingered is None or member.ended is None or not session:
        return None
    if member.lingered_by == "JoinGroup" and 0 <= member.lingered - member.ended < EVEN_S:
        return session
    last_sign = member.ended - session
    has_beaten = bool(member.beats) or member.beaten is None or last_sign - member.beaten > EVEN_S
    return None if member.lingered_by != "Heartbeat" or has_beaten else member.lingered - last_sign


def closing_of(history: GroupHistory) -> float:
    """Return the time from which on the members of a group shut down, one after the other; the future if they do not.

    Static members do not leave: their sessions expire.
    """
    # A broker's log may begin when the group had members already. No client sees that the group is empty.
    if history.present or (history.is_of_log and not history.of_clients and history.state != "Empty"):
        return float("inf")
    begin = float("inf")
    ends = sorted(
        (
            (each.ended, each, member.instance_id)
            for member in history.members.values()
            for each in member.memberships
            if each.ended is not None
        ),
        key=lambda end: -end[0],
    )
    joined = max((each.joined for member in history.members.values() for each in member.memberships), default=0.0)
    for ended, membership, instance_id in ends:
        if ended < joined or (membership.how != "left" and instance_id is None) or MISSED_POLL in membership.reason:
            break
        if begin != float("inf") and begin - ended > _CLOSING_S:
            break
        begin = ended
    return begin

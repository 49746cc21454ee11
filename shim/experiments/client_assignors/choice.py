"""Choice of a group's assignor, and of the members that can compute with it.

A client assignor is usable if all members have it and at least one of them can read the metadata of all others. The
members vote among the usable ones; without any, the coordinator's own assignors compute. Source: the draft of KIP-848,
"Assignor Selection"; KIP-268 for the check of versions.
"""

from __future__ import annotations

from collections.abc import Collection

from kafka_shim.experiments.client_assignors.messages import ClientAssignor
from kafka_shim.experiments.client_assignors.records import assignors_from_bytes
from kafka_shim.groups.consumer.member import Member


def assignors_of(member: Member) -> tuple[ClientAssignor, ...]:
    """Return the assignors of a member, the preferred one first."""
    return assignors_from_bytes(member.extension)


def assignor_of(member: Member, name: str) -> ClientAssignor | None:
    """Return a member's entry for an assignor; None if it has none of that name."""
    return next((each for each in assignors_of(member) if each.name == name), None)


def elect(members: Collection[Member]) -> str | None:
    """Return the usable assignor that most members prefer; of equal votes, the one that an earlier member voted for.
    None if the coordinator must assign.
    """
    shared = [{each.name for each in assignors_of(member)} for member in members]
    usable = {name for name in set.intersection(*shared) if computers(members, name)} if shared else set()
    if not usable:
        return None
    votes: dict[str, int] = {}
    for member in members:
        vote = next(each.name for each in assignors_of(member) if each.name in usable)
        votes[vote] = votes.get(vote, 0) + 1
    return max(votes, key=votes.__getitem__)


def computers(members: Collection[Member], name: str) -> set[str]:
    """Return the ids of the members with an assignor of this name that reads the metadata of all of them."""
    offered = {member.member_id: assignor_of(member, name) for member in members}
    assignors = {member_id: assignor for member_id, assignor in offered.items() if assignor is not None}
    versions = [assignor.metadata_version for assignor in assignors.values()]
    return {
        member_id
        for member_id, assignor in assignors.items()
        if assignor.minimum_version <= min(versions) and max(versions) <= assignor.maximum_version
    }

"""Which assignor a group uses, and which of its members can compute with it.

Decides that a client's assignor is used where all members have it and one of them can read what all others wrote. Of
several the members elect one. If there is none, the coordinator's own assignors compute. It does not know epochs, nor
whose turn it is. After KIP-848, "Assignor Selection"; that versions are looked at is after KIP-268.
"""

from __future__ import annotations

from collections.abc import Collection

from kafka_shim.apis.client_assignor import ClientAssignor
from kafka_shim.groups.consumer.member import Member


def assignor_of(member: Member, name: str) -> ClientAssignor | None:
    """What a member said of an assignor; None if it has none of that name."""
    return next((each for each in member.client_assignors if each.name == name), None)


def elect(members: Collection[Member]) -> str | None:
    """The assignor that most of these members like best among those that can be used; of as many votes the one that an
    earlier member voted for. None where the coordinator is to assign."""
    shared = [{each.name for each in member.client_assignors} for member in members]
    usable = {name for name in set.intersection(*shared) if computers(members, name)} if shared else set()
    if not usable:
        return None
    votes: dict[str, int] = {}
    for member in members:
        vote = next(each.name for each in member.client_assignors if each.name in usable)
        votes[vote] = votes.get(vote, 0) + 1
    return max(votes, key=votes.__getitem__)


def computers(members: Collection[Member], name: str) -> set[str]:
    """The ids of the members whose assignor of this name reads the metadata that all of them wrote for it."""
    found = {member.member_id: assignor_of(member, name) for member in members}
    assignors = {member_id: assignor for member_id, assignor in found.items() if assignor is not None}
    versions = [assignor.metadata_version for assignor in assignors.values()]
    return {
        member_id
        for member_id, assignor in assignors.items()
        if assignor.minimum_version <= min(versions) and max(versions) <= assignor.maximum_version
    }

"""The processes of one client id are told apart as by a look at all places for each member, at a lower cost."""

from __future__ import annotations

import random

import pytest

from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.members import Member
from kafka_shim.why import past
from kafka_shim.why.past import _is_over, tell_apart


def group_of(members: int, seed: int, span: int) -> GroupHistory:
    chance = random.Random(seed)
    history = GroupHistory("g")
    for number in range(members):
        joined = chance.randrange(span) / 2
        member = Member(f"m{number}", client_id=f"c{chance.randrange(2)}", joined=joined)
        member.conn = chance.choice([None, 1, 2, 3, number])
        member.session_timeout_ms = chance.choice([None, 3000, 45_000])
        if chance.random() < 0.8:
            member.ended = joined + chance.choice([0, 1, 2, 20, 44.5, 45, 45.5, 46, 400])
            member.how = chance.choice(["left", "expired", "removed", "fenced"])
        history.members[member.member_id] = member
    return history


def places_of(history: GroupHistory) -> dict[str, int]:
    """The place of each member, by a look at all places of its client."""
    places: dict[str, list[Member]] = {}
    found = {}
    for member in sorted(history.members.values(), key=lambda each: each.joined or 0.0):
        of_client = places.setdefault(member.client_id, [])
        free = [number for number, each in enumerate(of_client) if _is_over(history, each, member.joined or 0.0)]
        number = len(of_client)
        if free:
            number = max(free, key=lambda free: (of_client[free].conn == member.conn, of_client[free].ended or 0.0))
        of_client[number : number + 1] = [member]
        found[member.member_id] = number + 1
    return found


@pytest.mark.parametrize("span", [4, 60, 400])
@pytest.mark.parametrize("seed", range(10))
def test_places_are_those_of_a_look_at_all(seed: int, span: int) -> None:
    for members in (1, 5, 60):
        history = group_of(members, seed, span)
        expected = places_of(history)
        tell_apart(history)
        assert {each.member_id: each.place for each in history.members.values()} == expected


def test_few_looks_are_enough_for_members_of_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def counted(history: GroupHistory, member: Member, at: float) -> bool:
        nonlocal looks
        looks += 1
        return _is_over(history, member, at)

    history = GroupHistory("g")
    for number in range(200):
        old = Member(f"a{number}", client_id="c", joined=6.0, ended=100.0 + number, how="left")
        new = Member(f"b{number}", client_id="c", joined=400.0 + number)
        history.members |= {each.member_id: each for each in (old, new)}
    monkeypatch.setattr(past, "_is_over", counted)
    tell_apart(history)
    assert max(each.place for each in history.members.values()) == 200
    assert looks <= 400

"""The processes of a group: the answer is that of all pairs of members, at a cost that grows with the members."""

from __future__ import annotations

import random
import sys
from types import FrameType
from typing import Any

import pytest

from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.members import Member
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.why import processes
from kafka_shim.why.processes import Processes

REPLACED_S, START_S, TOGETHER_S, RETURN_S = 60.0, 10.0, 2.0, 300.0


def group_of(members: int, seed: int, span: int) -> tuple[GroupHistory, list[Rebalance]]:
    """Make a group with members of some processes, which come and go within `span` half seconds, many at once."""
    chance = random.Random(seed)
    history = GroupHistory("g")
    rebalance = Rebalance("g", "new member", "", 5.0, 5.0, 1, 1)
    for number in range(members):
        joined = chance.randrange(span) / 2
        member = Member(f"m{number}", client_id=f"c{chance.randrange(1 + members * 2 // 3)}", joined=joined)
        if chance.random() < 0.8:
            member.ended = joined + chance.choice([1, 2, 3, 20, 59.5, 60, 61, 400])
            member.how = chance.choice(["left", "left", "left", "expired"])
        else:
            history.present[member.member_id] = None
        history.members[member.member_id] = member
    if seed % 2:
        history.present.clear()
    return history, [rebalance]


def left_with_others(found: Processes, member_id: str, departure: float) -> bool:
    return any(
        each.how == "left" and each.ended is not None and abs(each.ended - departure) < TOGETHER_S
        for lives in found.lives.values()
        for each in lives
        if each.member_id != member_id
    )


def passing(found: Processes) -> set[str]:
    """The members that pass through, by a look at all others for each."""
    stays = [(client, each) for client, lives in found.lives.items() for each in lives]
    started = found.rebalances[0].started
    members = {
        each.member_id
        for client, each in stays
        if len(found.lives[client]) == 1 and each.how == "left" and each.ended is not None and each.joined > started
        if each.ended - each.joined < REPLACED_S
        if not any(
            each.joined < at < each.ended
            for other, life in stays
            if other != client
            for at in (life.joined, life.ended or each.joined)
        )
    }
    return members if len(members) >= processes.LOOP else set()


def turnover(found: Processes) -> tuple[dict[str, str], set[str]]:
    """The processes that were back or replaced soon, by a look at all newcomers for each departure."""
    pairs: dict[str, str] = {}
    replacing: set[str] = set()
    started = found.rebalances[0].started
    firsts = [lives[0] for lives in found.lives.values() if lives[0].joined > started]
    new = [(each.joined, each.ended or float("inf"), each.member_id) for each in firsts]
    for client, lives in found.lives.items():
        for number, each in enumerate(lives):
            if each.how != "left" or each.ended is None:
                continue
            if number + 1 < len(lives):
                if lives[number + 1].joined - each.ended < RETURN_S:
                    pairs[each.member_id] = client
                continue
            closing = each.ended >= found.closing and left_with_others(found, each.member_id, each.ended)
            near = [
                (abs(at - each.ended), at, until, member)
                for at, until, member in new
                if abs(at - each.ended) < REPLACED_S and until > each.ended
                if at >= each.ended or (at > max(started, each.joined) + START_S and not closing)
                if at >= each.ended or until > each.ended + TOGETHER_S
            ]
            if near:
                _, at, until, member = min(near)
                new.remove((at, until, member))
                pairs[each.member_id] = pairs[member] = client
                replacing.add(member)
    return pairs, replacing


@pytest.mark.parametrize("span", [12, 60, 400, 4000])
@pytest.mark.parametrize("seed", range(8))
def test_the_answer_is_that_of_all_pairs(seed: int, span: int) -> None:
    for members in (0, 1, 5, 40):
        found = Processes(*group_of(members, seed, span))
        assert set(found.passing) == passing(found)
        assert (found.turnover, found.replacing) == turnover(found)
        for member in found.history.members.values():
            for at in (member.joined, member.ended, (member.ended or 0.0) - TOGETHER_S, 0.0):
                if at is not None:
                    is_so = left_with_others(found, member.member_id, at)
                    assert found._left_with_others(member.member_id, at) == is_so


def test_the_groups_of_this_test_have_all_that_it_compares() -> None:
    """One member passes alone, one that left is replaced, and others leave together."""
    groups = [Processes(*group_of(40, seed, span)) for seed in range(8) for span in (12, 60, 400, 4000)]
    assert any(each.passing for each in groups)
    assert any(each.replacing for each in groups)
    assert any(each.closing < float("inf") for each in groups)


def test_the_last_assignment_before_a_departure_is_found_from_the_end() -> None:
    history, _ = group_of(0, 0, 1)
    for number in range(5):
        rebalance = Rebalance("g", "new member", "", number, number, 1, 1)
        rebalance.assigned = None if number == 3 else float(number)
        history.rebalances.append(rebalance)
    found = Processes(history, list(history.rebalances))
    assert [found._idle(at) for at in (-1.0, 2.5, 3.5, 10.0)] == [None, 0.5, 1.5, 6.0]


def steps(members: int) -> int:
    """Count the bytecodes of the module for a group that is restarted process by process."""
    history = GroupHistory("g")
    for number in range(members):
        old = Member(f"a{number}", client_id=f"a{number}", joined=6.0, ended=100.0 + number, how="left")
        new = Member(f"b{number}", client_id=f"b{number}", joined=100.5 + number)
        history.members |= {each.member_id: each for each in (old, new)}
        history.present[new.member_id] = None
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != processes.__file__:
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = Processes(history, [Rebalance("g", "new member", "", 5.0, 5.0, 1, 1)])
        for each in list(history.members.values()):
            found.beats_too_seldom(each)
    finally:
        sys.settrace(before)
    assert len(found.replacing) == members
    return count


def test_the_cost_grows_with_the_members() -> None:
    assert steps(400) < 5 * steps(100)

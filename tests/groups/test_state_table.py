"""The state x request table of semantics 2.3, row by row, through requests as clients send them.

Each row has, for a group in each state, the answer to a request and the next state of the group. The group
has a leader, a follower and a static member; PreparingRebalance was reached from Stable by the leader joining again.
"""

import pytest

from kafka_shim.groups.classic.states import State
from tests.groups.context import RANGE, ROUND_ROBIN, Context, subscription

PARKED = "parked"
CURRENT = "current generation"
OTHER_TOPICS = ("range", subscription("other"))

NONE, EMPTY, PREPARING, COMPLETING, STABLE, DEAD = "no group", *(state.value for state in State)


class Group(Context):
    """A group brought into one state."""

    def __init__(self, state: str) -> None:
        super().__init__()
        self.leader = self.follower = self.static = self.pending = "nobody"
        self.generation = 1
        if state == NONE:
            return
        self.leader, _ = self.join_new()
        self.follower, _ = self.join_new()
        self.join(instance="instance")
        self.static = self.group.static["instance"]
        self.end_round()
        if state == COMPLETING:
            self.generation = 1
        else:
            self.sync_all([self.leader, self.follower, self.static])
        if state == EMPTY:
            self.leave(self.leader, self.follower, self.static)
            self.generation = 2
        self.pending = self.join().member_id
        if state == PREPARING:
            self.join(self.leader)
        if state == DEAD:
            self.group.enter(State.DEAD)
        assert self.group.state == state

    def answer(self, reply) -> object:
        if reply.parked:
            return PARKED
        if reply.error == 0 and hasattr(reply.response, "leader"):
            assert (reply.generation_id, reply.leader, reply.protocol_name) == (1, self.leader, "range")
            assert bool(reply.members) == (reply.member_id == self.leader)
            assert not reply.skip_assignment
            return CURRENT
        return reply.error


REQUESTS = {
    "join new, before v4": lambda g: g.answer(g.join(version=3)),
    "join new, v4 and later": lambda g: g.answer(g.join()),
    "join new instance id": lambda g: g.answer(g.join(instance="another")),
    "join known instance id": lambda g: g.answer(g.join(instance="instance")),
    "join known instance id, protocol changes": lambda g: g.answer(g.join("", ROUND_ROBIN, RANGE, instance="instance")),
    "join pending id": lambda g: g.answer(g.join(g.pending)),
    "join pending id with an instance id": lambda g: g.answer(g.join(g.pending, instance="instance")),
    "join leader, same": lambda g: g.answer(g.join(g.leader)),
    "join follower, same": lambda g: g.answer(g.join(g.follower)),
    "join follower, changed": lambda g: g.answer(g.join(g.follower, OTHER_TOPICS)),
    "join unknown id": lambda g: g.answer(g.join("unknown")),
    "join instance id of another": lambda g: g.answer(g.join(g.follower, instance="instance")),
    "join unknown instance id": lambda g: g.answer(g.join(g.follower, instance="unknown")),
    "join other protocol type": lambda g: g.answer(g.join(version=3, protocol_type="connect")),
    "join no common protocol": lambda g: g.answer(g.join("", ROUND_ROBIN, version=3)),
    "join empty protocol type": lambda g: g.answer(g.join(version=3, protocol_type="")),
    "sync follower": lambda g: g.answer(g.sync(g.follower, g.generation)),
    "sync leader": lambda g: g.answer(g.sync(g.leader, g.generation)),
    "sync wrong generation": lambda g: g.answer(g.sync(g.follower, 7)),
    "sync unknown member": lambda g: g.answer(g.sync("unknown", g.generation)),
    "sync instance id of another": lambda g: g.answer(g.sync(g.follower, g.generation, instance="instance")),
    "sync other protocol type": lambda g: g.answer(g.sync(g.follower, g.generation, protocol_type="connect")),
    "sync other protocol name": lambda g: g.answer(g.sync(g.follower, g.generation, protocol_name="other")),
    "heartbeat": lambda g: g.heartbeat(g.follower, g.generation),
    "heartbeat wrong generation": lambda g: g.heartbeat(g.follower, 7),
    "heartbeat unknown member": lambda g: g.heartbeat("unknown", g.generation),
    "heartbeat instance id of another": lambda g: g.heartbeat(g.follower, g.generation, instance="instance"),
    "heartbeat static member": lambda g: g.heartbeat(g.static, g.generation, instance="instance"),
    "leave member": lambda g: leave(g, g.follower),
    "leave pending id": lambda g: leave(g, g.pending),
    "leave by instance id": lambda g: leave(g, ("", "instance")),
    "leave nobody": lambda g: leave(g, ("", None)),
    "leave unknown instance id": lambda g: leave(g, ("", "unknown")),
    "leave instance id of another": lambda g: leave(g, (g.follower, "instance")),
    "delete": lambda g: g.delete("group")[0][1],
}


def leave(group, *members):
    response = group.leave(*members)
    return ("top", response.error_code) if response.error_code else response.members[0].error_code


P, C, S = PREPARING, COMPLETING, STABLE
UNAVAILABLE = (15, DEAD)

# Request: no group, Empty, PreparingRebalance, CompletingRebalance, Stable, Dead; each as (answer, state after).
TABLE = {
    "join new, before v4": [(PARKED, P), (PARKED, P), (PARKED, P), (PARKED, P), (PARKED, P), UNAVAILABLE],
    "join new, v4 and later": [(79, EMPTY), (79, EMPTY), (79, P), (79, C), (79, S), UNAVAILABLE],
    "join new instance id": [(PARKED, P), (PARKED, P), (PARKED, P), (PARKED, P), (PARKED, P), UNAVAILABLE],
    "join known instance id": [None, None, (PARKED, P), (PARKED, P), (CURRENT, S), UNAVAILABLE],
    "join known instance id, protocol changes": [None, None, (PARKED, P), (PARKED, P), (CURRENT, S), UNAVAILABLE],
    "join pending id": [(25, NONE), (PARKED, P), (PARKED, P), (PARKED, P), (PARKED, P), UNAVAILABLE],
    "join pending id with an instance id": [(25, NONE), (-1, EMPTY), (-1, P), (-1, C), (-1, S), UNAVAILABLE],
    "join leader, same": [(25, NONE), (25, EMPTY), (PARKED, P), (CURRENT, C), (PARKED, P), UNAVAILABLE],
    "join follower, same": [(25, NONE), (25, EMPTY), (PARKED, P), (CURRENT, C), (CURRENT, S), UNAVAILABLE],
    "join follower, changed": [(25, NONE), (25, EMPTY), (PARKED, P), (PARKED, P), (PARKED, P), UNAVAILABLE],
    "join unknown id": [(25, NONE), (25, EMPTY), (25, P), (25, C), (25, S), UNAVAILABLE],
    "join instance id of another": [(25, NONE), (25, EMPTY), (82, P), (82, C), (82, S), UNAVAILABLE],
    "join unknown instance id": [(25, NONE), (25, EMPTY), (25, P), (25, C), (25, S), UNAVAILABLE],
    "join other protocol type": [(PARKED, P), (PARKED, P), (23, P), (23, C), (23, S), UNAVAILABLE],
    "join no common protocol": [(PARKED, P), (PARKED, P), (23, P), (23, C), (23, S), UNAVAILABLE],
    "join empty protocol type": [(23, EMPTY), (23, EMPTY), (23, P), (23, C), (23, S), UNAVAILABLE],
    "sync follower": [(25, NONE), (25, EMPTY), (27, P), (PARKED, C), (0, S), UNAVAILABLE],
    "sync leader": [(25, NONE), (25, EMPTY), (27, P), (0, S), (0, S), UNAVAILABLE],
    "sync wrong generation": [(25, NONE), (25, EMPTY), (22, P), (22, C), (22, S), UNAVAILABLE],
    "sync unknown member": [(25, NONE), (25, EMPTY), (25, P), (25, C), (25, S), UNAVAILABLE],
    "sync instance id of another": [(25, NONE), (25, EMPTY), (82, P), (82, C), (82, S), UNAVAILABLE],
    "sync other protocol type": [(25, NONE), (25, EMPTY), (23, P), (23, C), (23, S), UNAVAILABLE],
    "sync other protocol name": [(25, NONE), (25, EMPTY), (23, P), (23, C), (23, S), UNAVAILABLE],
    "heartbeat": [(25, NONE), (25, EMPTY), (27, P), (0, C), (0, S), UNAVAILABLE],
    "heartbeat wrong generation": [(25, NONE), (25, EMPTY), (22, P), (22, C), (22, S), UNAVAILABLE],
    "heartbeat unknown member": [(25, NONE), (25, EMPTY), (25, P), (25, C), (25, S), UNAVAILABLE],
    "heartbeat instance id of another": [(25, NONE), (25, EMPTY), (82, P), (82, C), (82, S), UNAVAILABLE],
    "heartbeat static member": [(25, NONE), (25, EMPTY), (27, P), (0, C), (0, S), UNAVAILABLE],
    "leave member": [(25, NONE), (25, EMPTY), (0, P), (0, P), (0, P), (("top", 15), DEAD)],
    "leave pending id": [(25, NONE), (0, EMPTY), (0, P), (0, P), (0, P), (("top", 15), DEAD)],
    "leave by instance id": [(25, NONE), (25, EMPTY), (0, P), (0, P), (0, P), (("top", 15), DEAD)],
    "leave nobody": [(25, NONE), (25, EMPTY), (25, P), (25, C), (25, S), (("top", 15), DEAD)],
    "leave unknown instance id": [(25, NONE), (25, EMPTY), (25, P), (25, C), (25, S), (("top", 15), DEAD)],
    "leave instance id of another": [(25, NONE), (25, EMPTY), (82, P), (82, C), (82, S), (("top", 15), DEAD)],
    "delete": [(69, NONE), (0, NONE), (68, P), (68, C), (68, S), (69, DEAD)],
}

CASES = [
    pytest.param(request, state, *expected, id=f"{request}-{state}")
    for request, row in TABLE.items()
    for state, expected in zip((NONE, EMPTY, PREPARING, COMPLETING, STABLE, DEAD), row, strict=True)
    if expected is not None
]


def test_every_request_has_a_row():
    assert REQUESTS.keys() == TABLE.keys()


@pytest.mark.parametrize(("request_", "state", "answer", "after"), CASES)
def test_the_answer_and_the_state_after_it(request_, state, answer, after):
    group = Group(state)
    assert REQUESTS[request_](group) == answer
    assert (group.group.state if "group" in group.service.groups else NONE) == after


def test_a_first_join_refused_for_its_protocols_leaves_an_empty_group_behind():
    group = Group(NONE)
    assert group.join(version=3, protocol_type="").error == 23
    assert group.state == "Empty"
    assert group.describe(version=5).error_code == 0


def test_an_accepted_first_join_leaves_an_empty_group_behind_a_restart():
    group = Group(NONE)
    group.join()
    group.crash()
    assert group.state == "Empty"
    assert group.group.generation == 0


@pytest.mark.parametrize("state", [EMPTY, PREPARING, COMPLETING, STABLE])
def test_a_refused_join_has_no_generation_leader_protocol_or_members(state):
    group = Group(state)
    reply = group.join("unknown", version=6)
    assert (reply.generation_id, reply.leader, reply.protocol_name, reply.members) == (-1, "", "", [])
    assert group.join("unknown", version=7).protocol_name is None
    assert reply.member_id == "unknown"


def test_timeouts_of_a_join_with_the_same_metadata_are_not_compared():
    group = Group(STABLE)
    assert group.answer(group.join(group.follower, session=9000, rebalance=9000)) == CURRENT

"""A kind of group that the coordinator does not have is added by its row alone (`docs/kinds.md`)."""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.kinds import KINDS
from kafka_shim.groups.shard import Kinds
from tests.groups.context import GROUP, Context
from tests.groups.lottery import LOTTERY, SESSION_SECONDS, Enter


def coordinator() -> Context:
    return Context(kinds=Kinds(*KINDS, LOTTERY))


def enter(context: Context, member_id: str, group: str = GROUP) -> object:
    winner = context.service.ask(Enter(group, member_id), lambda request, code: code, context.now)
    context.settle()
    return winner


def test_groups_of_an_added_kind_are_listed_and_deleted() -> None:
    context = coordinator()
    assert (enter(context, "a"), enter(context, "b")) == ("a", "a")
    (listed,) = context.list(types=["lottery"]).groups
    assert (listed.group_id, listed.group_state, listed.protocol_type) == (GROUP, "Drawn", "lottery")
    assert context.delete(GROUP) == [(GROUP, ErrorCode.NON_EMPTY_GROUP)]
    context.advance(SESSION_SECONDS * 1000)
    assert context.delete(GROUP) == [(GROUP, ErrorCode.NONE)]
    assert context.list().groups == []


def test_groups_of_an_added_kind_survive_a_crash_with_their_sessions() -> None:
    context = coordinator()
    enter(context, "a")
    enter(context, "b")
    context.crash()
    context.advance(SESSION_SECONDS * 500)
    assert enter(context, "b") == "a"
    context.advance(SESSION_SECONDS * 500)
    assert enter(context, "b") == "b"


def test_requests_of_other_kinds_find_a_group_of_another_kind() -> None:
    context = coordinator()
    enter(context, "a")
    assert context.join().error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert context.heartbeat("a", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    described = context.describe()
    assert (described.error_code, described.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {GROUP} is not a classic group.",
    )
    context.join_new(group="classic")
    assert enter(context, "a", group="classic") == ErrorCode.GROUP_ID_NOT_FOUND

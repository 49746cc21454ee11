"""Subscriptions of classic groups: each is decoded once, in the JoinGroup of its member (semantics 3.4)."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FrameType

import pytest

from kafka_shim.apis.consumer_protocol import ConsumerProtocolSubscription
from kafka_shim.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_shim.apis.wire.primitives import MAX_ELEMENTS
from kafka_shim.groups.classic.subscriptions import MAX_NAMES
from kafka_shim.groups.offsets import delete
from tests.groups.context import GROUP, Context, subscription

_DECODERS = {ConsumerProtocolSubscription.decoder(version).__code__ for version in range(4)}


def decodes(call: Callable[..., object], *arguments: object, **options: object) -> int:
    """The number of subscriptions that a call decodes."""
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code in _DECODERS

    sys.setprofile(note)
    try:
        call(*arguments, **options)
    finally:
        sys.setprofile(None)
    return count


def offer(*topics: str, user_data: bytes | None = None) -> tuple[str, bytes]:
    metadata = b"\0\0" + ConsumerProtocolSubscription(topics=list(topics), user_data=user_data).encode(0)
    return "range", metadata


def new_ids(here: Context, count: int) -> list[str]:
    """Ids of members that have not joined yet."""
    return [here.join().member_id for _ in range(count)]


def stable_round(here: Context, count: int) -> list[str]:
    """Ids of the members of a stable group, each with a topic of its own: topic-0 and so on."""
    ids = new_ids(here, count)
    for number, member_id in enumerate(ids):
        here.join(member_id, offer(f"topic-{number}"))
    here.end_round()
    here.sync_all(ids)
    return ids


def is_deleted(here: Context, topic: str) -> bool:
    """True if offsets of the topic may be deleted; they may not while a member subscribes to it."""
    request = OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)])])
    answer = delete(here.service.shards[here.group.partition], request)
    return [each.error_code for each in answer.topics[0].partitions] == [0]


def test_each_subscription_is_decoded_in_its_own_request() -> None:
    here = Context()
    ids = new_ids(here, 5)
    offers = [offer("common", f"topic-{number}") for number in range(5)]
    joins = [decodes(here.join, *each) for each in zip(ids, offers, strict=True)]
    assert joins == [1] * 5
    assert decodes(here.end_round) == 0
    assert here.group.subscribed_topics == {"common", *(f"topic-{number}" for number in range(5))}
    assert decodes(here.sync_all, ids) == 0
    (assignment,) = here.of("assignment")
    assert assignment["subscriptions"] == {
        member_id: ["common", f"topic-{number}"] for number, member_id in enumerate(ids)
    }


def test_a_later_round_decodes_what_has_changed_alone() -> None:
    here = Context()
    leader, *followers, last = stable_round(here, 4)
    assert decodes(here.join, leader, offer("topic-0")) == 0
    assert [decodes(here.join, each, offer("new", each)) for each in followers] == [1, 1]
    assert decodes(here.join, last, offer("topic-3")) == 0, "the end of the round"
    assert here.group.subscribed_topics == {"topic-0", "new", *followers, "topic-3"}
    assert here.group.generation == 2


def test_equal_metadata_is_decoded_once() -> None:
    here = Context()
    ids = new_ids(here, 5)
    offers = [("range", subscription("topic")), ("roundrobin", subscription("topic"))]
    assert [decodes(here.join, each, *offers) for each in ids] == [1, 0, 0, 0, 0]
    here.end_round()
    assert decodes(here.sync_all, ids) == 0
    assert here.group.subscribed_topics == {"topic"}


def test_equal_topics_are_kept_once() -> None:
    here = Context()
    first, second = (subscription("topic", owned={"topic": [number]}) for number in range(2))
    here.form(1)
    read = here.group.subscriptions.topics
    assert read(first) == {"topic"}
    assert read(first) is read(second)


def test_the_selected_protocol_counts() -> None:
    here = Context()
    ids = new_ids(here, 2)
    for member_id in ids:
        here.join(member_id, ("range", subscription("ranged")), ("roundrobin", subscription("robin")))
    here.end_round()
    here.sync_all(ids)
    assert (is_deleted(here, "ranged"), is_deleted(here, "robin")) == (False, True)
    for member_id in ids:
        here.join(member_id, ("roundrobin", subscription("robin")), ("range", subscription("ranged")))
    assert (is_deleted(here, "ranged"), is_deleted(here, "robin")) == (True, False)


def test_the_topics_of_a_round_hold_until_its_end() -> None:
    here = Context()
    leader, follower = here.form(2)
    here.join(follower, offer("new"))
    assert (is_deleted(here, "topic"), is_deleted(here, "new")) == (False, True)
    here.join(leader, offer("new"))
    assert (is_deleted(here, "topic"), is_deleted(here, "new")) == (True, False)


def test_a_restart_reads_the_same_topics() -> None:
    here = Context()
    ids = stable_round(here, 3)
    before = here.group.subscribed_topics
    here.crash()
    assert here.group.subscribed_topics == before == {"topic-0", "topic-1", "topic-2"}
    assert decodes(here.join, ids[0], offer("topic-0")) == 0


def test_a_static_member_is_decoded_once_when_it_is_back() -> None:
    here = Context()
    here.form(instances=["one", "two"])
    assert decodes(here.join, "", offer("new"), instance="two") == 1
    assert here.group.state == "Stable"
    assert here.group.subscribed_topics == {"topic", "new"}


def test_many_empty_names_are_a_subscription() -> None:
    here = Context()
    ids = new_ids(here, 3)
    names = [""] * MAX_ELEMENTS
    for member_id in ids:
        here.join(member_id, offer(*names, user_data=member_id.encode()))
    assert decodes(here.end_round) == 0
    assert here.group.subscribed_topics == {""}


def test_the_names_of_a_group_are_bounded() -> None:
    here = Context()
    members = MAX_NAMES // MAX_ELEMENTS + 1
    ids = new_ids(here, members)
    for number, member_id in enumerate(ids):
        here.join(member_id, offer(*[f"{number}{name}" for name in range(MAX_ELEMENTS)]))
    assert decodes(here.end_round) == 0
    assert here.group.subscribed_topics is None
    assert not is_deleted(here, "nobody's")
    here.left(ids[-1])
    for member_id in ids[:-1]:
        here.join(member_id, offer("topic"))
    assert here.group.subscribed_topics == {"topic"}


@pytest.mark.parametrize(("names", "expected"), [(MAX_ELEMENTS // 2, True), (MAX_ELEMENTS // 2 + 1, False)])
def test_the_names_of_a_request_are_bounded(names: int, expected: bool) -> None:
    here = Context()
    (member_id,) = new_ids(here, 1)
    many = [("", user) for user in (b"1", b"2")]
    first, second = (offer(*[name] * names, user_data=user)[1] for name, user in many)
    here.join(member_id, ("roundrobin", first), ("range", second))
    read = here.group.subscriptions.topics
    assert read(first) == {""}
    assert (read(second) == {""}) is expected


def test_metadata_that_nobody_offers_is_forgotten() -> None:
    here = Context()
    leader, _ = here.form(2)
    here.join(leader, offer("first"))
    kept = here.group.subscriptions.topics(offer("first")[1])
    assert kept is not None
    is_alive = weakref.ref(kept)
    del kept
    for number in range(100):
        assert here.join(leader, offer(f"{number}")).parked
    assert is_alive() is None

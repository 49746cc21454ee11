"""Timers of classic groups that are due together, and one of a partition that is gone."""

from __future__ import annotations

import pytest

from kafka_shim.groups.timers import TimerFailed
from tests.groups.context import Context, subscription


class Quiet(Context):
    """A coordinator without a listener of events."""

    listens = False


def test_many_sessions_of_a_group_end_in_a_few_ticks() -> None:
    here = Quiet("group.max.size=1000")
    for member_id in here.form(700, session=10_000):
        here.heartbeat(member_id, here.group.generation)
    here.now += 10.001
    ticks = 0
    while here.service.next_deadline() <= here.now:
        here.service.fire(here.now)
        ticks += 1
    assert here.group.members == {}
    assert ticks < 5


def test_a_timer_of_a_partition_that_is_gone_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Context()
    here.form(2)

    def resign(*_: object) -> None:
        raise ValueError("a kind of an extension")

    monkeypatch.setattr(type(here.group), "resign", resign)
    here.service.unload(here.group.partition, here.now)
    here.now += 1000
    with pytest.raises(TimerFailed):
        here.service.fire(here.now)


def test_an_empty_group_keeps_no_subscription() -> None:
    here = Quiet()
    member_id, _ = here.join_new(("range", subscription(*(f"topic-{number}" for number in range(1000)))))
    here.end_round()
    assert len(here.group.subscribed_topics) == 1000
    here.left(member_id)
    assert here.group.members == {}
    assert here.group.subscriptions._read == {}

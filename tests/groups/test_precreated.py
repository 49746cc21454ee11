"""Groups made ahead of their first member: how long members may be silent, and when such a group goes."""

from kafka_shim.persistence.records import GroupOptionsKey
from tests.groups.context import GROUP


def make(coordinator, ephemeral=False, bound_ms=None):
    assert coordinator.service.precreate(GROUP, ephemeral, bound_ms, coordinator.now) == 0
    coordinator.settle()


def has_options(coordinator):
    return any(GroupOptionsKey(GROUP) in records for records in coordinator.durable.values())


def test_a_member_may_be_silent_for_the_bound_at_most(coordinator):
    make(coordinator, bound_ms=7_000)
    leader, silent = coordinator.form(session=30_000)
    coordinator.advance(4_000)
    coordinator.heartbeat(leader, 1)
    coordinator.advance(2_999)
    assert coordinator.state == "Stable"
    coordinator.advance(1)
    assert coordinator.heartbeat(silent, 1) == 25
    assert coordinator.causes()[-1] == "SESSION_EXPIRED"


def test_a_shorter_session_than_the_bound_is_kept(coordinator):
    make(coordinator, bound_ms=20_000)
    ids = coordinator.form(session=10_000)
    assert coordinator.armed("session") == dict.fromkeys(ids, 10_000)


def test_the_bound_holds_after_a_restart(coordinator):
    make(coordinator, bound_ms=7_000)
    ids = coordinator.form(session=30_000)
    coordinator.crash()
    assert coordinator.armed("session") == dict.fromkeys(ids, 7_000)


def test_an_ephemeral_group_ends_with_its_last_member(coordinator):
    make(coordinator, ephemeral=True)
    for member in coordinator.form():
        coordinator.leave(member)
    coordinator.advance(300_000)
    assert coordinator.state == "Dead"
    assert not any(coordinator.durable.values())


def test_an_ephemeral_group_ends_when_its_last_member_falls_silent(coordinator):
    make(coordinator, ephemeral=True)
    coordinator.form()
    coordinator.crash()
    coordinator.advance(300_000)
    assert coordinator.state == "Dead"
    assert not any(coordinator.durable.values())


def test_a_precreated_group_waits_for_its_first_member_only(coordinator):
    make(coordinator)
    coordinator.advance(3 * 600_000)
    coordinator.crash()
    coordinator.advance(3 * 600_000)
    assert coordinator.state == "Empty"
    for member in coordinator.form():
        coordinator.leave(member)
    coordinator.advance(300_000 + 600_000)
    assert coordinator.state == "Dead"
    assert not has_options(coordinator)

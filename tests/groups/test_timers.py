"""The lazy timer heap: same answers as a plain dictionary of deadlines."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.groups.classic.states import TimerKind
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.timers import NEVER, Timer, Timers


def timer(name: str = "") -> Timer:
    return Timer(TimerKind.SESSION, 0, "group", name)


def test_a_deadline_moved_later_is_kept_without_touching_the_heap():
    timers, session = Timers(Outbox()), timer()
    timers.arm(session, 10.0)
    for second in range(1, 9):
        session.deadline = 10.0 + second
    assert timers.pop(17.9) is None
    assert timers.pop(18.0) is session
    assert timers.next_deadline() == NEVER


def test_a_deadline_moved_earlier_fires_once():
    timers, session = Timers(Outbox()), timer()
    timers.arm(session, 300.0)
    timers.arm(session, 10.0)
    assert timers.pop(10.0) is session
    assert timers.pop(300.0) is None


def test_timers_due_at_once_fire_in_the_order_they_were_armed():
    timers = Timers(Outbox())
    three = [timer(name) for name in "abc"]
    for each in three:
        timers.arm(each, 1.0)
    assert [timers.pop(1.0) for _ in range(3)] == three


def test_cancelled_timers_do_not_pile_up():
    timers = Timers(Outbox())
    for number in range(10_000):
        each = timer(str(number))
        timers.arm(each, 1000.0 + number)
        timers.cancel(each)
    assert len(timers._heap) < 200
    assert timers.next_deadline() == NEVER


def test_entries_left_behind_by_earlier_deadlines_do_not_pile_up():
    timers, session = Timers(Outbox()), timer()
    for number in range(10_000):
        timers.arm(session, 20_000.0 - number)
    assert len(timers._heap) < 200
    assert timers.pop(10_001.0) is session


operations = st.lists(
    st.tuples(st.sampled_from(["arm", "move", "cancel", "pop"]), st.integers(0, 4), st.integers(0, 20)), max_size=60
)


@given(operations)
def test_the_heap_agrees_with_a_dictionary(steps):
    timers, all_timers = Timers(Outbox()), [timer(str(number)) for number in range(5)]
    deadlines: dict[Timer, float] = {}
    now = 0.0
    for operation, number, seconds in steps:
        each = all_timers[number]
        if operation == "arm":
            timers.arm(each, now + seconds)
            deadlines[each] = now + seconds
        elif operation == "move" and each in deadlines and each.queued <= now + seconds:
            each.deadline = deadlines[each] = now + seconds
        elif operation == "cancel":
            timers.cancel(each)
            deadlines.pop(each, None)
        elif operation == "pop":
            now += seconds / 4
            while (fired := timers.pop(now)) is not None:
                assert deadlines.pop(fired) <= now
            assert all(deadline > now for deadline in deadlines.values())
        assert set(timers.armed()) == set(deadlines)
        assert timers.next_deadline() <= min(deadlines.values(), default=NEVER)

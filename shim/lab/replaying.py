"""Simulation of a group's past, as it was or with a change.

A puppet plays each stay. The past has only an approximation of the real members, so
two simulations are compared, never a simulation with the real past. The fold of a trace counts the results. Times are
seconds. `kafka-shim why` simulates one group, the pipeline the worst of many.

A static member never leaves for good: it is removed after the session timeout unless it has returned by then. A
consumer that finds its group instance id held asks again until it is let in, as a process does that is started again:
so a simulation refuses each process that the coordinator would refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.lab.consumer_puppets import ConsumerPuppet, ConsumerScript
from kafka_shim.lab.puppets import RETRY_SECONDS, Puppet
from kafka_shim.lab.scheduler import Network
from kafka_shim.lab.simulator import Simulation
from kafka_shim.trace.history import History
from kafka_shim.why.past import Past, Stay
from kafka_shim.why.remedies import Played

GROUP: Final = "replayed"
QUIET_TIMEOUTS: Final = 3
"""Quiet times are cut to so many session timeouts: nothing happens in them."""
SETTLE_S: Final = 30.0
_TICK_S: Final = 0.001
_BEYOND_LIMITS: Final = (ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.INVALID_SESSION_TIMEOUT)


class _Change(NamedTuple):
    at: float
    number: int
    does: str
    stay: Stay


def play(past: Past) -> Played:
    """Simulate this past; return its rebalances, moved partitions, and partition-seconds without an owner."""
    config = {
        # Limits that are unknown are Kafka's defaults, but a session of the past may be as short as a test makes it.
        "group.min.session.timeout.ms": "1",
        **{name: str(limit) for name, limit in past.limits.items()},
        "group.initial.rebalance.delay.ms": _ms(past.initial_delay),
        "group.consumer.session.timeout.ms": _ms(past.session_timeout if past.consumers else 45.0),
        "group.consumer.heartbeat.interval.ms": _ms(past.heartbeat_interval if past.consumers else 5.0),
    }
    simulation = Simulation(seed=0, topics=past.topics, config=config, network=Network(least=0.0005, most=0.002))
    history = History()

    def gather(events: Iterable[Mapping[str, Any]], now: float) -> None:
        for event in events:
            history.add({**event, "wall": now, "mono": now})

    simulation.cluster.events.listen(gather)
    playing: dict[int, Puppet] = {}
    puppets: list[Puppet] = []
    before: float | None = None
    for change in sorted(_changes(past)):
        if before is not None:
            simulation.run(min(change.at - before, past.session_timeout * QUIET_TIMEOUTS))
        before = change.at
        stay = change.stay
        if change.does == "join":
            playing[change.number] = _puppet(simulation, past, stay)
            puppets.append(playing[change.number])
        elif change.number in playing:
            getattr(playing.pop(change.number), change.does)()
    simulation.run(past.session_timeout + SETTLE_S)
    rebalances = history.groups[GROUP].rebalances if GROUP in history.groups else ()
    return Played(
        rebalances=sum(1 for each in rebalances if each.members),
        moved=sum(each.moved.moved for each in rebalances if each.moved is not None),
        partition_seconds=sum(each.partition_seconds for each in rebalances),
        refused=sum(any(code in _BEYOND_LIMITS for _, code in each.errors) for each in puppets),
    )


class _Consumer(ConsumerPuppet):
    """A consumer that asks again while another member holds its group instance id."""

    def _on_refusal(self, code: ErrorCode, now: float) -> None:
        if code is ErrorCode.UNRELEASED_INSTANCE_ID and self._is_active:
            self._scheduler.at(now + RETRY_SECONDS, self._join)
        else:
            super()._on_refusal(code, now)


def _puppet(simulation: Simulation, past: Past, stay: Stay) -> Puppet:
    who: dict[str, Any] = {"client_id": stay.client, "instance_id": stay.instance_id, "think": stay.think}
    if past.consumers:
        puppet = _Consumer(simulation.scheduler, ConsumerScript(group=GROUP, topics=list(past.topics), **who))
        puppet.join()
        return puppet
    return simulation.puppet(
        GROUP,
        list(past.topics),
        protocols=[past.assignor],
        session_timeout=past.session_timeout,
        heartbeat_interval=min(past.heartbeat_interval, past.session_timeout / 3),
        **who,
    )


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))


def _changes(past: Past) -> list[_Change]:
    changes = []
    for number, stay in enumerate(past.stays):
        changes.append(_Change(stay.joined if stay.tried is None else stay.tried, number, "join", stay))
        if stay.left is None:
            continue
        # A static consumer of KIP-848 announces its return, one of the classic protocol sends nothing.
        static = "leave" if past.consumers else "crash"
        if stay.how == "fenced":
            # Another process took its place over: this one had stopped before.
            changes.append(_Change(max(stay.left - _TICK_S, stay.joined + _TICK_S), number, static, stay))
        elif stay.how == "expired":
            silent = max(stay.left - past.session_timeout, stay.joined + _TICK_S)
            changes.append(_Change(silent, number, "crash", stay))
        else:
            changes.append(_Change(stay.left, number, static if stay.instance_id else "leave", stay))
    return changes

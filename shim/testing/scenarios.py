"""Scenarios: what happens to groups in production, as functions for `server.play` and `server.playing`.

Each takes the `Kit`, in the coordinator's own thread, and is short: read it, or write your own in the same form. Times
are seconds of the coordinator's clock, which moves on by itself, but not past the sessions of members that are well.

    server.play(zombie, "billing", "real")
    with server.playing(coordinator_moves_mid_commit, "billing"):
        consumer.commit()
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from kafka_shim.groups.timers import Timer
from kafka_shim.lab.group_waits import TIMEOUT, NotReached
from kafka_shim.lab.interception import Match
from kafka_shim.lab.puppets import Puppet
from kafka_shim.testing.kit import HEARTBEAT_SECONDS, Kit


async def rolling_restart(
    kit: Kit, group: str, topics: Sequence[str], members: int = 3, kind: str = "classic", **script: Any
) -> None:
    """Start so many members beside those of the test, and restart one after the other, as a deployment does.

    Each leaves, the group is stable without it, it joins again. They stay in the group. `kind` and `script` are those
    of a puppet.
    """
    others = [each.member_id for each in kit.group(group).now.members]
    names = [f"restarted-{number}" for number in range(1, members + 1)]
    started = []
    for name in names:
        started.append(_start(kit, group, topics, name, kind, script))
        await _stable(kit, group, [*others, *names[: len(started)]])
    for name, puppet in zip(names, started, strict=True):
        puppet.leave()
        await _stable(kit, group, [*others, *(each for each in names if each != name)], without=name)
        puppet.join()
        await _stable(kit, group, [*others, *names])


async def slow_member(
    kit: Kit, group: str, topics: Sequence[str], seconds: float, kind: str = "classic", **script: Any
) -> None:
    """Let all members of a group wait so many seconds for one that is slow to join again (or to revoke).

    Two members join: the slow one, then another that makes all join again. Both stay in the group.
    """
    others = [each.member_id for each in kit.group(group).now.members]
    _start(kit, group, topics, "slow", kind, script | {"think": seconds})
    await _pass_until_stable(kit, group, [*others, "slow"], seconds)
    _start(kit, group, topics, "late", kind, script)
    await _pass_until_stable(kit, group, [*others, "slow", "late"], seconds)


async def zombie(kit: Kit, group: str, client_id: str, timeout: float = TIMEOUT) -> None:
    """Let a client pause for longer than its session: others take its partitions, then it returns and is fenced.

    While it pauses, its requests wait in the network. They arrive when the group is stable, or empty, without it.
    """
    before = {each.member_id for each in kit.group(group).now.called(client_id)}

    def is_replaced() -> bool:
        now = kit.group(group).now
        return (now.is_stable or not now.members) and not before.intersection(each.member_id for each in now.members)

    with cut_off(kit, client_id):
        kit.expire(group, client_id)
        await kit.until(is_replaced, f"the group {group!r} to be stable without {client_id!r}", timeout)


async def coordinator_moves_mid_commit(kit: Kit, group: str, timeout: float = TIMEOUT) -> None:
    """Move the coordinator of a group to another broker when the next commit has arrived, before it is executed.

    The commit is answered NOT_COORDINATOR, and the client must find the new coordinator. It needs two brokers.
    """
    here = kit.coordinator_of(group)
    others = [node.id for node in kit.cluster.nodes.values() if node.id != here and node.up]
    if not others:
        raise ValueError("The coordinator has no broker to move to: start it with brokers=2.")
    with kit.barrier("commit-arrived", group=group) as barrier:
        await kit.reached(barrier, timeout=timeout)
        kit.move(group, others[0])


async def network_partition(kit: Kit, client_id: str, seconds: float) -> None:
    """Cut clients off for so many seconds: what they and the coordinator send arrives afterwards."""
    with cut_off(kit, client_id):
        groups = {timer.group_id for timer in kit.sessions()}
        members = [each for group in groups for each in kit.group(group).now.members]
        away = {each.member_id for each in members if fnmatchcase(each.client_id, client_id)}
        await elapse(kit, seconds, away)


@contextmanager
def cut_off(kit: Kit, client_id: str) -> Iterator[None]:
    """Hold all that clients send, and all that is sent to them, until the end of the block."""
    match = Match(client_id=client_id)
    barriers = [kit.barriers.add(match, "answer"), kit.barriers.add(match, "request")]
    try:
        yield
    finally:
        for barrier in barriers:
            barrier.remove()


async def elapse(kit: Kit, seconds: float, silent: Collection[str] = (), timeout: float = TIMEOUT) -> None:
    """Move the clock on by so many seconds, and let each session but those of the member ids `silent` be renewed.

    Real clients send heartbeats in real time: before half of a session is over, the clock waits for the next one.
    """
    end = kit.clock() + seconds
    while kit.clock() < end:
        others = [timer for timer in kit.sessions() if timer.member_id not in silent]
        first = min(others, key=lambda timer: timer.deadline, default=None)
        now = kit.clock()
        if first is None or first.deadline > end:
            kit.advance(max(end - now, 0.0))
            return
        deadline = first.deadline
        kit.advance(min((deadline - now) / 2, end - now))
        await kit.until(partial(_is_renewed, first, deadline), f"a heartbeat of {first.member_id}", timeout)


def _is_renewed(timer: Timer, deadline: float) -> bool:
    return timer.deadline != deadline


def _start(kit: Kit, group: str, topics: Sequence[str], client_id: str, kind: str, script: dict[str, Any]) -> Puppet:
    soon: dict[str, Any] = {"heartbeat_interval": HEARTBEAT_SECONDS} if kind == "classic" else {}
    return kit.start_puppet(kind, soon | {"group": group, "topics": topics, "client_id": client_id} | script)


async def _pass_until_stable(kit: Kit, group: str, members: Collection[str], seconds: float) -> None:
    for _ in range(4):  # it is slow to join, and again to take its assignment
        try:
            await _stable(kit, group, members, timeout=0.2)
        except NotReached:
            await elapse(kit, seconds)
        else:
            return
    await _stable(kit, group, members)


async def _stable(
    kit: Kit, group: str, members: Collection[str], without: str | None = None, timeout: float = TIMEOUT
) -> None:
    """Wait until a group is stable with these members and without that one. Others of the test may join meanwhile."""

    def is_stable() -> bool:
        now = kit.group(group).now
        if without is not None and now.called(without):
            return False
        return all(now.called(name) for name in members) and (now.is_stable or not now.members)

    absent = "" if without is None else f" and without {without!r}"
    await kit.until(is_stable, f"the group {group!r} to be stable with {sorted(members)}{absent}", timeout)

"""A scripted member of a streams group (KIP-1071): each call of the case sends one heartbeat."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from kafka_shim.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kafka_shim.conformance.trial import Trial


def reading(*topics: str, changelog: str | None = None, epoch: int = 0) -> Topology:
    """Return a topology of one subtopology, `0`, with these source topics."""
    changelogs = [] if changelog is None else [TopicInfo(changelog, 0, 0, [])]
    return Topology(epoch, [Subtopology("0", source_topics=list(topics), state_changelog_topics=changelogs)])


class StreamsMember:
    """One member. `epoch`, `active`, `standby` and `statuses` come from the last answer; its heartbeats report `owned`
    and `copies`.

    `owned` follows `active`, and `copies` follows `standby`, only in `reconcile`, so that a case decides when the
    member gives a task up.
    """

    def __init__(self, trial: Trial, topology: Topology, *, rebalance_timeout: int = 30_000) -> None:
        self.id = str(uuid.uuid4())
        self.topology = topology
        self.rebalance_timeout = rebalance_timeout
        self.epoch = 0
        self.active: set[int] = set()
        self.owned: set[int] = set()
        self.standby: set[int] = set()
        self.copies: set[int] = set()
        self.statuses: dict[int, str] = {}
        self._trial = trial
        self.wire = trial.connect(f"member-{self.id[:4]}")

    def heartbeat(self, **changes: Any) -> StreamsGroupHeartbeatResponse:
        """Send a StreamsGroupHeartbeat with only the fields in `changes`; remember the answer."""
        request = StreamsGroupHeartbeatRequest(self._trial.group, self.id, self.epoch, 0)
        for name, value in changes.items():
            setattr(request, name, value)
        answer: StreamsGroupHeartbeatResponse = self.wire.call(request, self._trial.version_of(request))
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            self.statuses = {each.status_code: each.status_detail for each in answer.status or ()}
            if answer.active_tasks is not None:
                self.active = _numbers(answer.active_tasks)
            if answer.standby_tasks is not None:
                self.standby = _numbers(answer.standby_tasks)
        return answer

    def join(self, **changes: Any) -> StreamsGroupHeartbeatResponse:
        """Send the first heartbeat, without owned tasks."""
        self.epoch, self.owned, self.copies = 0, set(), set()
        heartbeat: dict[str, Any] = {
            "rebalance_timeout_ms": self.rebalance_timeout,
            "topology": self.topology,
            "process_id": self.id,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "client_tags": [],
        }
        return self.heartbeat(**heartbeat | changes)

    def reconcile(self) -> StreamsGroupHeartbeatResponse:
        """Own exactly the assigned tasks, and report them."""
        self.owned, self.copies = set(self.active), set(self.standby)
        return self.report()

    def report(self, **changes: Any) -> StreamsGroupHeartbeatResponse:
        """Send a heartbeat with the owned tasks."""
        active, standby = _task_ids(self.owned), _task_ids(self.copies)
        return self.heartbeat(**{"active_tasks": active, "standby_tasks": standby, "warmup_tasks": []} | changes)

    def leave(self) -> StreamsGroupHeartbeatResponse:
        return self.heartbeat(member_epoch=-1)


def _numbers(tasks: Iterable[TaskIds]) -> set[int]:
    return {partition for each in tasks for partition in each.partitions}


def _task_ids(numbers: set[int]) -> list[TaskIds]:
    return [TaskIds("0", sorted(numbers))] if numbers else []


def settle(t: Trial, *members: StreamsMember) -> None:
    """Call `reconcile` on every member until nothing changes and each has tasks."""

    def quiet() -> bool:
        before = [(each.epoch, set(each.active)) for each in members]
        for each in members:
            t.expect(each.reconcile(), error_code=0)
        after = [(each.epoch, set(each.active)) for each in members]
        return before == after and all(each.active for each in members) and len({each.epoch for each in members}) == 1

    t.until(quiet, bool, "the members did not settle")

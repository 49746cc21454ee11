"""A member of a streams group (KIP-1071) that a case moves by hand: every heartbeat is one call of the case."""

from __future__ import annotations

import uuid
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
    """A topology of one subtopology, `0`, that reads these topics."""
    changelogs = [] if changelog is None else [TopicInfo(changelog, 0, 0, [])]
    return Topology(epoch, [Subtopology("0", source_topics=list(topics), state_changelog_topics=changelogs)])


class StreamsMember:
    """One member. `epoch`, `active` and `statuses` are of the last answer; `owned` is what its heartbeats report.

    `owned` follows `active` only in `obey`, so that a case decides when the member gives a task up.
    """

    def __init__(self, trial: Trial, topology: Topology, *, rebalance_timeout: int = 30_000) -> None:
        self.id = str(uuid.uuid4())
        self.topology = topology
        self.rebalance_timeout = rebalance_timeout
        self.epoch = 0
        self.active: set[int] = set()
        self.owned: set[int] = set()
        self.statuses: dict[int, str] = {}
        self._trial = trial
        self.wire = trial.connect(f"member-{self.id[:4]}")

    def heartbeat(self, **changes: Any) -> StreamsGroupHeartbeatResponse:
        """One StreamsGroupHeartbeat that says nothing new but `changes`; what the answer has is kept."""
        request = StreamsGroupHeartbeatRequest(self._trial.group, self.id, self.epoch, 0)
        for name, value in changes.items():
            setattr(request, name, value)
        answer: StreamsGroupHeartbeatResponse = self.wire.call(request, self._trial.version_of(request))
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            self.statuses = {each.status_code: each.status_detail for each in answer.status or ()}
            if answer.active_tasks is not None:
                self.active = {partition for each in answer.active_tasks for partition in each.partitions}
        return answer

    def join(self, **changes: Any) -> StreamsGroupHeartbeatResponse:
        """The first heartbeat; it owns nothing."""
        self.epoch, self.owned = 0, set()
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

    def obey(self) -> StreamsGroupHeartbeatResponse:
        """Own exactly what it was assigned, and report it."""
        self.owned = set(self.active)
        return self.report()

    def report(self, **changes: Any) -> StreamsGroupHeartbeatResponse:
        """A heartbeat with the tasks it owns."""
        tasks = [TaskIds("0", sorted(self.owned))] if self.owned else []
        return self.heartbeat(**{"active_tasks": tasks, "standby_tasks": [], "warmup_tasks": []} | changes)

    def leave(self) -> StreamsGroupHeartbeatResponse:
        return self.heartbeat(member_epoch=-1)


def settle(t: Trial, *members: StreamsMember) -> None:
    """Let every member obey until nothing changes any more and each has tasks."""

    def quiet() -> bool:
        before = [(each.epoch, set(each.active)) for each in members]
        for each in members:
            t.expect(each.obey(), error_code=0)
        after = [(each.epoch, set(each.active)) for each in members]
        return before == after and all(each.active for each in members) and len({each.epoch for each in members}) == 1

    t.until(quiet, bool, "the members did not settle")

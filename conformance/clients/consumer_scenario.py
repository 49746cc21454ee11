"""Base of the scenarios that test a client in the consumer protocol (KIP-848).

Configures the heartbeat interval and the session timeout of its groups, since their coordinator sets both, and checks
the heartbeats of every case (`aftermath`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_shim.conformance.clients.client_processes import Client, Member, Partition
from kafka_shim.conformance.clients.relay import Exchange, Plan
from kafka_shim.conformance.clients.scenario import PATIENCE, Scenario
from kafka_shim.conformance.targets import Instance
from kafka_shim.conformance.verdict import Skipped

HEARTBEAT: Final = "ConsumerGroupHeartbeat"
INTERVAL_MS: Final = 300
SESSION_MS: Final = 10_000
MAX_POLL_MS: Final = 6_000
_GROUP_RESOURCE: Final = 32
_ALTER_VERSION: Final = 1

Numbers = dict[bytes, frozenset[int]]


class ConsumerScenario(Scenario):
    """One run of a client case of the consumer protocol."""

    def __init__(self, instance: Instance, client: Client) -> None:
        super().__init__(instance, client)
        self._members: list[Member] = []

    def __enter__(self) -> ConsumerScenario:
        super().__enter__()
        self.configure(interval_ms=INTERVAL_MS, session_ms=SESSION_MS)
        return self

    def configure(self, *, interval_ms: int, session_ms: int) -> None:
        """Set the heartbeat interval and the session timeout of the group."""
        settings = {"consumer.heartbeat.interval.ms": interval_ms, "consumer.session.timeout.ms": session_ms}
        configs = [AlterableConfig(name, 0, str(value)) for name, value in settings.items()]
        resource = AlterConfigsResource(_GROUP_RESOURCE, self.group, configs)
        answer = self.call(IncrementalAlterConfigsRequest([resource]), _ALTER_VERSION)
        if answer.responses[0].error_code:
            raise Skipped(f"the group cannot be configured: {answer.responses[0].error_message}")

    def start(self, **config: Any) -> Member:
        self._members.append(super().start(**config))
        return self._members[-1]

    def share(self, members: Iterable[Member], patience: float = PATIENCE) -> None:
        """As in every scenario; also wait until the listeners got all owned partitions."""
        members = list(members)
        super().share(members, patience)
        self.until(
            lambda: all(listener_partitions(each) == each.owns for each in members), "the listeners get the partitions"
        )

    # -- heartbeats

    def heartbeats(self, member: Member, since: float = 0.0) -> list[Exchange]:
        """Return the heartbeats of a member, oldest first."""
        return self.relay.seen(HEARTBEAT, member.name, since)

    def generation(self, member: Member) -> int:
        """Return the member epoch, or generation, of the member's last answer."""
        heartbeats = [each for each in self.heartbeats(member) if each.error == 0]
        if heartbeats and not self.relay.seen("JoinGroup", member.name, heartbeats[-1].at):
            return int(heartbeats[-1].response.member_epoch)
        return super().generation(member)

    def plan_heartbeat(self, member: Member, action: Any, code: int = 0, **options: Any) -> Plan:
        """Plan a fault in the next heartbeat of a member; `also` restricts it further."""
        also: Callable[[Exchange], bool] = options.pop("also", lambda each: True)
        return self.relay.plan(
            HEARTBEAT, action, code, when=lambda each: each.client_id == member.name and also(each), **options
        )

    def refuse_heartbeat(self, member: Member, code: int) -> Exchange:
        """Answer the next heartbeat of a member with an error."""
        plan = self.plan_heartbeat(member, "error", code)
        self.frames(lambda: plan.fired, f"{member.name} heartbeats")
        return plan.fired[0]

    def ids(self, member: Member, since: float = 0.0) -> set[str]:
        """Return the member ids in its heartbeats."""
        return {each.request.member_id for each in self.heartbeats(member, since)}

    def await_heartbeat(
        self,
        member: Member,
        holds: Callable[[Exchange], Any],
        what: str,
        since: float = 0.0,
        patience: float = PATIENCE,
    ) -> Exchange:
        """Wait for a heartbeat of a member for which `holds` is true; it may not be answered yet."""

        def match() -> Exchange | None:
            return next((each for each in self.heartbeats(member, since) if holds(each)), None)

        exchange: Exchange = self.frames(match, f"{member.name}: {what}", patience)
        return exchange

    def await_steady(self, member: Member, since: float) -> Exchange:
        """Wait for a heartbeat after a time, past joining, with an answer without an error."""
        return self.await_heartbeat(
            member, lambda each: each.error == 0 and each.request.member_epoch > 0, "is in the group", since
        )

    def rejoined(self, member: Member, since: float) -> Exchange:
        """Wait until the member has joined again, with epoch 0, after a time."""
        return self.await_heartbeat(
            member, lambda each: each.request.member_epoch == 0 and each.error == 0, "joins again", since
        )

    # -- assertions

    def aftermath(self) -> None:
        """Check the requirements of KIP-848 on every member's heartbeats."""
        for member in self._members:
            heartbeats = self.heartbeats(member)
            for before, beat in zip([None, *heartbeats], heartbeats, strict=False):
                self._check_heartbeat(member, before, beat, [each for each in heartbeats if each.at < beat.at])

    def _check_heartbeat(
        self, member: Member, before: Exchange | None, beat: Exchange, earlier: list[Exchange]
    ) -> None:
        request = beat.request
        if before is not None and before.connection == beat.connection:
            waited = before.answered is not None and before.answered <= beat.at
            # A leaving member need not wait for an answer.
            self.check(
                waited or request.member_epoch < 0, f"{member.name} sends a heartbeat before the last one is answered"
            )
        if request.member_epoch == 0:
            self.check(is_full(beat), f"{member.name} joins with an incomplete heartbeat: {request}")
            self.check(request.topic_partitions == [], f"{member.name} joins and owns partitions: {request}")
        if request.member_epoch > 0:
            epochs = [
                each.response.member_epoch for each in earlier if each.error == 0 and (each.answered or 0) <= beat.at
            ]
            epoch = request.member_epoch
            self.check(bool(epochs), f"{member.name} sends epoch {epoch}, no answer had one")
            self.check(epoch == epochs[-1], f"{member.name} sends epoch {epoch}, the last answer had {epochs[-1]}")


def listener_partitions(member: Member) -> set[Partition]:
    """Return the partitions that a member owns, by the calls of its listener."""
    partitions: set[Partition] = set()
    for event in member.events:
        if event["event"] == "assigned":
            partitions |= {(topic, number) for topic, number in event["partitions"]}
        elif event["event"] in ("revoked", "lost"):
            partitions -= {(topic, number) for topic, number in event["partitions"]}
    return partitions


def is_full(beat: Exchange) -> bool:
    """Return True if a heartbeat has rebalance timeout, subscription and owned partitions."""
    request = beat.request
    subscribed = request.subscribed_topic_names is not None or bool(request.subscribed_topic_regex)
    return request.rebalance_timeout_ms >= 0 and subscribed and request.topic_partitions is not None


def owned(beat: Exchange) -> Numbers | None:
    """Return the owned partitions in a heartbeat; None without the field."""
    return None if beat.request.topic_partitions is None else _numbers(beat.request.topic_partitions)


def assignment_in(beat: Exchange) -> Numbers | None:
    """Return the assignment in the answer to a heartbeat; None without one."""
    answer = beat.response
    return None if answer is None or answer.assignment is None else _numbers(answer.assignment.topic_partitions)


def count(numbers: Numbers | None) -> int:
    """Count the partitions; -1 for None."""
    return -1 if numbers is None else sum(map(len, numbers.values()))


def _numbers(topics: list[Any]) -> Numbers:
    return {each.topic_id: frozenset(each.partitions) for each in topics if each.partitions}

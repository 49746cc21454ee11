"""What a client case of the consumer protocol (KIP-848) has in its hands, beside what every scenario has.

Decides how its groups are configured, since their coordinator tells members when to heartbeat and how long they live,
and what must hold of the heartbeats of every case (`aftermath`). It does not know which client its members are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_shim.conformance.clients.crew import Client, Member, Partition
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
        """How often members of the group heartbeat, and how long they live without."""
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
        """As for any scenario, and until the listeners have heard of all that the members own."""
        members = list(members)
        super().share(members, patience)
        self.until(lambda: all(heard(each) == each.owns for each in members), "the listeners hear of it")

    # -- heartbeats

    def beats(self, member: Member, since: float = 0.0) -> list[Exchange]:
        """The heartbeats of a member, oldest first."""
        return self.relay.seen(HEARTBEAT, member.name, since)

    def generation(self, member: Member) -> int:
        """The member epoch, or generation, of its last answer."""
        beats = [each for each in self.beats(member) if each.error == 0]
        if beats and not self.relay.seen("JoinGroup", member.name, beats[-1].at):
            return int(beats[-1].response.member_epoch)
        return super().generation(member)

    def plan_beat(self, member: Member, action: Any, code: int = 0, **options: Any) -> Plan:
        """A plan for the next heartbeat of a member, or the next that `also` holds for."""
        also: Callable[[Exchange], bool] = options.pop("also", lambda each: True)
        return self.relay.plan(
            HEARTBEAT, action, code, when=lambda each: each.client_id == member.name and also(each), **options
        )

    def refuse_beat(self, member: Member, code: int) -> Exchange:
        """Answer the next heartbeat of a member with an error."""
        plan = self.plan_beat(member, "error", code)
        self.frames(lambda: plan.fired, f"{member.name} heartbeats")
        return plan.fired[0]

    def ids(self, member: Member, since: float = 0.0) -> set[str]:
        """The member ids in its heartbeats."""
        return {each.request.member_id for each in self.beats(member, since)}

    def beat(
        self,
        member: Member,
        holds: Callable[[Exchange], Any],
        what: str,
        since: float = 0.0,
        patience: float = PATIENCE,
    ) -> Exchange:
        """Wait for a heartbeat of a member of which something holds; it may not be answered yet."""

        def found() -> Exchange | None:
            return next((each for each in self.beats(member, since) if holds(each)), None)

        exchange: Exchange = self.frames(found, f"{member.name}: {what}", patience)
        return exchange

    def well(self, member: Member, since: float) -> Exchange:
        """Wait for a heartbeat after a time that was answered without an error, past joining."""
        return self.beat(
            member, lambda each: each.error == 0 and each.request.member_epoch > 0, "is in the group", since
        )

    def rejoined(self, member: Member, since: float) -> Exchange:
        """Wait until the member has joined anew, with epoch 0, after a time."""
        return self.beat(member, lambda each: each.request.member_epoch == 0 and each.error == 0, "joins anew", since)

    # -- what must hold

    def aftermath(self) -> None:
        """What KIP-848 asks of every member, of the heartbeats this case has seen."""
        for member in self._members:
            beats = self.beats(member)
            for before, beat in zip([None, *beats], beats, strict=False):
                self._lawful(member, before, beat, [each for each in beats if each.at < beat.at])

    def _lawful(self, member: Member, before: Exchange | None, beat: Exchange, earlier: list[Exchange]) -> None:
        request = beat.request
        if before is not None and before.connection == beat.connection:
            waited = before.answered is not None and before.answered <= beat.at
            # Who leaves need not wait for an answer.
            self.check(waited or request.member_epoch < 0, f"{member.name} has two heartbeats under way at once")
        if request.member_epoch == 0:
            self.check(is_full(beat), f"{member.name} joins with a heartbeat that does not say everything: {request}")
            self.check(request.topic_partitions == [], f"{member.name} joins and owns something: {request}")
        if request.member_epoch > 0:
            epochs = [
                each.response.member_epoch for each in earlier if each.error == 0 and (each.answered or 0) <= beat.at
            ]
            epoch = request.member_epoch
            self.check(bool(epochs), f"{member.name} sends epoch {epoch}, no answer had one")
            self.check(epoch == epochs[-1], f"{member.name} sends epoch {epoch}, the last answer had {epochs[-1]}")


def heard(member: Member) -> set[Partition]:
    """What a member owns, by the calls of its listener."""
    has: set[Partition] = set()
    for event in member.events:
        if event["event"] == "assigned":
            has |= {(topic, number) for topic, number in event["partitions"]}
        elif event["event"] in ("revoked", "lost"):
            has -= {(topic, number) for topic, number in event["partitions"]}
    return has


def is_full(beat: Exchange) -> bool:
    """Whether a heartbeat says all there is to say: rebalance timeout, subscription, what is owned."""
    request = beat.request
    subscribed = request.subscribed_topic_names is not None or bool(request.subscribed_topic_regex)
    return request.rebalance_timeout_ms >= 0 and subscribed and request.topic_partitions is not None


def owned(beat: Exchange) -> Numbers | None:
    """What a heartbeat says its member owns; None where it says nothing of it."""
    return None if beat.request.topic_partitions is None else _numbers(beat.request.topic_partitions)


def assignment_in(beat: Exchange) -> Numbers | None:
    """The assignment a heartbeat was answered with; None where it has none."""
    answer = beat.response
    return None if answer is None or answer.assignment is None else _numbers(answer.assignment.topic_partitions)


def count(numbers: Numbers | None) -> int:
    """How many partitions; -1 for none in the heartbeat."""
    return -1 if numbers is None else sum(map(len, numbers.values()))


def _numbers(topics: list[Any]) -> Numbers:
    return {each.topic_id: frozenset(each.partitions) for each in topics if each.partitions}

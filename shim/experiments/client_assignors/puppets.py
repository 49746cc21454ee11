"""Puppets that compute the assignment of their group, as in the draft of KIP-848.

Such a member lists its assignors. When its heartbeat asks it to compute, it fetches the input, waits `computes`
seconds, and sends the result. The coordinator must serve the experiment: `--experimental client-assignors`.

Source: the draft of KIP-848; docs/client-assignors.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.experiments.client_assignors.messages import (
    ClientAssignor,
    ClientAssignorHeartbeatRequest,
    ClientAssignorHeartbeatResponse,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    InstalledMember,
)
from kafka_shim.lab import arguments
from kafka_shim.lab.client_assignors import balanced
from kafka_shim.lab.consumer_puppets import ConsumerPuppet, ConsumerScript
from kafka_shim.lab.scheduler import Link, Scheduler


class MemberView(NamedTuple):
    """A member as input of an assignor. `metadata` is its assignor's, `target` its present target assignment."""

    topics: list[str]
    metadata: bytes
    metadata_version: int
    target: dict[str, list[int]]
    instance_id: str | None
    rack_id: str | None


class Share(NamedTuple):
    """The assignment of one member."""

    partitions: dict[str, list[int]]
    metadata: bytes = b""
    metadata_version: int = 0


Assign: TypeAlias = Callable[[Mapping[str, MemberView], Mapping[str, int]], Mapping[str, Share]]
"""From the members by id, and the partition counts of topics, to the shares of members."""


def evenly(members: Mapping[str, MemberView], partitions: Mapping[str, int]) -> Mapping[str, Share]:
    """Give each member equally many partitions, with as few moves as possible."""
    shares = balanced(
        {member_id: view.topics for member_id, view in members.items()},
        partitions,
        {member_id: view.target for member_id, view in members.items()},
    )
    return {member_id: Share(of_topic) for member_id, of_topic in shares.items()}


@dataclass(frozen=True, kw_only=True)
class PuppetAssignor:
    """An assignor of a puppet. It reads metadata of versions `minimum_version` to `maximum_version`, and writes its own
    in `metadata_version`; `reason` is a number for the cause of the last change. An exception of `assign` is sent as
    error -1.
    """

    name: str = "evenly"
    assign: Assign = evenly
    metadata: bytes = b""
    metadata_version: int = 0
    minimum_version: int = 0
    maximum_version: int = 0
    reason: int = 0

    def __post_init__(self) -> None:
        if not callable(self.assign):
            raise ValueError(f"An assignor's assign must be a function, not {self.assign!r}.")

    @property
    def on_the_wire(self) -> ClientAssignor:
        return ClientAssignor(
            self.name, self.minimum_version, self.maximum_version, self.reason, self.metadata_version, self.metadata
        )


@dataclass(frozen=True, kw_only=True)
class ClientAssignorScript(ConsumerScript):
    """Configuration of a puppet with its own assignors, in order of preference. It takes `computes` seconds to compute
    an assignment.
    """

    assignors: Sequence[PuppetAssignor] = field(default_factory=lambda: (PuppetAssignor(),))
    computes: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.seconds("The time a puppet computes", self.computes)
        if not self.assignors or not all(isinstance(each, PuppetAssignor) for each in self.assignors):
            raise ValueError(f"A puppet's assignors must be one or more PuppetAssignor, not {self.assignors!r}.")


class ClientAssignorPuppet(ConsumerPuppet):
    """One member. `installed` are the group epochs of its computations; `metadata` and `assignor_error` are
    the assignor's in its assignment, `pending` the partitions it waits for.
    """

    kind = "client-assignors"
    script_class = ClientAssignorScript
    api = "ClientAssignorHeartbeat"

    def __init__(self, scheduler: Scheduler, script: ClientAssignorScript) -> None:
        super().__init__(scheduler, script)
        self.assignors = tuple(script.assignors)
        self.installed: list[int] = []
        self.metadata = b""
        self.assignor_error = 0
        self.pending: dict[str, list[int]] = {}
        self._computes = script.computes
        self._computation: object = None
        self._sends_assignors = True

    @classmethod
    def script_of(cls, fields: Mapping[str, Any]) -> ClientAssignorScript:
        """Build a script; `manner` and each of the `assignors` may be a mapping. Raises ValueError, in one sentence."""
        values = dict(fields)
        if "assignors" in values:
            values["assignors"] = [
                PuppetAssignor(**each) if isinstance(each, Mapping) else each for each in values["assignors"]
            ]
        script: ClientAssignorScript = super().script_of(values)
        return script

    def say(self, *assignors: PuppetAssignor) -> None:
        """Use these assignors from now on, or their new metadata; the next heartbeat sends them."""
        self.assignors = assignors
        self._sends_assignors = True

    def say_of(self, assignors: Sequence[Mapping[str, Any]]) -> None:
        """Do the same with assignors as mappings of their fields. Raises ValueError."""
        self.say(*(PuppetAssignor(**each) for each in assignors))

    # Heartbeats

    def _join(self, now: float) -> None:
        self._computation = None
        self._sends_assignors = True
        super()._join(now)

    def _request(self, epoch: int) -> ClientAssignorHeartbeatRequest:
        assignors = None
        if self._sends_assignors and epoch >= 0:
            assignors, self._sends_assignors = [each.on_the_wire for each in self.assignors], False
        script = self.consumer
        return ClientAssignorHeartbeatRequest(
            script.group, self.member_id, epoch, script.instance_id, client_assignors=assignors
        )

    def _assigned_by(self, answer: Any) -> dict[str, list[int]] | None:
        assignment = answer.assignment
        if assignment is None:
            return None
        self.metadata, self.assignor_error = assignment.metadata, assignment.error
        self.pending = self._by_name(assignment.pending)
        return self._by_name(assignment.assigned)

    def _heartbeat_answered(self, answer: ClientAssignorHeartbeatResponse, now: float) -> None:
        super()._heartbeat_answered(answer, now)
        if answer.should_compute_assignment and self._computation is None and self._is_active:
            self._computation = turn = object()
            request = ConsumerGroupPrepareAssignmentRequest(self.consumer.group, self.member_id, self.generation)
            self._ask(request, lambda prepared, later: self._on_prepare(prepared, turn, later), now)

    def _on_refusal(self, code: ErrorCode, now: float) -> None:
        # The coordinator may have lost its assignors.
        self._computation, self._sends_assignors = None, True
        super()._on_refusal(code, now)

    def disconnected(self, link: Link, now: float) -> None:
        """See `Client.disconnected`."""
        if link is self._link:
            self._computation, self._sends_assignors = None, True
        super().disconnected(link, now)

    # Computation

    def _on_prepare(self, answer: ConsumerGroupPrepareAssignmentResponse, turn: object, now: float) -> None:
        if answer.error_code:
            self._on_failure("ConsumerGroupPrepareAssignment", answer.error_code)
            return
        self._scheduler.after(now, self._computes, lambda later: self._compute(answer, turn, later))

    def _compute(self, prepared: ConsumerGroupPrepareAssignmentResponse, turn: object, now: float) -> None:
        if turn is not self._computation or not self._is_active:
            return
        names = {topic.topic_id: topic.topic_name for topic in prepared.topics}
        members = {
            each.member_id: MemberView(
                [names[topic_id] for topic_id in each.subscribed_topic_ids if topic_id in names],
                each.assignor.metadata,
                each.assignor.metadata_version,
                {names[of.topic_id]: of.partitions for of in each.target if of.topic_id in names},
                each.instance_id,
                each.rack_id,
            )
            for each in prepared.members
        }
        assign = {each.name: each.assign for each in self.assignors}.get(prepared.assignor_name)
        request = ConsumerGroupInstallAssignmentRequest(
            self.consumer.group, self.member_id, self.generation, prepared.group_epoch
        )
        try:
            if assign is None:
                raise LookupError(f"Member {self.member_id} no longer has the assignor {prepared.assignor_name!r}.")
            shares = assign(members, {topic.topic_name: topic.partitions for topic in prepared.topics})
            request.members = [
                InstalledMember(member_id, self._by_topic_id(share.partitions), share.metadata_version, share.metadata)
                for member_id, share in shares.items()
            ]
        except Exception:
            request.error = -1
        self._ask(request, lambda answer, later: self._on_install(answer, prepared.group_epoch), now)

    def _on_install(self, answer: ConsumerGroupInstallAssignmentResponse, group_epoch: int) -> None:
        if answer.error_code:
            self._on_failure("ConsumerGroupInstallAssignment", answer.error_code)
            return
        self._computation = None
        self.installed.append(group_epoch)

    def _on_failure(self, api: str, code: int) -> None:
        """Record the error. If the member must still compute, its next heartbeat asks again."""
        self.errors.append((api, ErrorCode(code)))
        self._computation = None

"""Puppets that compute the assignment of their group, as members were to when KIP-848 was under discussion.

Decides what such a member does beyond one of the consumer protocol: it says which assignors it has, and when its
heartbeat asks it to compute, it fetches what it computes with, takes its time, and hands the result in. What it divides
and how is its script's. The coordinator must serve it: `--experimental client-assignors`.

Source: KIP-848 while it was under discussion; docs/client-assignors.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from kafka_shim.apis.client_assignor import ClientAssignor
from kafka_shim.apis.experimental.client_assignor_heartbeat import (
    ClientAssignorHeartbeatRequest,
    ClientAssignorHeartbeatResponse,
)
from kafka_shim.apis.experimental.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    InstalledMember,
)
from kafka_shim.apis.experimental.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.lab import arguments
from kafka_shim.lab.client_assignors import balanced
from kafka_shim.lab.consumer_puppets import ConsumerPuppet, ConsumerScript
from kafka_shim.lab.scheduler import Link, Scheduler


class MemberView(NamedTuple):
    """A member as the one that computes sees it. `metadata` is what its assignor wrote, `target` what it is to have so
    far."""

    topics: list[str]
    metadata: bytes
    metadata_version: int
    target: dict[str, list[int]]
    instance_id: str | None
    rack_id: str | None


class Share(NamedTuple):
    """What a member gets."""

    partitions: dict[str, list[int]]
    metadata: bytes = b""
    metadata_version: int = 0


Assign: TypeAlias = Callable[[Mapping[str, MemberView], Mapping[str, int]], Mapping[str, Share]]
"""From the members by id, and the partitions that topics have, to the shares of members."""


def evenly(members: Mapping[str, MemberView], partitions: Mapping[str, int]) -> Mapping[str, Share]:
    """As many to each, and as few moved as that allows."""
    shares = balanced(
        {member_id: view.topics for member_id, view in members.items()},
        partitions,
        {member_id: view.target for member_id, view in members.items()},
    )
    return {member_id: Share(of_topic) for member_id, of_topic in shares.items()}


@dataclass(frozen=True, kw_only=True)
class PuppetAssignor:
    """An assignor of a puppet. It reads metadata of others from `minimum_version` to `maximum_version`, and says its
    own in `metadata_version`; `reason` says why that changed. An exception of `assign` is handed in as the error -1."""

    name: str = "evenly"
    assign: Assign = evenly
    metadata: bytes = b""
    metadata_version: int = 0
    minimum_version: int = 0
    maximum_version: int = 0
    reason: int = 0

    def __post_init__(self) -> None:
        if not callable(self.assign):
            raise ValueError(f"An assignor's assign is a function, not {self.assign!r}.")

    @property
    def on_the_wire(self) -> ClientAssignor:
        return ClientAssignor(
            self.name, self.minimum_version, self.maximum_version, self.reason, self.metadata_version, self.metadata
        )


@dataclass(frozen=True, kw_only=True)
class ClientAssignorScript(ConsumerScript):
    """What a puppet with assignors of its own says of itself; the best of them comes first. It takes `computes` seconds
    to compute an assignment."""

    assignors: Sequence[PuppetAssignor] = field(default_factory=lambda: (PuppetAssignor(),))
    computes: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.seconds("The time a puppet computes", self.computes)
        if not self.assignors or not all(isinstance(each, PuppetAssignor) for each in self.assignors):
            raise ValueError(f"A puppet's assignors are one or more PuppetAssignor, not {self.assignors!r}.")


class ClientAssignorPuppet(ConsumerPuppet):
    """One member. `installed` are the group epochs whose assignment it computed, `metadata` and `assignor_error` what
    the assignor said to it with its assignment, `pending` what it waits for."""

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
        self._say_assignors = True

    def say(self, *assignors: PuppetAssignor) -> None:
        """Have these assignors from now on, or say other metadata; the coordinator hears it with the next heartbeat."""
        self.assignors = assignors
        self._say_assignors = True

    def say_of(self, assignors: Sequence[Mapping[str, Any]]) -> None:
        """The same, of the fields of assignors. Raises ValueError."""
        self.say(*(PuppetAssignor(**each) for each in assignors))

    # Heartbeats

    def _join(self, now: float) -> None:
        self._computation = None
        self._say_assignors = True
        super()._join(now)

    def _request(self, epoch: int) -> ClientAssignorHeartbeatRequest:
        assignors = None
        if self._say_assignors and epoch >= 0:
            assignors, self._say_assignors = [each.on_the_wire for each in self.assignors], False
        script = self.consumer
        return ClientAssignorHeartbeatRequest(
            script.group, self.member_id, epoch, script.instance_id, client_assignors=assignors
        )

    def _assigned_by(self, answer: Any) -> dict[str, list[int]] | None:
        assignment = answer.assignment
        if assignment is None:
            return None
        self.metadata, self.assignor_error = assignment.metadata, assignment.error
        self.pending = self._named(assignment.pending)
        return self._named(assignment.assigned)

    def _heartbeat_answered(self, answer: ClientAssignorHeartbeatResponse, now: float) -> None:
        super()._heartbeat_answered(answer, now)
        if answer.should_compute_assignment and self._computation is None and self._plays:
            self._computation = turn = object()
            request = ConsumerGroupPrepareAssignmentRequest(self.consumer.group, self.member_id, self.generation)
            self._ask(request, lambda prepared, later: self._prepared(prepared, turn, later), now)

    def _refused(self, code: ErrorCode, now: float) -> None:
        # What it said of its assignors may not have been heard.
        self._computation, self._say_assignors = None, True
        super()._refused(code, now)

    def disconnected(self, link: Link, now: float) -> None:
        """See `Client.disconnected`."""
        if link is self._link:
            self._computation, self._say_assignors = None, True
        super().disconnected(link, now)

    # Computing

    def _prepared(self, answer: ConsumerGroupPrepareAssignmentResponse, turn: object, now: float) -> None:
        if answer.error_code:
            self._gave_up("ConsumerGroupPrepareAssignment", answer.error_code)
            return
        self._scheduler.after(now, self._computes, lambda later: self._compute(answer, turn, later))

    def _compute(self, prepared: ConsumerGroupPrepareAssignmentResponse, turn: object, now: float) -> None:
        if turn is not self._computation or not self._plays:
            return
        names = {topic.topic_id: topic.topic_name for topic in prepared.topics}
        members = {
            each.member_id: MemberView(
                [names[topic_id] for topic_id in each.subscribed_topic_ids],
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
                raise LookupError(f"It has no assignor {prepared.assignor_name!r} any more.")
            shares = assign(members, {topic.topic_name: topic.partitions for topic in prepared.topics})
        except Exception:
            request.error = -1
        else:
            request.members = [
                InstalledMember(member_id, self._by_topic_id(share.partitions), share.metadata_version, share.metadata)
                for member_id, share in shares.items()
            ]
        self._ask(request, lambda answer, later: self._handed_in(answer, prepared.group_epoch), now)

    def _handed_in(self, answer: ConsumerGroupInstallAssignmentResponse, group_epoch: int) -> None:
        if answer.error_code:
            self._gave_up("ConsumerGroupInstallAssignment", answer.error_code)
            return
        self._computation = None
        self.installed.append(group_epoch)

    def _gave_up(self, api: str, code: int) -> None:
        """If it is still to compute, its next heartbeat says so."""
        self.errors.append((api, ErrorCode(code)))
        self._computation = None

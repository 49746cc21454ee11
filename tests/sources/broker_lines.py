"""Lines of brokers as each release of Kafka writes them, by their templates."""

from __future__ import annotations

from datetime import UTC, datetime

OLD = "kafka.coordinator.group.GroupCoordinator"
NEW = "org.apache.kafka.coordinator.group.GroupMetadataManager"
BEGIN_MS = 1_795_771_566_123
"""2026-11-27 09:26:06.123 UTC"""


def uuid(number: int) -> str:
    return f"{number:08d}-0000-4000-8000-000000000000"


class Broker:
    """A broker of one release, with lines about one group in the layout of Kafka. Times are seconds since its start."""

    def __init__(self, release: str, group: str = "billing", node: int = 0) -> None:
        self.release = tuple(map(int, release.split(".")))
        self.group = group
        self.node = node
        self.lines: list[str] = []

    @property
    def is_new(self) -> bool:
        return self.release >= (4, 0)

    @property
    def text(self) -> bytes:
        return "".join(f"{line}\n" for line in self.lines).encode()

    def write(self, at: float, text: str, level: str = "INFO", logger: str = "") -> None:
        stamp = datetime.fromtimestamp((BEGIN_MS + round(at * 1000)) / 1000, UTC)
        clock = f"{stamp:%Y-%m-%d %H:%M:%S},{stamp.microsecond // 1000:03d}"
        prefix = f"[GroupCoordinator {self.node}]: "
        if self.is_new:
            prefix = f"[GroupCoordinator id={self.node} topic=__consumer_offsets partition=7] "
        logger = logger or (NEW if self.is_new else OLD)
        self.lines.append(f"[{clock}] {level} {prefix}{text} ({logger})")

    def instance(self, instance: str | None) -> str:
        if self.is_new:
            return "null" if instance is None else instance
        return "None" if instance is None else f"Some({instance})"

    def _why(self, cause: str, reason: str | None = None) -> str:
        if reason is not None and self.release >= (3, 2):
            cause += f"; client reason: {reason}"
        return cause

    # Members

    def id_given(self, at: float, member: str, state: str) -> None:
        if self.release < (3, 0):
            return
        verb = "requesting" if self.is_new else "request"
        self.write(
            at,
            f"Dynamic member with unknown member id joins group {self.group} in {state} state. Created a new member id"
            f" {member} and {verb} the member to rejoin with this id.",
        )

    def joined(self, at: float, member: str, state: str) -> None:
        if self.is_new:
            self.write(
                at,
                f"Pending dynamic member with id {member} joins group {self.group} in {state} state. Adding to the"
                " group now.",
            )

    def expired(self, at: float, member: str) -> None:
        stop = "." if self.is_new else ""
        self.write(at, f"Member {member} in group {self.group} has failed, removing it from the group{stop}")

    def leaves(
        self, at: float, member: str, old: int, reason: str = "not provided", instance: str | None = None
    ) -> None:
        """The member leaves and a rebalance begins; the order of the two lines differs by release."""
        if self.is_new:
            self.write(
                at,
                f"[Group {self.group}] Member {member} has left group through explicit `LeaveGroup` request; client"
                f" reason: {reason}",
            )
            self.preparing(at, old, f"explicit `LeaveGroup` request for ({'' if instance else member}) members.")
        elif self.release >= (3, 0):
            self.preparing(at, old, self._why(f"Removing member {member} on LeaveGroup", reason))
            ending = f"; client reason: {reason}" if self.release >= (3, 2) else " request"
            self.write(
                at + 0.001,
                f"Member MemberMetadata(memberId={member}, groupInstanceId={self.instance(instance)},"
                f" clientId={member[:-37]}, clientHost=/10.0.0.7, sessionTimeoutMs=45000, rebalanceTimeoutMs=300000,"
                f" supportedProtocols=List(range, cooperative-sticky)) has left group {self.group} through explicit"
                f" `LeaveGroup`{ending}",
            )
        else:
            if self.release >= (2, 4):
                text = f"Member[group.instance.id {self.instance(instance)}, member.id {member}] in group {self.group}"
                self.write(at, f"{text} has left, removing it from the group")
            elif self.release >= (2, 2):
                self.write(at, f"Member {member} in group {self.group} has left, removing it from the group")
            self.preparing(at, old, f"removing member {member} on LeaveGroup")

    def not_rejoined(self, at: float, *members: str) -> None:
        ids = ", ".join(members)
        if self.release >= (2, 8):
            listed = f"[{ids}]" if self.is_new else f"Set({ids})"
            self.write(at, f"Group {self.group} removed dynamic members who haven't joined: {listed}")

    # Rounds

    def preparing(self, at: float, old: int, cause: str) -> None:
        text = f"Preparing to rebalance group {self.group} "
        if self.release >= (2, 1):
            text += "in state PreparingRebalance "
        text += f"with old generation {old}"
        if not self.is_new:
            text += " (__consumer_offsets-7)"
        if self.release >= (2, 1):
            text += f" (reason: {cause})" + ("." if self.is_new else "")
        self.write(at, text)

    def new_member(self, at: float, member: str, old: int, state: str, instance: str | None = None) -> None:
        """A member joins and a rebalance begins."""
        if instance is None:
            self.id_given(at, member, state)
            self.joined(at + 0.002, member, state)
        words = "with group instance id" if self.release >= (2, 5) else "with group instanceid"
        cause = f"Adding new member {member}"
        if self.release >= (2, 3):
            cause += f" {words} {self.instance(instance)}"
        self.preparing(at + 0.003, old, self._why(cause, "not provided"))

    def expiry(self, at: float, member: str, old: int) -> None:
        """A session ends and a rebalance begins."""
        self.expired(at, member)
        self.preparing(at, old, f"removing member {member} on heartbeat expiration{'.' if self.is_new else ''}")

    def stabilized(self, at: float, generation: int, members: int) -> None:
        text = f"Stabilized group {self.group} generation {generation}"
        if not self.is_new:
            text += " (__consumer_offsets-7)"
        if self.release >= (2, 8):
            text += f" with {members} members" + ("." if self.is_new else "")
        self.write(at, text)

    def assigned(self, at: float, generation: int, leader: str, members: int) -> None:
        of_leader = f" {leader}" if self.release >= (3, 0) else ""
        text = f"Assignment received from leader{of_leader} for group {self.group} for generation {generation}"
        if self.release >= (2, 8):
            text += f". The group has {members} members, 0 of which are static."
        self.write(at, text)

    def round(self, at: float, generation: int, leader: str, members: int) -> None:
        self.stabilized(at, generation, members)
        self.assigned(at + 0.05, generation, leader, members)

    def empty(self, at: float, generation: int) -> None:
        end = "." if self.is_new else " (__consumer_offsets-7)"
        self.write(at, f"Group {self.group} with generation {generation} is now empty{end}")


def life(release: str) -> bytes:
    """Two members start, one is killed, a third comes, leaves for a missed poll, and the last one closes."""
    broker = Broker(release)
    one, two, three = (f"app-{number}-{uuid(number)}" for number in (1, 2, 3))
    broker.new_member(0, one, 0, "Empty")
    broker.id_given(1, two, "PreparingRebalance")
    broker.joined(1, two, "PreparingRebalance")
    broker.round(3, 1, one, 2)
    broker.expiry(100, two, 1)
    broker.round(101, 2, one, 1)
    broker.new_member(200, three, 2, "Stable")
    broker.round(202, 3, one, 2)
    broker.leaves(502.1, three, 3, "consumer poll timeout has expired.")
    broker.round(503, 4, one, 1)
    broker.leaves(700, one, 4, "the consumer is being closed")
    broker.empty(700.002, 5)
    return broker.text


class EpochBroker(Broker):
    """A broker with a consumer group of KIP-848."""

    def says(self, at: float, text: str) -> None:
        self.write(at, f"[GroupId {self.group}] {text}")

    def joins(self, at: float, member: str, epoch: int, digest: int) -> None:
        self.says(at, f"Member {member} joins the consumer group using the consumer protocol.")
        self.epoch(at + 0.001, epoch, digest)

    def epoch(self, at: float, epoch: int, digest: int) -> None:
        of_hash = f" with metadata hash {digest}" if self.release >= (4, 1) else ""
        self.says(at, f"Bumped group epoch to {epoch}{of_hash}.")
        self.says(at + 1, f"Computed a new target assignment for epoch {epoch} with 'uniform' assignor in 1ms.")

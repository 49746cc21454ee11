"""The common part of worlds with a group epoch, in which no member waits for an answer.

Gives such a world its key, reloads it, and runs it until it is at rest. Each world adds its clients, members and
invariants.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from tests.groups.context import GROUP
from tests.groups.exhaustive.world import Epochs, World

G = TypeVar("G", bound=Any)


class EpochWorld(World, Generic[G]):
    """A group of the class `made`; its records restore the attributes in `of_records`."""

    made: ClassVar[type]
    of_records: ClassVar[tuple[str, ...]]

    @property
    def group(self) -> G | None:  # type: ignore[override]
        group = self.node.service.groups.get(GROUP)
        assert group is None or isinstance(group, self.made)
        return group  # type: ignore[return-value]

    # States

    def key(self) -> object:
        group = self.group
        if group is None:
            return [self.absent_key(each) for each in self.clients], self.shared_key()
        members = group.members.values()
        epochs = Epochs(
            group.group_epoch, {epoch for member in members for epoch in (member.epoch, member.previous_epoch)}
        )
        return (
            [self.client_key(each, epochs) for each in self.clients],
            sorted(self.member_key(group, each, epochs) for each in members),
            sorted((member_id, self.target_key(target)) for member_id, target in group.targets.items()),
            epochs.of(group.target_epoch),
            group.metadata_stale,
            group.metadata_hash,
            self.other_key(group),
            [(timer.kind.value, timer.member_id) for timer in self.timers()],
            self.shared_key(),
        )

    @abstractmethod
    def absent_key(self, client: Any) -> tuple[Any, ...]:
        """A client while there is no group."""

    @abstractmethod
    def client_key(self, client: Any, epochs: Epochs) -> tuple[Any, ...]: ...

    @abstractmethod
    def member_key(self, group: G, member: Any, epochs: Epochs) -> tuple[Any, ...]: ...

    @abstractmethod
    def target_key(self, target: Any) -> object: ...

    @abstractmethod
    def other_key(self, group: G) -> object:
        """The part of the key that only this kind has."""

    # Steps

    def act(self, client: Any, what: str) -> None:
        client.act(what)

    # Invariants

    def check(self) -> None:
        group = self.group
        if group is None:
            return
        for member in group.members.values():
            assert member.epoch <= group.group_epoch, "I2"
        assert group.target_epoch <= group.group_epoch, "I2"
        self.check_group(group)
        for timer in self.timers():
            assert not timer.member_id or timer.member_id in group.members, "I10"
        again: Any = self.reloaded()
        assert isinstance(again, self.made), "I5"
        for name in self.of_records:
            assert getattr(again, name) == getattr(group, name), f"I5: {name}"

    @abstractmethod
    def check_group(self, group: G) -> None: ...

    def settle(self) -> None:
        group = self.group
        if group is None or not group.members:
            return
        present = [each for each in self.clients if each.member_id in group.members]
        self.begin_rest(present)

        def go_on() -> None:
            for client in present:
                self.go_on(client)

        self.until_quiet(lambda: [self.view(each) for each in present], go_on)
        self.check_rest(present)

    def begin_rest(self, present: list[Any]) -> None:
        """Take the first step of members that no event disturbs."""

    @abstractmethod
    def go_on(self, client: Any) -> None: ...

    @abstractmethod
    def view(self, client: Any) -> object:
        """The part of a client that changes until the group is at rest."""

    @abstractmethod
    def check_rest(self, present: list[Any]) -> None: ...

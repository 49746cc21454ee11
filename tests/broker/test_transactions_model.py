"""Pending offsets in a store without order against Kafka's rule, which is about places in a log."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.examples import examples

from .transacting import UNSTABLE, Transacting

NAMES = ("a", "b", "c")
names = st.sampled_from(NAMES)
partitions = st.integers(0, 2)


class Log:
    """A model of Kafka for the same requests: every write has a place, and at a commit the later place wins."""

    def __init__(self) -> None:
        self.end = 0
        self.offsets: dict[int, tuple[int, int]] = {}
        self.pending: dict[str, dict[int, tuple[int, int]]] = {name: {} for name in NAMES}

    def write(self, partition: int, offset: int, name: str | None = None) -> None:
        self.end += 1
        (self.offsets if name is None else self.pending[name])[partition] = (self.end, offset)

    def finish(self, name: str, *, commit: bool) -> None:
        for partition, (place, offset) in self.pending[name].items():
            if commit and place > self.offsets.get(partition, (0, 0))[0]:
                self.offsets[partition] = (place, offset)
        self.pending[name] = {}

    def delete(self, partition: int) -> None:
        for offsets in (self.offsets, *self.pending.values()):
            offsets.pop(partition, None)


class PendingOffsets(RuleBasedStateMachine):
    """Commits, plain and in three transactions at once, their ends, deletions, restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = Transacting()
        self.log = Log()
        self.producers = {name: self.broker.init(name, timeout=900_000) for name in NAMES}
        self.next_offset = 0

    def offset(self) -> int:
        self.next_offset += 1
        return self.next_offset

    @rule(partition=partitions)
    def commit(self, partition: int) -> None:
        offset = self.offset()
        self.broker.commit({partition: offset})
        self.log.write(partition, offset)

    @rule(name=names, chosen=st.sets(partitions, min_size=1))
    def commit_in_transaction(self, name: str, chosen: set[int]) -> None:
        offsets = {partition: self.offset() for partition in sorted(chosen)}
        assert set(self.broker.commit_in(self.producers[name], offsets, name=name)) == {0}
        for partition, offset in offsets.items():
            self.log.write(partition, offset, name)

    @rule(name=names, commit=st.booleans())
    def end(self, name: str, commit: bool) -> None:
        ended = self.broker.end(self.producers[name], commit=commit, name=name)
        if not isinstance(ended, int):
            self.producers[name] = ended
        self.log.finish(name, commit=commit)

    @rule(name=names)
    def begin_again(self, name: str) -> None:
        self.producers[name] = self.broker.init(name, timeout=900_000)
        self.log.finish(name, commit=False)

    @rule(partition=partitions)
    def delete(self, partition: int) -> None:
        self.broker.delete_offset(partition)
        self.log.delete(partition)

    @rule()
    def restart(self) -> None:
        self.broker.restart()

    @invariant()
    def offsets_are_those_of_the_log(self) -> None:
        expected = {partition: offset for partition, (_, offset) in self.log.offsets.items()}
        assert self.broker.offsets(stable=False) == expected
        unstable = {partition for offsets in self.log.pending.values() for partition in offsets}
        assert self.broker.offsets() == expected | dict.fromkeys(unstable, UNSTABLE)


TestPendingOffsets = PendingOffsets.TestCase
TestPendingOffsets.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)

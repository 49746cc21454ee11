"""A fuzzer of consumers: it plays faults, rebalances and moves of the clock against the consumer of a project.

Hypothesis draws a journal, a list of steps. Between two steps each consumer stands still: in the middle of a record, or
without one to process. So a journal plays again as it did, and Hypothesis shrinks it. It needs `hypothesis`.

    def consume(run: Run) -> None:
        consumer = KafkaConsumer("orders", bootstrap_servers=run.bootstrap, group_id=run.group, client_id=run.client_id)
        with closing(consumer):
            while run.running:
                for records in consumer.poll(100).values():
                    for record in records:
                        run.process(record)
                consumer.commit()

    def test_my_consumer_loses_nothing():
        fuzz(consume, nothing_lost)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafka_shim.lab.group_waits import STORY_LINES
from kafka_shim.lab.interception import similar
from kafka_shim.lab.snapshots import GroupSnapshot, committed
from kafka_shim.lab.topic_data import StoredRecord
from kafka_shim.testing.scenarios import cut_off
from kafka_shim.testing.server import CoordinatorServer

if TYPE_CHECKING:
    from hypothesis import settings as Settings
    from hypothesis.strategies import SearchStrategy

GROUP: Final = "fuzzed"
TOPIC: Final = "orders"
RESULTS: Final = "results"
PARTITIONS: Final = 2
KEYS: Final = ("a", "b", "c", "d")
MOST_CONSUMERS: Final = 2
EXAMPLES: Final = 50
PATIENCE_SECONDS: Final = 4.0
"""Real time for consumers to come to a standstill. A right consumer needs a second at most."""
FINISHES: Final = 5
PERMITS: Final = 1_000_000
"""More than all records of a journal."""
TRANSACTION_SECONDS: Final = 61.0
"""Time after which the coordinator aborts the open transactions of dead producers (`transaction.timeout.ms`)."""

Step = tuple[Any, ...]
"""The name of a step, and its arguments."""

STEPS: Final[dict[str, str]] = {
    "produce": "(n): n more records",
    "process": "(consumer, n): the consumer processes n records",
    "start": "(): one more consumer starts, and the group rebalances",
    "stop": "(consumer): it is asked to stop, and leaves the group",
    "kill": "(consumer): it dies in the middle of its record; the coordinator ends its session",
    "zombie": "(consumer, n): its network is cut and its session ends; another processes n records; then it is back",
    "clock": "(seconds): the coordinator's clock jumps on; sessions and transactions may end",
    "fail": "(error): the next commit is answered with an error",
    "lose": "(): the next commit is executed, and its answer is lost with the connection",
    "move": "(): the group moves to the other broker",
}
"""Steps by name. `consumer` is a number; that of the consumer modulo the number of live ones."""
GRACEFUL: Final = ("produce", "process", "start", "stop", "move")
"""Steps in which no consumer dies: with these, a consumer that commits in time processes nothing twice."""

ERRORS: Final = ("REBALANCE_IN_PROGRESS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")


class Killed(BaseException):
    """Raised in the thread of a consumer that is killed; it ends the function as the death of a process would."""


@dataclass(frozen=True)
class Work:
    """A record that a consumer processed. `committed` is the group's offset of the partition when that began."""

    client_id: str
    partition: int
    offset: int
    committed: int


@dataclass
class Outcome:
    """What a journal came to; checks read it."""

    produced: list[StoredRecord] = field(default_factory=list)
    starts: list[Work] = field(default_factory=list)
    done: list[Work] = field(default_factory=list)
    results: list[StoredRecord] = field(default_factory=list)
    """The records of the topic `results`, without those of aborted transactions."""

    def key_of(self, partition: int, offset: int) -> bytes | None:
        """Return the key of a produced record."""
        return next(each.key for each in self.produced if (each.partition, each.offset) == (partition, offset))


Check = Callable[[Outcome], None]
"""Raises AssertionError for a wrong outcome."""


def nothing_lost(outcome: Outcome) -> None:
    """Each record is processed."""
    done = {(each.partition, each.offset) for each in outcome.done}
    missing = [(each.partition, each.offset) for each in outcome.produced if (each.partition, each.offset) not in done]
    assert not missing, f"Lost, by partition and offset: {missing}"


def nothing_twice(outcome: Outcome) -> None:
    """No record is processed twice. Where a consumer dies, effects need transactions: `results_exact`."""
    places = [(each.partition, each.offset) for each in outcome.done]
    twice = sorted({place for place in places if places.count(place) > 1})
    assert not twice, f"Processed twice, by partition and offset: {twice}"


def nothing_after_commit(outcome: Outcome) -> None:
    """No consumer begins a record that its group has committed: it has been fenced, and must not go on."""
    late = [each for each in outcome.starts if each.offset < each.committed]
    assert not late, f"Begun after another consumer had committed them: {late}"


def order_by_key(outcome: Outcome) -> None:
    """Records of one key are first processed in their order."""
    seen: set[tuple[int, int]] = set()
    for work in outcome.done:
        key = outcome.key_of(work.partition, work.offset)
        earlier = {
            (each.partition, each.offset)
            for each in outcome.produced
            if each.partition == work.partition and each.key == key and each.offset < work.offset
        }
        assert earlier <= seen, f"{work} was processed before {sorted(earlier - seen)} of the same key {key!r}"
        seen.add((work.partition, work.offset))


def results_exact(outcome: Outcome) -> None:
    """The topic `results` has the value of each record once."""
    expected = sorted(each.value or b"" for each in outcome.produced)
    results = sorted(each.value or b"" for each in outcome.results)
    assert results == expected, f"results has {results}, expected {expected}"


class Run:
    """One consumer of a journal: its configuration, and its place. The consumer's function gets it."""

    def __init__(self, player: Player, number: int) -> None:
        self.bootstrap = player.server.bootstrap
        self.group = GROUP
        self.topic = TOPIC
        self.client_id = f"consumer-{number}"
        self.error: BaseException | None = None
        self.is_alive = True
        self.is_stopping = False
        self.is_killed = False
        self.is_cut_off = False
        self.at: Work | None = None
        """The record in the middle of which it stands."""
        self.permits = 0
        self._player = player
        self.thread = threading.Thread(target=self._live, name=self.client_id, daemon=True)

    @property
    def running(self) -> bool:
        """True until the consumer shall stop. Raises Killed."""
        if self.is_killed:
            raise Killed
        return not self.is_stopping

    def process(self, record: Any) -> None:
        """Process a record of kafka-python, confluent-kafka or aiokafka: this call is the effect.

        It returns when the journal lets it. Raises Killed if the consumer dies before.
        """
        partition, offset = (int(each() if callable(each) else each) for each in (record.partition, record.offset))
        self._player.work(self, partition, offset)

    def _live(self) -> None:
        try:
            self._player.consume(self)
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.is_alive = False
            with suppress(Killed):
                self._player.changed()


class Player:
    """Plays one journal."""

    def __init__(
        self, consume: Callable[[Run], None], server: CoordinatorServer, crashes: tuple[type[BaseException], ...]
    ) -> None:
        self.consume = consume
        self.server = server
        self.outcome = Outcome()
        self._crashes = crashes
        self._runs: list[Run] = []
        self._condition = threading.Condition()
        self._is_open = False
        self.stalled: list[str] = []
        """At the end, the client ids of consumers that own records and have got none of them."""

    # Called in the threads of consumers

    def work(self, run: Run, partition: int, offset: int) -> None:
        """Begin a record, wait for a permit, and finish it."""
        offset_committed = self.server.call(committed, self.server.kit.cluster, GROUP, TOPIC, partition) or 0
        work = Work(run.client_id, partition, offset, offset_committed)
        with self._condition:
            if run.is_killed:
                raise Killed
            run.at = work
            self.outcome.starts.append(work)
        self.changed()
        with self._condition:
            self._condition.wait_for(lambda: run.permits or run.is_killed or self._is_open)
            if run.is_killed:
                raise Killed
            run.permits = max(run.permits - 1, 0)
            run.at = None
            self.outcome.done.append(work)
        self.changed()

    def changed(self) -> None:
        """Wake the journal."""
        try:
            self.server.call(self.server.kit.conditions.check)
        except RuntimeError:  # the journal is over, and its coordinator is stopped
            raise Killed from None

    # Called in the journal's thread

    def play(self, journal: Sequence[Step]) -> Outcome:
        """Play the steps, then let all consumers finish; return the outcome."""
        self.server.clock.freeze()
        self.produce(4)
        self.start()
        for name, *arguments in journal:
            self.settle()
            getattr(self, name)(*arguments)
            self._raise_errors()
        self._finish()
        self._raise_errors()
        return self.outcome

    def produce(self, records: int) -> None:
        """Produce so many records, with each key in turn."""
        first = len(self.outcome.produced)
        for number in range(first, first + records):
            key = KEYS[number % len(KEYS)]
            partition = number % len(KEYS) % PARTITIONS
            self.server.produce(TOPIC, str(number), key=key, partition=partition)
        self.outcome.produced = self.server.records(TOPIC)

    def start(self) -> None:
        """Start a consumer."""
        if len(self._live) < MOST_CONSUMERS:
            run = Run(self, len(self._runs) + 1)
            self._runs.append(run)
            run.thread.start()

    def process(self, consumer: int, records: int) -> None:
        """Let a consumer process so many records."""
        if not (run := self._at(consumer)):
            return
        goal = sum(each.client_id == run.client_id for each in self.outcome.done) + records
        with self._condition:
            run.permits = records
            self._condition.notify_all()

        def is_done() -> bool:
            finished = sum(each.client_id == run.client_id for each in self.outcome.done) >= goal
            return finished or not run.permits or not run.is_alive or (run.at is None and not self._has_work(run))

        self._until(is_done)
        run.permits = 0

    def stop(self, consumer: int) -> None:
        """Stop a consumer in order; it may finish what it has begun."""
        if run := self._at(consumer):
            self._end(run)

    def kill(self, consumer: int) -> None:
        """Kill a consumer, and end its session."""
        if run := self._at(consumer):
            self._drop(run)
            with self._condition:
                run.is_killed, run.is_alive = True, False
                self._condition.notify_all()
            self._expire(run)

    def zombie(self, consumer: int, records: int) -> None:
        """Cut a consumer off, end its session, let another one process records, and let all arrive that it has sent."""
        self.start()
        if not (run := self._at(consumer)):
            return
        network = self.server.call(cut_off, self.server.kit, run.client_id)
        self.server.call(network.__enter__)
        run.is_cut_off = True
        self._expire(run)
        self.settle()
        if others := [number for number, each in enumerate(self._live) if each is not run]:
            self.process(others[0], records)
        run.is_cut_off = False
        before = self.server.kit.history.seen
        self.server.call(network.__exit__, None, None, None)
        self._until(lambda: not run.is_alive or self._is_answered(run, before))

    def _is_answered(self, run: Run, before: int) -> bool:
        """True if a consumer that was cut off has the answer to a request of its group: it knows what has happened."""
        events = self.server.kit.history.since(before, GROUP)
        return any(each["event"] == "exchange" and each["client_id"] == run.client_id for _, _, each in events)

    def clock(self, seconds: float) -> None:
        """Move the coordinator's clock on."""
        self.server.clock.advance(seconds)

    def fail(self, error: str) -> None:
        """Answer the next commit with an error."""
        self.server.fault("error", "OffsetCommit", error=error, optional=True)

    def lose(self) -> None:
        """Close the connection of the next commit after it was executed."""
        self.server.fault("close", "OffsetCommit", when="applied", optional=True)

    def move(self) -> None:
        """Move the group to the other broker."""
        self.server.move(GROUP, 3 - self.server.coordinator_of(GROUP))

    def settle(self) -> None:
        """Wait until each consumer stands in the middle of a record, or has none to process."""
        self._until(self._stands_still)

    def _stands_still(self) -> bool:
        group = self._group()
        well = [run for run in self._live if not run.is_cut_off]
        if any(run.at is None and not run.is_alive for run in well):
            return True
        if not group.is_stable:
            # It rebalances: only consumers in the middle of a record may keep the others waiting.
            return not well or any(run.at is not None for run in well)
        members = {each.client_id for each in group.members}
        if any(group.owner(TOPIC, index) is None for index in range(PARTITIONS)):
            return False
        # One in the middle of a record may be fenced, and joins again only after it.
        return all(run.at is not None or (run.client_id in members and not self._has_work(run)) for run in well)

    def _has_work(self, run: Run) -> bool:
        """True if the consumer owns a partition with a record that is neither committed nor processed."""
        done = {(each.partition, each.offset) for each in self.outcome.done}
        owned = self._owned(run)
        cluster = self.server.kit.cluster
        return any(
            each.partition in owned
            and (each.partition, each.offset) not in done
            and each.offset >= (committed(cluster, GROUP, TOPIC, each.partition) or 0)
            for each in self.outcome.produced
        )

    def _owned(self, run: Run) -> set[int]:
        return {index for member in self._group().called(run.client_id) for index in member.owned.get(TOPIC, ())}

    def _finish(self) -> None:
        self.server.clear_faults()
        # One after the other, the newest first: at the same time they would race, and a journal had several outcomes.
        for run in reversed(self._live):
            if run in self._live:
                self.process(self._live.index(run), PERMITS)
                self._until(partial(self._is_caught_up, run), PATIENCE_SECONDS / 2)
        with self._condition:
            self._is_open = True
            self._condition.notify_all()
        has_timed_out = False
        for _ in range(FINISHES):
            if not self._live:
                self.start()
            self._until_stalled(lambda: self._is_caught_up() or any(run.error for run in self._runs))
            if self.server.call(self._is_caught_up) or (has_timed_out and self._all_done()):
                break
            if any(run.error for run in self._runs):
                self._raise_errors()
            else:
                self.stalled = self.stalled or self.server.call(self._find_stalled)
                # Open transactions or sessions of dead consumers still hold records back.
                self.clock(TRANSACTION_SECONDS)
                has_timed_out = True
        for run in self._live:
            self._end(run)
        if self.server.records(RESULTS, committed=False):
            # The open transaction of a dead producer hides all records after it.
            self.clock(TRANSACTION_SECONDS)
            self._until(self._has_no_transaction)
        self.outcome.results = self.server.records(RESULTS)

    def _is_caught_up(self, run: Run | None = None) -> bool:
        """True if all records are committed; with `run`, those of its partitions, or if it is dead."""
        if run is not None and not run.is_alive:
            return True
        cluster = self.server.kit.cluster
        ends = dict.fromkeys(range(PARTITIONS) if run is None else self._owned(run), 0)
        for each in self.outcome.produced:
            if each.partition in ends:
                ends[each.partition] = max(ends[each.partition], each.offset + 1)
        return all((committed(cluster, GROUP, TOPIC, index) or 0) >= end for index, end in ends.items())

    def _find_stalled(self) -> list[str]:
        return [run.client_id for run in self._live if run.at is None and self._has_work(run)]

    def _has_no_transaction(self) -> bool:
        topic = self.server.kit.cluster.topics.named(RESULTS)
        logs = [each.log for each in topic.partitions] if topic is not None else []
        return all(log.last_stable_offset == log.end_offset for log in logs)

    def _all_done(self) -> bool:
        done = {(each.partition, each.offset) for each in self.outcome.done}
        return all((each.partition, each.offset) in done for each in self.outcome.produced)

    def _end(self, run: Run) -> None:
        run.is_stopping = True
        with self._condition:
            run.permits = PERMITS
            self._condition.notify_all()
        run.thread.join(PATIENCE_SECONDS)
        run.is_alive = False

    def _drop(self, run: Run) -> None:
        with suppress(ValueError):  # its connections are closed already
            self.server.kill(run.client_id)

    def _expire(self, run: Run) -> None:
        try:
            self.server.expire(GROUP, run.client_id)
        except ValueError:
            # If it waits in a JoinGroup, time ends that. If it is no member any more, time would harm the others.
            if (group := self._group()).called(run.client_id) or not group.is_stable:
                self.server.clock.advance(300)

    def _until(self, condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
        return bool(self.server.wait(self.server.kit.conditions.until, condition, seconds))

    def _until_stalled(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true, or nothing moves any more: a loaded machine is slow, and loses nothing."""
        before: tuple[int, ...] = ()
        while not self._until(condition, PATIENCE_SECONDS / 2) and (now := self.server.call(self._progress)) != before:
            before = now

    def _progress(self) -> tuple[int, ...]:
        cluster = self.server.kit.cluster
        offsets = [committed(cluster, GROUP, TOPIC, index) or 0 for index in range(PARTITIONS)]
        return len(self.outcome.starts), len(self.outcome.done), self._group().generation, *offsets

    def _group(self) -> GroupSnapshot:
        return self.server.kit.group(GROUP).now

    @property
    def _live(self) -> list[Run]:
        return [run for run in self._runs if run.is_alive]

    def _at(self, consumer: int) -> Run | None:
        live = self._live
        return live[consumer % len(live)] if live else None

    def _raise_errors(self) -> None:
        for run in self._runs:
            error, run.error = run.error, None
            if error is None or run.is_killed:
                continue
            if not isinstance(error, self._crashes):
                raise error
            # As its supervisor would: the process is dead, and another one starts.
            run.is_killed = True
            self._drop(run)
            self._expire(run)
            self.start()


def play(
    consume: Callable[[Run], None],
    journal: Sequence[Step],
    *checks: Check,
    config: Mapping[str, Any] | None = None,
    crashes: tuple[type[BaseException], ...] = (),
) -> Outcome:
    """Play one journal, such as one that `fuzz` reports, and check its outcome."""
    topics = {TOPIC: PARTITIONS, RESULTS: 1}
    with CoordinatorServer(topics=topics, brokers=2, config=config) as server:
        player = Player(consume, server, crashes)
        try:
            outcome = player.play(journal)
            for check in checks:
                check(outcome)
        except Exception as error:
            calls = ", ".join([getattr(consume, "__name__", "consume"), repr(list(journal))])
            error.add_note(f"This plays it again: play({calls}, ...)")
            if player.stalled:
                names = ", ".join(player.stalled)
                error.add_note(
                    f"At the end {names} owned records and got none: it polls no more, or its client has stopped."
                )
            error.add_note("\n  ".join(["The story of the group:", *server.story(GROUP)[-STORY_LINES:]]))
            raise
    return outcome


def journals(steps: Collection[str] = tuple(STEPS), most: int = 8) -> SearchStrategy[list[Step]]:
    """Return a Hypothesis strategy of journals with these steps, at most so many."""
    from hypothesis import strategies as st

    if unknown := sorted(set(steps) - set(STEPS)):
        raise ValueError(f"There is no step {unknown[0]!r}; {similar(unknown[0], STEPS)}")
    consumer = st.integers(0, MOST_CONSUMERS - 1)
    arguments: dict[str, list[SearchStrategy[Any]]] = {
        "produce": [st.integers(1, 4)],
        "process": [consumer, st.integers(1, 3)],
        "stop": [consumer],
        "kill": [consumer],
        "zombie": [consumer, st.integers(1, 4)],
        "clock": [st.sampled_from([1, 20, 400])],
        "fail": [st.sampled_from(ERRORS)],
    }
    return st.lists(
        st.one_of(*(st.tuples(st.just(name), *arguments.get(name, [])) for name in steps)), min_size=1, max_size=most
    )


def fuzz(
    consume: Callable[[Run], None],
    *checks: Check,
    steps: Collection[str] = tuple(STEPS),
    settings: Settings | None = None,
    config: Mapping[str, Any] | None = None,
    crashes: tuple[type[BaseException], ...] = (),
    seed: int | None = None,
) -> None:
    """Play journals against a consumer, and raise for the first one with a wrong outcome, after it was shrunk.

    `consume` runs in a thread of its own for each consumer. `checks` are functions of an `Outcome`. `settings` are
    those of Hypothesis; without them there are 50 journals. With a `seed` the journals are the same in each run.
    `crashes` are errors that end a consumer in production, where another one starts; others fail. The report has the
    journal, which `play` plays again.
    """
    import hypothesis

    chosen = settings or hypothesis.settings(max_examples=EXAMPLES)

    @hypothesis.settings(
        chosen, deadline=None, report_multiple_bugs=False, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(journals(steps))
    def journal_is_right(journal: list[Step]) -> None:
        play(consume, journal, *checks, config=config, crashes=crashes)

    try:
        (hypothesis.seed(seed)(journal_is_right) if seed is not None else journal_is_right)()
    except hypothesis.errors.FlakyFailure as flaky:
        error = flaky.exceptions[0]
        error.add_note("Played again, this journal had another outcome: threads of the client race.")
        raise error from None

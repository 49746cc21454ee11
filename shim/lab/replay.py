"""`Replay`: runs a recorded run again from its input journal (`shim/server/journal.py`): same answers, records and
trace.

Each input of the journal is applied to a cluster without sockets and without waiting, and every answer is compared with
the recorded one.
"""

from __future__ import annotations

import logging
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from math import inf
from pathlib import Path
from typing import Any, Final

import orjson

from kafka_shim.broker.topics import Node as Address
from kafka_shim.groups.service import GroupService
from kafka_shim.lab.barriers import Barrier, Barriers
from kafka_shim.lab.clock import TestClock
from kafka_shim.lab.faults import Faults, Plan
from kafka_shim.lab.interception import Interception, Match
from kafka_shim.lab.snapshots import snapshot
from kafka_shim.persistence.keys import decode_key
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.records import decode_value
from kafka_shim.persistence.store import StoreError
from kafka_shim.server.cluster import OPERATIONS, Cluster, ClusterConfig
from kafka_shim.server.compose import make_cluster
from kafka_shim.server.journal import BROKEN, FORMAT, SENT, UNSENT, Ids
from kafka_shim.server.loading import Loader
from kafka_shim.server.session import Session
from kafka_shim.server.trace_file import TraceFile

log: Final = logging.getLogger("kafka_shim.lab")

Line = dict[str, Any]
_MOST_PARTITIONS: Final = 10_000_000
_MOST_NODES: Final = 1000


class UnreadableJournal(Exception):
    """The file is not a journal of this format; the message is one sentence."""


class Diverged(Exception):
    """The replay differs from the recorded run; the message is one sentence."""


class TooEarly(Exception):
    """A run cannot continue from here, because its server had not started; the message is one sentence."""


class Replay:
    """A replay of the lines of a journal. With `trace` it writes its trace there.

    `now` is the coordinator's time in seconds, `seq` the number of the last input, `answers` the number of compared
    answers. Raises UnreadableJournal.
    """

    def __init__(self, lines: Iterable[bytes], trace: Path | None = None) -> None:
        self._lines = _parsed(lines)
        header = next(self._lines, {})
        if not isinstance(header, dict) or header.get("journal") != FORMAT:
            raise UnreadableJournal(f"The first line is not that of a journal of format {FORMAT}.")
        _check_size(header)
        self.now = 0.0
        self.seq = 0
        self.answers = 0
        self.end_reason = ""
        """The reason for the end of the journal before that of the run, a clause; empty if it has the whole run."""
        self.store = _Recorded(header["durable_at_once"])
        self._ahead = 0.0
        self._clock: TestClock | None = None
        config = ClusterConfig(
            settings=header["settings"],
            topics=header["topics"],
            release=header["release"],
            clock=self.clock,
            clock_ahead=self._clock_ahead,
            wall_offset=header["wall_offset"],
            new_uuid=Ids(int(header["seed"], 16)),
            run_id=header["run"],
            load_seconds=header["load_seconds"],
            experimental=header.get("experimental", ()),
            lasting=header["lasting"],
        )
        addresses = [Address(each["node"], each["host"], each["port"]) for each in header["nodes"]]
        self.cluster: Cluster = make_cluster(addresses, config, self.store, make_loader=_Loader)
        self.on_bytes: Callable[[str, int, bytes], None] = lambda way, connection, data: None
        """Called with bytes from a client (`in`) and to it (`out`), by number of the connection."""
        # The journal has the moment of each delayed act.
        self._interception = Interception(self.cluster, lambda seconds, act: None)
        self._faults = Faults(self._interception)
        self._barriers = Barriers(self._interception)
        self._held_by: dict[int, Barrier] = {}
        """Barriers by number, with those that hold no more."""
        self._sessions: dict[int, Session] = {}
        self._expected: Iterator[list[int]] = iter(())
        self._path = trace
        self._trace: TraceFile | None = None
        self._difference = ""
        self._batches: dict[int, list[tuple[int, Any, Any]]] = {}
        self._next: Line | None = None
        self._does: Final[dict[str, Callable[[Line], None]]] = {
            "act": lambda line: self._interception.act(line["number"], self.now),
            "again": lambda line: self.loader.begin(self._groups(line["partition"]), [line["partition"]]),
            "answers": lambda line: self.cluster.durability.settle(self.now),
            "barrier": self._hold,
            "barrier-removed": lambda line: self._barriers.remove(self._held_by[line["number"]]),
            "batch": self._batch,
            "bytes": self._bytes,
            "computed": self._computed,
            "distrusted": lambda line: self.cluster.durability.distrust(line["partitions"], self.now, line["groups"]),
            "drained": lambda line: self._sessions[line["connection"]].drained(self.now),
            "fault": self._disturb,
            "fault-removed": self._let_be,
            "fire": lambda line: self.cluster.ticks.fire(self.now),
            "half-closed": self._half_close,
            "loaded": self._loaded,
            "lost": self._lose,
            "open": self._open,
            "operation": self._operation,
            "released": self._release,
            "settle": lambda line: self.cluster.settle(self.now),
            "start": self._start,
            "topics": lambda line: self.cluster.begin_topics(_records(line["records"])),
            "trace": self._traced,
            "unloadable": self._unloadable,
            "unwritten": self._unwritten,
            "written": self._written,
        }

    @property
    def wall(self) -> float:
        """Time of the last input, seconds of Unix time."""
        return self.now + self.cluster.wall_offset

    def clock(self) -> float:
        """Return the coordinator's time."""
        return self.now if self._clock is None else self._clock()

    def _clock_ahead(self) -> float:
        return self._ahead if self._clock is None else self._clock.ahead()

    def step(self, until_seq: float = inf, until_wall: float = inf) -> bool:
        """Apply the next input; return False if there is none up to these limits. Raises Diverged."""
        line = self._next or next(self._lines, None)
        if line is None or line["seq"] > until_seq or line["at"] + self.cluster.wall_offset > until_wall:
            self._next = line
            return False
        self._next = None
        if line["in"] == "end":
            self.end_reason = str(line["reason"])
            return False
        self.now, self.seq, self._ahead = line["at"], line["seq"], line.get("ahead", 0.0)
        self._expected = iter(line.get("out", ()))
        self._difference = ""
        does = self._does.get(line["in"])
        if does is None:
            raise UnreadableJournal(
                f"Line {self.seq} of the journal is damaged, or of a newer kafka-shim: unknown kind {line['in']!r}."
            )
        does(line)
        # A run without a listener noted no settling for events alone. A recorded trace has the times of its settlings.
        if self._trace is None and self.cluster.outbox.events:
            self.cluster.events.publish(self.now)
        missing = next(self._expected, None)
        if missing is not None and not self._difference:
            self._difference = f"connection {missing[0]} had an answer that the replay does not have"
        if self._difference:
            raise Diverged(f"After input {self.seq}, {self._difference}.")
        return True

    def run(self, until_seq: float = inf, until_wall: float = inf) -> None:
        """Apply every input up to these limits. Raises Diverged."""
        while self.step(until_seq, until_wall):
            pass

    def groups(self) -> list[dict[str, Any]]:
        """Return the present groups with their members and timers; a timer's `in` is seconds from now."""
        services = [node.groups for node in self.cluster.nodes.values()]
        return [self._group(groups, name) for groups in services for name in sorted(groups.groups)]

    def _group(self, groups: GroupService, name: str) -> dict[str, Any]:
        group = snapshot(self.cluster, name)
        timers = [
            {"purpose": timer.kind.value, "member_id": timer.member_id or None, "in": timer.deadline - self.now}
            for timer in groups.timers.armed()
            if timer.group_id == name
        ]
        return {
            "group": name,
            "state": group.state,
            "generation": group.generation,
            "members": [{"member_id": member.member_id, "owned": member.owned} for member in group.members],
            "timers": sorted(timers, key=lambda timer: (timer["in"], str(timer["member_id"]))),
        }

    def go_on(self) -> TestClock:
        """Continue from here without the journal, by the returned clock, which is frozen.

        All connections, faults and barriers end, and pending batches are stored. Raises TooEarly.
        """
        if not self.cluster.started or not self.loader.all_known(self.store):
            raise TooEarly("The server had not loaded its groups at that moment: choose a later one.")
        self._clock = TestClock.frozen_at(self.now)
        for session in self._sessions.values():
            session.lost()
        self._sessions.clear()
        self._faults.clear()
        self._barriers.clear()
        self.store.durable_at_once = True
        for number in sorted(self._batches):
            self.store.write(self._batches.pop(number))
            self.cluster.durability.succeeded(number, self.now)
        self.loader.go_on()
        self.cluster.settle(self.now)
        return self._clock

    @property
    def loader(self) -> _Loader:
        """The loader of the cluster."""
        assert isinstance(self.cluster.loader, _Loader)
        return self.cluster.loader

    def close(self) -> None:
        """Write the rest of the trace. A trace that the recorded run did not end is not ended here either."""
        if self._trace is not None:
            self._trace.flush()
            self._trace = None

    # Connections

    def answer(self, number: int, data: bytes) -> int:
        """Compare an answer for connection `number`, and return the recorded outcome of its sending."""
        recorded = next(self._expected, None)
        self.answers += 1
        self.on_bytes("out", number, data)
        if recorded is None:
            self._difference = self._difference or f"connection {number} has an answer that was not recorded"
            return SENT
        if recorded[:3] != [number, len(data), zlib.crc32(data)]:
            self._difference = self._difference or f"connection {number} has an answer unlike the recorded one"
        return recorded[3]

    def _open(self, line: Line) -> None:
        number = line["connection"]
        transport = _Transport(self, number, line["peer"])
        node = self.cluster.nodes[line["node"]]
        transport.session = self._sessions[number] = self.cluster.open(node, transport, line["host"])
        if transport.session.number != number:
            raise Diverged(f"At input {self.seq}, connection {number} is the replay's {transport.session.number}.")

    def _bytes(self, line: Line) -> None:
        session, data = self._sessions[line["connection"]], b64decode(line["data"])
        self.on_bytes("in", line["connection"], data)
        try:
            session.receive(data, self.now)
        except Exception:
            # As recorded, or the answers differ. The next input ends the connection.
            log.exception("input %d failed", self.seq)

    def _half_close(self, line: Line) -> None:
        self._sessions[line["connection"]].end()

    def _lose(self, line: Line) -> None:
        self._sessions.pop(line["connection"]).lost()

    def _start(self, line: Line) -> None:
        self.cluster.outbox.offloads = line.get("offloads", False)
        self.cluster.start()

    def _computed(self, line: Line) -> None:
        computations, number = self.cluster.computations, line["number"]
        computations.finish(number, computations.result(number), self.now)

    # The laboratory

    def _disturb(self, line: Line) -> None:
        self._faults.add(Match(**line["match"]), Plan(**line["plan"]))

    def _let_be(self, line: Line) -> None:
        fault = self._faults.get(line["number"])
        if fault is None:
            raise UnreadableJournal(f"Input {self.seq} removes a fault that is not there, {line['number']}.")
        self._faults.remove(fault)

    def _hold(self, line: Line) -> None:
        barrier = self._barriers.add(Match(**line["match"]), line["point"])
        self._held_by[barrier.number] = barrier

    def _release(self, line: Line) -> None:
        self._held_by[line["number"]].release(line["requests"])

    # The store

    def _groups(self, partition: int) -> GroupService:
        node = self.cluster.ownership.owner(partition)
        if node is None:
            raise Diverged(
                f"At line {self.seq} of the journal, no node owns partition {partition} of __consumer_offsets."
            )
        return node.groups

    def _loaded(self, line: Line) -> None:
        groups = self._groups(line["partition"])
        # The store must know a record and its replacement as one.
        records = list(groups.read(_records(line["records"])))
        self.store.fill(line["partition"], records)
        self.loader.forget(line["partition"])
        try:
            groups.load(line["partition"], records, self.now)
        except Exception:
            # As recorded, or the answers differ.
            log.exception("input %d failed", self.seq)

    def _unloadable(self, line: Line) -> None:
        self.loader.forget(line["partition"])
        self._groups(line["partition"]).fail(line["partition"])

    def _batch(self, line: Line) -> None:
        number, records = self.cluster.durability.next_batch()
        self._batches[number] = records

    def _written(self, line: Line) -> None:
        self.store.write(self._batches.pop(line["batch"]))
        self.cluster.durability.succeeded(line["batch"], self.now)

    def _unwritten(self, line: Line) -> None:
        number = line["batch"]
        error = StoreError(line["reason"], line["error"])
        self.cluster.durability.failed(number, self._batches.pop(number), error, self.now)

    # Operations and trace

    def _operation(self, line: Line) -> None:
        name = line["name"]
        if name not in OPERATIONS:
            raise UnreadableJournal(f"Input {self.seq} is an unknown operation, {name!r}.")
        try:
            getattr(self.cluster, name)(*line["arguments"])
        except ValueError:
            # As recorded: the operator got the refusal.
            return

    def _traced(self, line: Line) -> None:
        if self._path is None:
            return
        if line["does"] == "begin":
            self._trace = TraceFile(self._path, self.cluster, line["max_bytes"]).__enter__()
        elif self._trace is not None:
            if line["does"] == "flush":
                self._trace.flush()
            elif line["does"] == "ends":
                self._trace.tell_ends()
            elif line["does"] == "end":
                self._trace.__exit__()
                self._trace = None


class _Transport:
    """A connection of a replay: sending has the outcome that was recorded."""

    def __init__(self, replay: Replay, number: int, peer: str) -> None:
        self.peer = peer
        self.paused = False
        self.session: Session | None = None
        self._replay = replay
        self._number = number

    def send(self, data: bytes) -> bool:
        outcome = self._replay.answer(self._number, data)
        if outcome == BROKEN:
            self.close()
        return outcome != UNSENT

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def close(self) -> None:
        assert self.session is not None
        self.session.lost()


class _Recorded(MemoryStore):
    """The store of a replay: batches become durable when the journal says so."""

    def __init__(self, durable_at_once: bool) -> None:
        super().__init__()
        self.durable_at_once = durable_at_once
        self.filled: set[int] = set()
        """The partitions whose records were loaded once: all later writes to them are here too."""

    def fill(self, partition: int, records: list[tuple[Any, Any]]) -> None:
        """Set the records of a partition."""
        self._recent.pop(partition, None)
        self._partitions[partition] = dict(records)
        self.filled.add(partition)


class _Loader(Loader):
    """Loads nothing by itself as long as the journal's inputs load partitions."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._awaited: dict[int, GroupService] | None = {}

    def begin(self, groups: GroupService, partitions: Iterable[int]) -> None:
        if self._awaited is None:
            super().begin(groups, partitions)
            return
        for partition in sorted(partitions):
            groups.begin_loading(partition)
            self._awaited[partition] = groups

    def forget(self, partition: int) -> None:
        if self._awaited is None:
            super().forget(partition)
        else:
            self._awaited.pop(partition, None)

    def all_known(self, store: _Recorded) -> bool:
        """True if the store has the partitions that are still to be loaded."""
        return self._awaited is None or self._awaited.keys() <= store.filled

    def go_on(self) -> None:
        """Load from the store from now on, first the partitions that are still to be loaded."""
        awaited, self._awaited = self._awaited or {}, None
        for partition, groups in awaited.items():
            super().begin(groups, [partition])


def _check_size(header: Line) -> None:
    """Raises UnreadableJournal for a run that no server began: a damaged number would take all memory."""
    counts = list(dict(header["topics"]).values())
    if not all(isinstance(count, int) and 0 < count <= _MOST_PARTITIONS for count in counts):
        raise UnreadableJournal("The first line has a topic with a number of partitions that cannot be.")
    if sum(counts) > _MOST_PARTITIONS or len(header["nodes"]) > _MOST_NODES:
        raise UnreadableJournal("The first line has more partitions or brokers than a server begins with.")


def _records(pairs: list[list[str]]) -> list[tuple[Any, Any]]:
    """Decode records from the text form of `encoded`."""
    keys = [decode_key(b64decode(raw_key)) for raw_key, _ in pairs]
    return [(key, decode_value(key, b64decode(raw))) for key, (_, raw) in zip(keys, pairs, strict=True)]


def _parsed(lines: Iterable[bytes]) -> Iterator[Line]:
    """Yield the lines of a journal; an unfinished last line of a killed process ends it."""
    for line in lines:
        try:
            yield orjson.loads(line)
        except orjson.JSONDecodeError:
            if line.endswith(b"\n"):
                raise UnreadableJournal("A line of the journal is not JSON.") from None
            return

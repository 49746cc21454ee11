"""What crosses processes: `python -m bench.crossing [--transactions 1000] [--fetches 300] [--moves 5]`.

Three processes on one PostgreSQL. Transactions commit an offset of a group with another coordinator than the id. Share
fetches follow AlterShareGroupOffsets at another process than the leader of the partition. Clients commit while
processes stop in good order, then while they are killed, and start again. The time is from the answer, for commits from
the first attempt, until a client sees the offset or the record. The bench counts those that are not there after a
second, and those that never are. It stops by itself, with exit code 1 if there is one of the latter.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count

import psycopg
from rich.console import Console
from rich.table import Table

from kafka_shim.apis.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafka_shim.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    RequestPartition,
    RequestTopic,
)
from kafka_shim.apis.end_txn import EndTxnRequest, EndTxnResponse
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafka_shim.apis.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest, ShareFetchResponse
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kafka_shim.persistence.batch import Record, write_batch
from kafka_shim.persistence.partition import partition_for
from tests.postgres import postgres_server
from tests.server.shared import Process, processes
from tests.server.wire import Client

NODES = (1, 2, 3)
LEASE_S = 2.0
LATE_S = 1.0
NEVER_S = 30.0
COMMITTERS = 6


def owners(url: str) -> dict[int, int]:
    """By partition of `__consumer_offsets`, the node that coordinates its groups."""
    with psycopg.connect(url, autocommit=True) as connection:
        query = "SELECT partition, node_id FROM kafka_shim_leases WHERE expires > now()"
        return dict(connection.execute(query).fetchall())


def seconds_until(holds: Callable[[], bool], began: float | None = None) -> float | None:
    """For how many seconds it did not hold, or None if it never does."""
    began = time.perf_counter() if began is None else began
    while not holds():
        if time.perf_counter() - began > NEVER_S:
            return None
    return time.perf_counter() - began


class Clients:
    """A connection to each process, and what its partitions are."""

    def __init__(self, url: str, started: list[Process], stack: ExitStack) -> None:
        self.by_node = {each.node_id: stack.enter_context(Client(each.bootstrap)) for each in started}
        self.owners = owners(url)
        while sorted(Counter(self.owners.values()).values()) != [16, 17, 17]:
            time.sleep(0.05)
            self.owners = owners(url)
        request = MetadataRequest([MetadataRequestTopic(name="t")])
        (topic,) = self.by_node[1].ask(request, 12, MetadataResponse).topics
        self.topic_id = topic.topic_id
        self.leaders = {each.partition_index: each.leader_id for each in topic.partitions}
        for name in ("group", "id"):
            for node in NODES:
                self.wait(f"{name}-{node}")

    def owner(self, name: str) -> int:
        return self.owners[partition_for(name, 50)]

    def wait(self, name: str) -> None:
        """Wait until the process that should coordinate a group has loaded it."""
        request = OffsetFetchRequest(name, [OffsetFetchRequestTopic("t", [0])])
        while self.by_node[self.owner(name)].ask(request, 5, OffsetFetchResponse).error_code:
            time.sleep(0.01)

    def elsewhere(self, names: str, node: int) -> str:
        """A name that another process coordinates than this one."""
        return next(name for number in count() if self.owner(name := f"{names}-{number}") != node)


def offset_in(client: Client, group: str, stable: bool = True) -> int:
    """The offset of a group, -1 while there is none or it is unstable."""
    request = OffsetFetchRequest(group, [OffsetFetchRequestTopic("t", [0])], require_stable=stable)
    answer = client.ask(request, 7, OffsetFetchResponse)
    return -1 if answer.error_code or not answer.topics else int(answer.topics[0].partitions[0].committed_offset)


def transactions(clients: Clients, number: int) -> list[float | None]:
    """From the answer of EndTxn until the offset shows."""
    waited = []
    for each in range(number):
        name = f"id-{each}"
        mine = clients.by_node[clients.owner(name)]
        group = clients.elsewhere(f"group-{each}", clients.owner(name))
        home = clients.by_node[clients.owner(group)]
        given = mine.ask(InitProducerIdRequest(name, 60_000), 2, InitProducerIdResponse)
        producer = given.producer_id, given.producer_epoch
        added = mine.ask(AddOffsetsToTxnRequest(name, *producer, group), 1, AddOffsetsToTxnResponse)
        topics = [TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 7, -1, "")])]
        commit = TxnOffsetCommitRequest(name, group, *producer, topics=topics)
        committed = home.ask(commit, 2, TxnOffsetCommitResponse).topics[0].partitions[0]
        ended = mine.ask(EndTxnRequest(name, *producer, True), 1, EndTxnResponse)
        assert given.error_code == added.error_code == committed.error_code == ended.error_code == 0
        waited.append(seconds_until(lambda home=home, group=group: offset_in(home, group) == 7))
    return waited


def share_fetches(clients: Clients, number: int) -> list[float | None]:
    """From the answer of AlterShareGroupOffsets, by a new group each time, until its records are acquired."""
    for partition, leader in clients.leaders.items():
        data = write_batch([Record(0, 0, None, b"x")])
        topics = [TopicProduceData("t", b"", [PartitionProduceData(partition, data)])]
        clients.by_node[leader].ask(ProduceRequest(None, -1, 1000, topics), 9, ProduceResponse)
    waited = []
    for each in range(number):
        partition = each % len(clients.leaders)
        leader = clients.leaders[partition]
        group = clients.elsewhere(f"shared-{each}", leader)
        altered = AlterShareGroupOffsetsRequest(group, [RequestTopic("t", [RequestPartition(partition, 0)])])
        answer = clients.by_node[clients.owner(group)].ask(altered, 0, AlterShareGroupOffsetsResponse)
        assert answer.responses[0].partitions[0].error_code == 0
        topics = [FetchTopic(clients.topic_id, [FetchPartition(partition)])]

        def acquired(group: str = group, leader: int = leader, topics: list[FetchTopic] = topics) -> bool:
            fetch = ShareFetchRequest(group, "member", 0, 0, 1, max_records=9, batch_size=9, topics=topics)
            answer = clients.by_node[leader].ask(fetch, 1, ShareFetchResponse)
            return bool(answer.responses[0].partitions[0].acquired_records)

        waited.append(seconds_until(acquired))
    return waited


class Committer(threading.Thread):
    """A client that commits ever higher offsets of one group, at the coordinator wherever that is, and reads each."""

    def __init__(self, group: str, started: list[Process]) -> None:
        super().__init__()
        self.waited: list[float | None] = []
        self.ends = threading.Event()
        self._group = group
        self._processes = started
        self._coordinator: Client | None = None

    def run(self) -> None:
        for offset in count():
            if self.ends.is_set():
                break
            self.waited.append(seconds_until(lambda offset=offset: self._is_there(offset)))
        if self._coordinator is not None:
            self._coordinator.close()

    def _is_there(self, offset: int) -> bool:
        """Commit an offset and read it; False where that must be tried again."""
        try:
            if self._coordinator is None:
                self._coordinator = self._find()
            partitions = [OffsetCommitRequestPartition(0, offset)]
            request = OffsetCommitRequest(self._group, topics=[OffsetCommitRequestTopic("t", partitions=partitions)])
            answer = self._coordinator.ask(request, 7, OffsetCommitResponse)
            if answer.topics[0].partitions[0].error_code == 0:
                return offset_in(self._coordinator, self._group) == offset
        except (OSError, EOFError, LookupError):
            pass
        if self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None
        time.sleep(0.01)
        return False

    def _find(self) -> Client:
        for process in self._processes:
            if process.bootstrap:
                try:
                    with Client(process.bootstrap) as client:
                        found = client.ask(FindCoordinatorRequest(self._group, 0), 2, FindCoordinatorResponse)
                except (OSError, EOFError):
                    continue
                if not found.error_code:
                    return Client(f"{found.host}:{found.port}")
        raise LookupError(self._group)


def moving_commits(started: list[Process], moves: int, end: Callable[[Process], None]) -> list[float | None]:
    """From the first attempt until the offset is committed and read, while processes end and start again in turn."""
    committers = [Committer(f"{number}-committed", started) for number in range(COMMITTERS)]
    for each in committers:
        each.start()
    try:
        for move in range(moves):
            process = started[move % len(started)]
            end(process)
            time.sleep(LEASE_S)
            process.start()
            process.ready()
            time.sleep(LEASE_S)
    finally:
        for each in committers:
            each.ends.set()
        for each in committers:
            each.join()
    return [seconds for each in committers for seconds in each.waited]


def row(name: str, waited: Sequence[float | None]) -> list[str]:
    there = sorted(seconds for seconds in waited if seconds is not None)
    cuts = statistics.quantiles(there, n=1000, method="inclusive")
    figures = [cuts[499], cuts[989], cuts[998], there[-1]]
    late = sum(seconds > LATE_S for seconds in there)
    never = len(waited) - len(there)
    return [name, str(len(waited)), *(f"{1000 * each:.1f} ms" for each in figures), str(late), str(never)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=1000)
    parser.add_argument("--fetches", type=int, default=300)
    parser.add_argument("--moves", type=int, default=5)
    options = parser.parse_args()
    with postgres_server() as url:
        arguments = ("--lease", str(LEASE_S), "--topic", "t:6", "--log-level", "error")
        with processes(url, *arguments, nodes=NODES) as started, ExitStack() as stack:
            clients = Clients(url, started, stack)
            measured = {
                "transactions": transactions(clients, options.transactions),
                "share fetches": share_fetches(clients, options.fetches),
                "commits, processes stop": moving_commits(started, options.moves, Process.stop),
                f"commits, processes are killed, lease {LEASE_S:.0f} s": moving_commits(
                    started, options.moves, Process.kill
                ),
            }
    table = Table(*("what", "number", "p50", "p99", "p99.9", "longest", "after 1 s", "never"))
    for name, waited in measured.items():
        table.add_row(*row(name, waited))
    Console(width=120).print(table)
    return int(any(seconds is None for waited in measured.values() for seconds in waited))


if __name__ == "__main__":
    sys.exit(main())

"""Events for commands from `__consumer_offsets`, and `kafka-shim trace from-offsets`, which writes them as a trace."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import wraps
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import click

from kafka_shim.apis.readable import LONGEST_LINE, readable
from kafka_shim.commands.damaged import reads_files
from kafka_shim.commands.logs import Logs, write_trace
from kafka_shim.commands.parameters import Address, ParamType
from kafka_shim.persistence.batch import Batch
from kafka_shim.persistence.interchange import TOPIC
from kafka_shim.persistence.segments import Problem
from kafka_shim.sources.offsets_topic.cluster import Cluster
from kafka_shim.sources.offsets_topic.commits import silent_owners
from kafka_shim.sources.offsets_topic.connection import Unreadable
from kafka_shim.sources.offsets_topic.content import Content
from kafka_shim.sources.offsets_topic.files import segments_of, topic_names
from kafka_shim.sources.offsets_topic.settings import UnusableSettings, security_of
from kafka_shim.sources.offsets_topic.story import TopicStory
from kafka_shim.sources.offsets_topic.together import together, zone_offset
from kafka_shim.sources.story import numbered
from kafka_shim.trace.history import History
from kafka_shim.trace.reading import Event
from kafka_shim.why.names import names_of
from kafka_shim.why.remedies import span

P = ParamSpec("P")
T = TypeVar("T")

UNREACHABLE: Final = 5
"""Exit code if the topic cannot be read: no broker, no right, no leader."""
_WINDOW_S: Final = 60.0
"""The beginning of a rebalance may come so late after events of other groups."""


class TopicUnread(click.ClickException):
    """The topic cannot be read; the message is one sentence."""

    exit_code = UNREACHABLE


class Addresses(ParamType[tuple[tuple[str, int], ...]]):
    """`HOST:PORT`, or several with commas between, as `bootstrap.servers`."""

    name = "HOST:PORT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, int], ...]:
        if isinstance(value, tuple):
            return value
        return tuple(Address().convert(each.strip(), param, ctx) for each in str(value).split(","))


_OPTIONS: Final = (
    click.option(
        "--kafka",
        type=Addresses(),
        help="Read __consumer_offsets of this cluster, from a broker at HOST:PORT; joins no group, writes nothing.",
    ),
    click.option(
        "--command-config",
        type=click.Path(dir_okay=False, path_type=Path),
        help="With --kafka: file with settings of a Kafka client, for TLS and SASL.",
    ),
)


def kafka_options(command: Callable[P, T]) -> Callable[P, T]:
    """Add the options of a command that reads the topic from a cluster."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


offsets_option: Final = click.option(
    "--offsets",
    "segments",
    multiple=True,
    metavar="PATH",
    help="Read segment files of __consumer_offsets: a folder __consumer_offsets-N, a folder that holds such, or *.log;"
    " repeatable.",
)


def _in_one_sentence(method: Callable[P, T]) -> Callable[P, T]:
    @wraps(method)
    def run(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return method(*arguments, **options)
        except UnusableSettings as error:
            raise click.ClickException(str(error)) from None
        except Unreadable as error:
            raise TopicUnread(str(error)) from None

    return run


class Topic:
    """`__consumer_offsets` as a source of events, of one group or of all: of a cluster, or of segment files.

    After `events`, `groups` are the groups with records. Raises click.ClickException.
    """

    @_in_one_sentence
    def __init__(
        self,
        addresses: Sequence[tuple[str, int]] | None,
        command_config: Path | None,
        segments: Sequence[str],
        group: str | None = None,
    ) -> None:
        if addresses and segments:
            raise click.UsageError("Read a cluster with --kafka, or its files with --offsets, not both.")
        if command_config is not None and not addresses:
            raise click.UsageError("--command-config is for --kafka.")
        self._group = group
        self._cluster: Cluster | None = None
        self._segments = segments_of(segments) if segments else []
        self._parts: dict[int, tuple[Content, TopicStory]] = {}
        self._problems: list[Problem] = []
        self._notes: list[str] = []
        self._end = 0
        if addresses:
            self._cluster = Cluster(addresses, security_of(command_config))
            host, port = addresses[0]
            self.place = f"{host}:{port}"
            names = self._cluster.topic_names()
        else:
            self.place = ", ".join(segments)
            names = topic_names(self._segments)
        self._names = names

    @property
    def groups(self) -> list[str]:
        """The groups with records."""
        return sorted({group for _, story in self._parts.values() for group in story.groups})

    def has_offsets_alone(self, group: str) -> bool:
        """True if a group has committed offsets, but no record of members."""
        return group in self.groups and not any(group in story.first for _, story in self._parts.values())

    @property
    def silence(self) -> str:
        """The sentence about a topic without a record of the group, or of any."""
        if self._group is None:
            return f"There is no group in {self.name}."
        return (
            f"There is no group {self._group} in {self.name}: no record names it. Without a group, `kafka-shim why`"
            " lists all that are there."
        )

    @property
    def name(self) -> str:
        """The partition, or the topic, and its place."""
        partitions = list(self._parts)
        what = f"{TOPIC}-{partitions[0]}" if len(partitions) == 1 and partitions[0] >= 0 else TOPIC
        return f"{what} of {self.place}"

    def events(self) -> Iterator[Event]:
        """Yield the events up to the end of the topic as it is now, in order of time. Raises click.ClickException."""
        try:
            streams = self._streams()
            merged = streams[0] if len(streams) == 1 else heapq.merge(*streams, key=lambda each: each["wall"])
            yield from numbered(_in_order(merged))
        except Unreadable as error:
            raise TopicUnread(str(error)) from None

    def _streams(self) -> list[Iterator[Event]]:
        if self._cluster is not None:
            cluster = self._cluster
            chosen = cluster.partitions if self._group is None else [cluster.partition_of(self._group)]
            return [self._stream(each, self._of_cluster(cluster, each, len(chosen))) for each in chosen]
        report = self._problems.append
        # Segments of one partition come one after the other; records of two replicas are read once.
        return [
            self._stream(partition, chain.from_iterable(each.batches(report) for each in list(of_partition)))
            for partition, of_partition in groupby(self._segments, key=lambda each: each.partition)
        ]

    def _stream(self, partition: int, batches: Iterable[Batch]) -> Iterator[Event]:
        content, story = self._parts[partition] = Content(partition, self._group), TopicStory(self._names, self._group)
        return story.events(content.entries(batches))

    def _of_cluster(self, cluster: Cluster, partition: int, beside: int) -> Iterator[Batch]:
        first, self._end = cluster.bounds(partition)
        yield from cluster.batches(partition, first, self._end, beside=beside)

    def following(self) -> Iterator[Event]:
        """Yield the events of records as they come, after `events`; without end. Raises click.ClickException."""
        assert self._cluster is not None
        ((partition, (content, story)),) = self._parts.items()
        try:
            yield from story.events(content.entries(self._cluster.batches(partition, self._end, None)))
        except Unreadable as error:
            raise TopicUnread(str(error)) from None

    def close(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            self._cluster.close()

    def finish(self, history: History) -> None:
        """Complete the histories of all groups: from when on each is complete."""
        for content, story in self._parts.values():
            since = None if content.complete_since is None else content.complete_since / 1000
            for group, first in story.first.items():
                if since is not None and first < since and group in history.groups:
                    of_group = history.groups[group]
                    of_group.limits = (*of_group.limits, _before(since))
            if self._group in story.groups and self._group in history.groups:
                of_group = history.groups[self._group]
                names = names_of(of_group)
                for member_id, (count, seconds) in silent_owners(of_group, story.committed).items():
                    partitions = "its partition" if count == 1 else f"its {count} partitions"
                    self._notes.append(
                        f"{names(member_id)} has committed nothing for {partitions} in the {span(seconds)} since the"
                        " newest assignment, and other members have: it stands still, has nothing to read, or keeps its"
                        " offsets elsewhere."
                    )

    def report(self) -> None:
        """Print on standard error the number of records, of those without a meaning too."""
        records = sum(content.records for content, _ in self._parts.values())
        broken = sum(content.broken for content, _ in self._parts.values())
        sentence = f"{records:,} records of {self.name} were read"
        sentence += f", {broken:,} of them could not be understood." if broken else "."
        first = [f"{self._problems[0]}; it was skipped."] if self._problems else []
        for each in (sentence, *first, *self._notes):
            click.echo(readable(f"kafka-shim: {each}", LONGEST_LINE), err=True)


class Both:
    """Logs and the topic as one source: reasons from the logs, members and assignments from the topic."""

    def __init__(self, logs: Logs, topic: Topic) -> None:
        self._logs = logs
        self._topic = topic
        self._offset = 0.0

    @property
    def groups(self) -> list[str]:
        """The groups with lines or records."""
        return list(dict.fromkeys([*self._topic.groups, *self._logs.groups]))

    def has_offsets_alone(self, group: str) -> bool:
        """See `Topic`."""
        return self._topic.has_offsets_alone(group)

    @property
    def silence(self) -> str:
        """The sentence if neither has a group."""
        return f"{self._topic.silence} {self._logs.silence}"

    @property
    def name(self) -> str:
        """Both, for a sentence."""
        return f"{self._topic.name} and {self._logs.name}"

    def events(self) -> Iterator[Event]:
        """Yield the events of both, as one story. Raises click.ClickException."""
        of_topic, of_log = list(self._topic.events()), list(self._logs.events())
        self._offset = zone_offset(of_log, of_topic)
        yield from together(of_log, of_topic, self._offset)

    def finish(self, history: History) -> None:
        """See `Topic`."""
        self._logs.finish(history)
        self._topic.finish(history)

    def report(self) -> None:
        """Print on standard error the numbers of records and of lines."""
        self._topic.report()
        self._logs.report()
        if self._offset:
            hours = self._offset / 3600
            click.echo(f"kafka-shim: The stamps of the log are {hours:+g} h from UTC; they were moved.", err=True)


def _before(complete_since: float) -> str:
    moment = datetime.fromtimestamp(complete_since).astimezone()
    return (
        f"which rebalances there were before {moment:%Y-%m-%d %H:%M:%S %z}, since compaction has removed older records"
        " (from then on the partition is complete)"
    )


def _in_order(events: Iterable[Event]) -> Iterator[Event]:
    """Yield events sorted, as far as a minute: a record has times before its own."""
    heap: list[tuple[float, int, Event]] = []
    newest = 0.0
    for number, event in enumerate(events):
        at = 0.0 if event["event"] == "trace" else event["wall"]
        if event["event"] == "trace" and number:
            # Each partition has its own first line.
            continue
        heapq.heappush(heap, (at, number, event))
        newest = max(newest, at)
        while heap and heap[0][0] < newest - _WINDOW_S:
            yield heapq.heappop(heap)[2]
    while heap:
        yield heapq.heappop(heap)[2]


@click.command("from-offsets")
@click.argument("segments", nargs=-1)
@kafka_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    default="-",
    help="The trace; standard output by default.",
)
@click.option("--group", help="Only this group.")
@reads_files
def from_offsets(
    segments: Sequence[str],
    kafka: Sequence[tuple[str, int]] | None,
    command_config: Path | None,
    out: Path,
    group: str | None,
) -> None:
    """Write a trace from __consumer_offsets of a cluster, or from SEGMENTS: folders __consumer_offsets-N, or *.log."""
    if not kafka and not segments:
        raise click.UsageError("Name a cluster with --kafka HOST:PORT, or segment files of __consumer_offsets.")
    source = Topic(kafka, command_config, segments, group)
    write_trace(source.events(), out)
    source.close()
    if group is not None and group not in source.groups:
        raise click.ClickException(f"There is no group {group} in {source.name}.")
    source.report()

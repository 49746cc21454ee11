"""`Mixture`: the signs of brokers and clients together as events of the trace.

Clients give a broker's signs the reasons of departures and client ids, and add requests that a broker does not log. A
group without a line of a broker has the story of its clients alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kafka_shim.sources.client_program import PROGRAM
from kafka_shim.sources.client_stories import ClientStory
from kafka_shim.sources.clients import PROGRAMS as CLIENTS
from kafka_shim.sources.clients import ClientLogs, offset_text
from kafka_shim.sources.java import JAVA
from kafka_shim.sources.new_broker import NEW_BROKER
from kafka_shim.sources.old_broker import OLD_BROKER
from kafka_shim.sources.overruns import find_overruns
from kafka_shim.sources.reading import log_of
from kafka_shim.sources.redpanda import REDPANDA
from kafka_shim.sources.signs import Sign, SignName
from kafka_shim.sources.story import Story, head, numbered
from kafka_shim.trace.history import GroupHistory

Event = dict[str, Any]

PROGRAMS: Final = (OLD_BROKER, NEW_BROKER, REDPANDA, *CLIENTS)
"""All programs, in the order in which a line tries them."""
NAMELESS: Final = "(its name is not in the log)"
"""The name of a group if its clients do not print it."""
_BEGIN: Final = frozenset({SignName.STABILIZED, SignName.EPOCH})


class Mixture:
    """Events of one group, or of all. After `events` is exhausted, `notes` has sentences about clocks."""

    def __init__(self, group: str | None = None) -> None:
        self._group = group
        self._clients = ClientLogs()
        self._limits: dict[str, list[str]] = {}
        self._of_broker: set[str] = set()
        self._broker_versions: dict[str, set[str]] = {}
        self.notes: list[str] = []

    def events(self, signs: Iterable[Sign]) -> Iterator[Event]:
        """Yield the events of signs in order of time, numbered from 1 on."""
        of_brokers: list[Sign] = []
        of_clients: list[Sign] = []
        for sign in signs:
            (of_clients if PROGRAM in sign.fields else of_brokers).append(sign)
        self._of_broker = {each.group for each in of_brokers if each.group}
        self._broker_versions = broker_versions(of_brokers, of_clients)
        self._clients = self._in_one_zone(of_brokers, ClientLogs(of_clients), of_clients)
        streams: list[Iterable[Event]] = [Story(self._group).events(map(self._clients.enriched, of_brokers))]
        if not of_brokers and of_clients:
            first = min(of_clients, key=lambda each: each.time or 0)
            streams.append([head((first.time or 0) / 1000, first.where)])
        for group in self._groups():
            story = ClientStory(self._clients, group, beside=group in self._of_broker)
            streams.append(list(story.events()))
            self._limits[group] = story.cannot_tell
        yield from numbered(heapq.merge(*streams, key=lambda each: each["wall"]))

    def finish(self, history: GroupHistory) -> None:
        """Complete the history of a group: libraries, versions, members with a log, limits of the logs."""
        self._clients.describe_members(history)
        find_overruns(history, self._clients.of_group(history.group))
        history.broker_versions = tuple(sorted(self._broker_versions.get(history.group, ())))
        history.of_clients = history.group not in self._of_broker
        history.limits = tuple(self._limits.get(history.group, ()))

    def _groups(self) -> list[str]:
        groups = list(dict.fromkeys(each.group for each in self._clients.clients if each.group))
        if self._group is not None:
            # Clients that print no group may be of this one.
            return [self._group] if self._group in groups or not groups else []
        return groups or ([NAMELESS] if self._clients.clients else [])

    def _in_one_zone(self, of_brokers: Iterable[Sign], clients: ClientLogs, of_clients: Iterable[Sign]) -> ClientLogs:
        """Return the clients in the zone of the brokers; without these, in that of the first client."""
        times: Mapping[tuple[str, int], int] = {
            (each.group, int(each.fields["generation"])): each.time
            for each in of_brokers
            if each.name in _BEGIN and each.time is not None
        }
        offsets = clients.offsets(times or clients.times())
        self.notes = [offset_text(file, offset) for file, offset in offsets.items()]
        return ClientLogs(_moved(each, offsets) for each in of_clients) if offsets else clients


def broker_versions(of_brokers: Iterable[Sign], of_clients: Iterable[Sign]) -> dict[str, set[str]]:
    """Return the versions of the brokers of each group: those in a log that has no line of a client.

    `Kafka version: ` is a line of a broker and of a Java client alike.
    """
    logs: dict[str, set[str]] = {}
    for sign in of_brokers:
        if sign.group:
            logs.setdefault(log_of(sign.line.file), set()).add(sign.group)
    versions: dict[str, set[str]] = {}
    mixed: set[str] = set()
    for sign in of_clients:
        log = log_of(sign.line.file)
        if sign.name is SignName.VERSION and sign.fields[PROGRAM] == JAVA.name:
            versions.setdefault(log, set()).add(sign.fields["version"])
        elif sign.name is not SignName.SETTING:
            mixed.add(log)
    of_groups: dict[str, set[str]] = {}
    for log, groups in logs.items():
        for group in groups if log not in mixed else ():
            of_groups.setdefault(group, set()).update(versions.get(log, ()))
    return of_groups


def _moved(sign: Sign, offsets: Mapping[str, int]) -> Sign:
    offset, time = offsets.get(sign.line.file, 0), sign.time
    if time is None or not offset or sign.line.zoned:
        return sign
    return sign._replace(line=sign.line._replace(time=time - offset))

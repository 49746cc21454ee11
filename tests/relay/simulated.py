"""Puppets in simulated time with a relay between them and a coordinator that writes its own trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

import kafka_shim.lab.puppets
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.metadata import MetadataResponse, MetadataResponseTopic
from kafka_shim.lab.scheduler import Link
from kafka_shim.relay.proxied_connection import BrokersAnswer, PendingRequest, ProxiedConnection
from kafka_shim.relay.record import Record
from kafka_shim.testing import Network, Simulation

Events = list[dict[str, Any]]


def at(events: Iterable[Mapping[str, Any]], now: float) -> Iterator[dict[str, Any]]:
    """Events with their time, on both clocks."""
    return ({**event, "mono": now, "wall": now} for event in events)


class Recorded:
    """A simulation with a relay between puppets and coordinator, and the traces of both."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int, **config: Any) -> None:
        network = Network(least=0.0005, most=0.004)
        self.simulation = Simulation(seed=seed, topics={"orders": 12}, network=network, config=config)
        self.events: Events = []
        self.concluded: Events = []
        self.notes: list[str] = []
        self.simulation.cluster.events.listen(lambda events, now: self.events.extend(at(events, now)))
        self.record = Record(lambda events, now: self.concluded.extend(at(events, now)), lambda: self.simulation.now)
        recorded = self

        class RecordedLink(Link):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                self.line = ProxiedConnection(
                    self.session.number, 1, "/127.0.0.1",
                    clock=lambda: recorded.simulation.now,
                    on_request=recorded.record.on_request,
                    on_answer=recorded.record.on_answer,
                    note=recorded.notes.append,
                )  # fmt: skip

            def _arrived(self, data: bytes, now: float) -> None:
                if self.is_open:
                    assert self.line.from_client(data) == data
                super()._arrived(data, now)

            def send(self, data: bytes) -> bool:
                passed = self.line.from_broker(data)
                assert b"".join(part.frame if isinstance(part, BrokersAnswer) else part for part in passed) == data
                return super().send(data)

            def end(self, now: float) -> None:
                recorded.record.closed(self.line)
                super().end(now)

        monkeypatch.setattr(kafka_shim.lab.puppets, "Link", RecordedLink)

    def name_topics(self) -> None:
        """Name the topics, as the Metadata answer does for every real client."""
        topics = [MetadataResponseTopic(0, topic.name, topic.id) for topic in self.simulation.cluster.topics.all()]
        line = ProxiedConnection(0, 1, "", clock=float, on_request=print, on_answer=print, note=print)
        self.record.on_answer(PendingRequest(line, ApiKey.METADATA, 12, 1), MetadataResponse(topics=topics))

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.2)):
            self.simulation.run(0.2)
            self.record.tick()

    def rounds(self, events: Events) -> Events:
        return [event for event in events if event["event"] == "round" and event["members"]]

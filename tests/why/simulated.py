"""Traces for tests, from groups of puppets on the simulator."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from kafka_shim.lab.simulator import Simulation
from kafka_shim.trace.history import GroupHistory, History

WALL = 1_795_269_990.0
"""Wall-clock time when a simulation's clock is at zero."""


class Recorded:
    """The events of a simulation, as a trace has them."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.events: list[dict[str, Any]] = []
        simulation.cluster.events.listen(self._take)

    def _take(self, events: list[Mapping[str, Any]], now: float) -> None:
        for event in events:
            self.events.append({**event, "seq": len(self.events) + 1, "mono": now, "wall": WALL + now})

    def history(self, group: str = "billing") -> GroupHistory:
        history = History()
        for event in self.events:
            history.add(event)
        return history.groups[group]

    def write(self, path: Path) -> Path:
        path.write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in self.events))
        return path


@contextmanager
def recorded(**simulation: Any) -> Iterator[Recorded]:
    """Yield a simulation with a topic `orders` of 12 partitions and a record of its events."""
    config = {"group.initial.rebalance.delay.ms": "1000"} | simulation.pop("config", {})
    yield Recorded(Simulation(topics={"orders": 12}, config=config, **simulation))

"""What can be done at once to a coordinator in a thread, by tests of any kind.

Decides nothing: every method is done in the coordinator's own thread, by `kit.py`. What is waited for is in `server.py`
for tests that may block, and in `awaitable.py` for those that run on an event loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kafka_shim.lab import arguments
from kafka_shim.persistence.store import Store
from kafka_shim.server.server import Server, ServerConfig
from kafka_shim.testing.data import StoredRecord, Value
from kafka_shim.testing.handles import ClientAssignorHandle, Clock, PuppetHandle, RegisteredHandle
from kafka_shim.testing.kit import server_config as config_for_tests
from kafka_shim.testing.thread import CoordinatorThread


class Coordinator(CoordinatorThread):
    """A server on free ports of the loopback address.

    `topics` are created at start, by name with their numbers of partitions; `config` are Kafka's configuration names
    with their values, on top of those of `FOR_TESTS`; `brokers` is the number of nodes; `release` the Kafka release to
    pose as; `faults` are put in force at start, each as the keywords of `fault`. `experimental` are names of what is
    served beside it, as of `serve --experimental`. `store` is open and stays open; by
    default records live as long as the server. With `control` the HTTP control API is served too, at `control_url`.
    Raises ValueError, in one sentence, for a configuration that cannot be.
    """

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, Any] | None = None,
        brokers: int = 1,
        release: str | None = None,
        faults: Sequence[Mapping[str, Any]] = (),
        store: Store | None = None,
        control: bool = False,
        experimental: Sequence[str] = (),
        server_config: ServerConfig | None = None,
    ) -> None:
        made = server_config or config_for_tests(topics, config, brokers, release, experimental)
        super().__init__(made, store, control)
        self._faults = arguments.faults_of(faults)
        self.clock = Clock(self)

    def start(self) -> None:
        """Start, and return when clients can connect."""
        super().start()
        try:
            for fault in self._faults:
                self.call(partial(self.kit.fault, **fault))
        except BaseException:
            self.stop()
            raise

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers of clients: `127.0.0.1:PORT`, one for each broker."""
        return self.kit.bootstrap

    @property
    def server(self) -> Server:
        """The running server, for use in its own thread alone; see `call`."""
        return self.kit.server

    # Members

    def puppet(self, group: str, topics: Sequence[str], **script: Any) -> PuppetHandle:
        """A scripted member that joins now; `script` are the other fields of `Script`, `manner` among them."""
        return PuppetHandle(self, self.call(partial(self.kit.puppet, group, topics, **script)))

    def consumer_puppet(self, group: str, topics: Sequence[str], **script: Any) -> PuppetHandle:
        """A scripted member of the consumer protocol (KIP-848); see `Kit.consumer_puppet`."""
        return PuppetHandle(self, self.call(partial(self.kit.consumer_puppet, group, topics, **script)))

    def share_puppet(self, group: str, topics: Sequence[str], **script: Any) -> PuppetHandle:
        """A scripted member of a share group (KIP-932); see `Kit.share_puppet`."""
        return PuppetHandle(self, self.call(partial(self.kit.share_puppet, group, topics, **script)))

    def streams_puppet(self, group: str, topics: Sequence[str], **script: Any) -> PuppetHandle:
        """A scripted member of a streams group (KIP-1071); see `Kit.streams_puppet`."""
        return PuppetHandle(self, self.call(partial(self.kit.streams_puppet, group, topics, **script)))

    def client_assignor_puppet(self, group: str, topics: Sequence[str], **script: Any) -> ClientAssignorHandle:
        """A scripted member that computes assignments itself; see `Kit.client_assignor_puppet`."""
        return ClientAssignorHandle(self, self.call(partial(self.kit.client_assignor_puppet, group, topics, **script)))

    def registered_puppet(self, group: str, topics: Sequence[str], **script: Any) -> RegisteredHandle:
        """A scripted member that registers, as before Kafka 0.9; see `Kit.registered_puppet`."""
        return RegisteredHandle(self, self.call(partial(self.kit.registered_puppet, group, topics, **script)))

    # Faults

    def clear_faults(self) -> None:
        """Let no fault happen any more, and let go what barriers hold."""
        self.call(self.kit.faults.clear)
        self.call(self.kit.barriers.clear)

    def verify(self) -> None:
        """Raise UnfiredFaults if there are faults that never happened and are not optional."""
        self.call(self.kit.verify)

    # Brokers and store

    def disconnect(self, client_id: str) -> int:
        """Close all connections of clients with this id, which may have `*` and `?`; how many these were."""
        return self.call(self.kit.disconnect, client_id)

    def coordinator_of(self, group: str) -> int:
        """The id of the broker that coordinates a group."""
        return self.call(self.kit.coordinator_of, group)

    def move(self, group: str, broker: int) -> None:
        """Let another broker coordinate a group, with all of its partition of `__consumer_offsets`."""
        self.call(self.kit.move, group, broker)

    def stop_broker(self, broker: int) -> None:
        """Shut a broker down in good order."""
        self.call(self.kit.cluster.stop_broker, broker)

    def kill_broker(self, broker: int) -> None:
        """Let a broker be gone from one moment to the next."""
        self.call(self.kit.cluster.kill_broker, broker)

    def restart_broker(self, broker: int) -> None:
        """Start a broker that was stopped or killed, on the address it had."""
        self.call(self.kit.cluster.restart_broker, broker)

    def load_takes(self, seconds: float) -> None:
        """How much longer than it must every load of partitions takes from now on."""
        arguments.seconds("The time that a load takes", seconds)
        self.call(self.kit.load_takes, seconds)

    def fail_store(self, times: int | None = 1) -> None:
        """Let the next writes to the store fail, all for `times` None."""
        if times is not None:
            arguments.whole("The number of writes that fail", times, 1)
        self.call(self.kit.breakable.fail, times)

    def repair_store(self) -> None:
        """Let the store write again."""
        self.call(self.kit.breakable.repair)

    # Topics, records and offsets

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, Any] | None = None) -> None:
        """Create a topic, with values for settings of its own such as `cleanup.policy`. Raises ValueError."""
        self.call(self.kit.create_topic, name, partitions, config)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Let a topic have so many partitions, which are more than it has. Raises ValueError."""
        self.call(self.kit.grow_topic, name, partitions)

    def produce(self, topic: str, *values: Value, **options: Any) -> list[tuple[int, int]]:
        """Append records to a topic; partition and offset of each. See `TopicData.produce` for the options."""
        return self.call(partial(self.kit.produce, topic, *values, **options))

    def records(self, topic: str, partition: int | None = None, *, committed: bool = True) -> list[StoredRecord]:
        """The records of a topic, or of one partition, as a consumer sees them; see `TopicData.records`."""
        return self.call(partial(self.kit.records, topic, partition, committed=committed))

    def seed_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a group that has no members, by topic and partition. Raises ValueError."""
        self.call(self.kit.seed_offsets, group, offsets)

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """By topic and partition, how many records are behind the group's committed offset."""
        return self.call(self.kit.lag, group)

    # What happened

    def story(self, group: str | None = None) -> list[str]:
        """What happened to a group, or to all of them, in lines a person reads."""
        return self.call(self.kit.story, group)

    def events(self, group: str | None = None) -> list[dict[str, Any]]:
        """The trace events of a group, or all (`docs/trace.md`)."""
        return self.call(lambda: [event for _, _, event in self.kit.history.since(0, group)])

    def write_trace(self, path: Path | str) -> None:
        """Write what happened as a trace file."""
        self.call(self.kit.write_trace, Path(path))

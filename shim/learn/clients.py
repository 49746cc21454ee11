"""Scene of a lesson with real clients: a coordinator on a port and one process per member, in real time.

Members are started, stopped and killed here; the coordinator's state is read in its own thread. `scene.py` defines the
lines of `do` and the patterns.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from typing import IO, Any, Final, TypeVar

import trio

from kafka_shim.lab.faults import Faults
from kafka_shim.lab.interception import Interception, later_in
from kafka_shim.lab.snapshots import GroupSnapshot, snapshot
from kafka_shim.learn.lesson import Unteachable
from kafka_shim.learn.member import CLIENTS
from kafka_shim.learn.scene import Scene, options_of
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.frames import FramePair
from kafka_shim.server.history import EventHistory
from kafka_shim.server.server import Server, ServerConfig, serve

T = TypeVar("T")

UNTIL_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.05
_CLOSE_SECONDS: Final = 20.0
_MODULES: Final = {"kafka-python": "kafka", "aiokafka": "aiokafka", "confluent-kafka": "confluent_kafka"}
_DEFAULTS: Final = {
    "protocol": "classic",
    "protocols": ["range"],
    "instance": None,
    "session": 10.0,
    "rebalance": 60.0,
    "heartbeat": 1.0,
    "think": 0.0,
}


class Stage:
    """A running server with the interface of a simulation. Use it only in the server's own thread; see `call`."""

    def __init__(self, topics: Mapping[str, int], settings: Mapping[str, str], brokers: int) -> None:
        self._config = ServerConfig(
            brokers=brokers, cluster=ClusterConfig(settings=dict(settings), topics=dict(topics))
        )
        self._started = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="lesson", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise Unteachable(f"The scene cannot be started: {self._failure}.")

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except Exception as error:
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        async with trio.open_nursery() as nursery:
            self.server: Server = await nursery.start(serve, self._config)
            self.cluster = self.server.cluster
            self.history = EventHistory(self.cluster.events, self.cluster.wall_offset)
            self.history.start()
            self.faults = Faults(Interception(self.cluster, later_in(nursery, self.cluster)))
            self._token = trio.lowlevel.current_trio_token()
            self._started.set()
            await self.server.gone.wait()
            nursery.cancel_scope.cancel()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function in the server's thread and return its result."""
        return trio.from_thread.run_sync(function, trio_token=self._token)

    def stop(self) -> None:
        """Stop the server."""
        self.call(self.server.stop)
        self._thread.join()

    @property
    def now(self) -> float:
        return float(self.cluster.clock())

    def group(self, name: str) -> GroupSnapshot:
        return snapshot(self.cluster, name)

    def run(self, seconds: float) -> None:
        """Do nothing: real time passes by itself."""


class ClientScene(Scene):
    """A scene with consumers of `client`, one of `CLIENTS`, as members. Raises Unteachable if the library is not
    installed.
    """

    def __init__(
        self,
        *,
        client: str,
        group: str = "billing",
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        brokers: int = 1,
    ) -> None:
        self._client = _installed(client)
        self._members: dict[str, subprocess.Popen[bytes]] = {}
        self._files = ExitStack()
        self._stderr: dict[str, IO[bytes]] = {}
        """The standard error of each member's process."""
        super().__init__(group=group, topics=topics, config=config, brokers=brokers)

    def _open(self, settings: Mapping[str, str], brokers: int) -> Any:
        self._stage = Stage(self.topics, settings, brokers)
        return self._stage

    def close(self) -> None:
        """Kill the remaining members and stop the coordinator."""
        for process in self._members.values():
            process.kill()
            process.wait()
        self._files.close()
        self._stage.stop()

    # Actions

    def _in_scene(self, function: Callable[[], T]) -> T:
        return self._stage.call(function)

    def _wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def _until(self, words: str) -> None:
        limit = time.monotonic() + UNTIL_SECONDS
        while not self._in_scene(partial(self._matches, words)):
            for name, process in self._members.items():
                if process.poll() is not None:
                    raise ValueError(f"{name} has ended: {self._last_error(name)}")
            if time.monotonic() > limit:
                state = self._in_scene(lambda: self.simulation.group(self.group))
                raise ValueError(f"the group is not as `until` says within {UNTIL_SECONDS:.0f} s: {state}")
            time.sleep(_LOOK_SECONDS)

    @property
    def _names(self) -> Collection[str]:
        return self._members

    @property
    def _verbs(self) -> dict[str, Callable[[str, str], None]]:
        return {
            "joins": self._joins,
            "leaves": lambda name, _: self._end(name, signal.SIGTERM),
            "crashes": lambda name, _: self._end(name, signal.SIGKILL),
            "falls-silent": lambda name, _: self._members[name].send_signal(signal.SIGSTOP),
            "goes-on": lambda name, _: self._members[name].send_signal(signal.SIGCONT),
        }

    def _joins(self, name: str, words: str) -> None:
        script: dict[str, Any] = {
            **_DEFAULTS,
            "client": self._client,
            "group": self.group,
            "topics": list(self.topics),
            "name": name,
            **options_of(words),
            "bootstrap": self._in_scene(lambda: self._stage.server.bootstrap),
        }
        unknown = script.keys() - _DEFAULTS.keys() - {"client", "group", "topics", "name", "bootstrap"}
        if unknown:
            raise ValueError(f"real clients have no option {', '.join(sorted(unknown))}")
        _installed(script["client"])
        command = [sys.executable, "-m", "kafka_shim.learn.member", json.dumps(script)]
        stderr = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._stderr[name] = stderr
        self._members[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)

    def _last_error(self, name: str) -> str:
        self._stderr[name].seek(0)
        lines = self._stderr[name].read().decode(errors="replace").splitlines()
        return lines[-1] if lines else "it printed no error"

    def _end(self, name: str, number: signal.Signals) -> None:
        process = self._members.pop(name)
        process.send_signal(number)
        try:
            process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ValueError(f"The consumer {name} has not closed within {_CLOSE_SECONDS:.0f} s") from None

    # State and output

    def fits(self, pattern: Mapping[str, Any]) -> bool:
        return self._in_scene(lambda: super(ClientScene, self).fits(pattern))

    def story(self) -> list[str]:
        return self._in_scene(super().story)

    def exchanges(self, api: str | None = None) -> list[str]:
        return self._in_scene(lambda: super(ClientScene, self).exchanges(api))

    def frames_of(self, api: str, who: str) -> FramePair:
        return self._in_scene(lambda: super(ClientScene, self).frames_of(api, who))


def _installed(client: str) -> str:
    if client not in CLIENTS:
        raise Unteachable(f"A lesson has clients of {', '.join(CLIENTS)}, not of {client}.")
    if find_spec(_MODULES[client]) is None:
        raise Unteachable(f"This lesson needs {client}, which is not installed: pip install {client}.")
    return client

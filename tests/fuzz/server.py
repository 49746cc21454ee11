"""A fuzzer of a whole server: `python -m tests.fuzz.server --store sqlite: --seconds 3600 --seed 1`.

It starts `kafka-shim serve` in a process of its own, with settings that let timers fire all the time, and sends it the
requests of `requests.py`: on several connections at once, several requests at a time, in pieces, half-closed, broken
off, unread. Beside them the member of `bystander.py` must see no error. At the end the server gets SIGTERM while the
connections go on. With a store that lasts it is started once more, and must still have the member's last commit.

The result is one line of JSON. `ok` is false if the server ended too early or with another exit code than 0, if the
bystander saw an error, or if its last commit was lost. Times are for people to judge: they depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, Final

import trio

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.profiles import is_served
from kafka_shim.apis.releases import DEFAULT_RELEASE
from kafka_shim.apis.wire import DecodeError
from kafka_shim.apis.wire.frames import FrameError, FrameSplitter
from kafka_shim.apis.wire.headers import decode_response_header
from tests.fuzz.bystander import Bystander, connected
from tests.fuzz.requests import PROTECTED, Memory, Requests
from tests.postgres import postgres_server

CONNECTIONS: Final = 8
PATIENCE: Final = 60.0
SEND_SECONDS: Final = 0.3
SAMPLE: Final = 0.5
"""Seconds between two looks at the memory."""
LAST: Final = 300
"""So many of the newest pieces sent are kept for the case that the server ends."""
LAST_BYTES: Final = 1 << 18
"""So much is kept of each: hundreds of the largest ones would fill the memory of the machine."""
_MIB: Final = 1 << 20
_INJECTED: Final = re.compile(r"Injected(?:: |\(')(?:before |after )?(\w+)")
_TOPICS: Final = ("t0:3", "t1:1", "compacted:1", f"{PROTECTED}:1")
_SETTINGS: Final = {
    "group.min.session.timeout.ms": 1,
    "group.initial.rebalance.delay.ms": 20,
    "group.consumer.session.timeout.ms": 700,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.share.session.timeout.ms": 700,
    "group.share.heartbeat.interval.ms": 100,
    "group.streams.session.timeout.ms": 700,
    "group.streams.heartbeat.interval.ms": 100,
    "group.streams.initial.rebalance.delay.ms": 20,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": 1000,
    "offsets.retention.minutes": 1,
    "offsets.retention.check.interval.ms": 1000,
    "log.retention.check.interval.ms": 1000,
    "log.retention.bytes": 50_000,
    "log.cleaner.backoff.ms": 500,
}


@dataclass
class Tally:
    """Counts of all connections of the fuzzer. `undecodable` has the answers that their API cannot decode."""

    requests: int = 0
    answered: int = 0
    undecodable: Counter[str] = field(default_factory=Counter)
    errors: Counter[int] = field(default_factory=Counter)
    connections: int = 0
    closed: int = 0
    resident: list[int] = field(default_factory=list)
    last: deque[bytes] = field(default_factory=lambda: deque(maxlen=LAST))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The arguments of a run. `store` is as for `kafka-shim serve`, but `postgresql:` alone starts a database.

    The run ends after `seconds`, or after so many `requests`.
    """

    store: str
    seed: int
    seconds: float = inf
    requests: float = inf
    tls: bool = False
    connections: int = CONNECTIONS
    faults: int = 0
    """One call in so many raises, at each border of the server (`failing.py`); 0: none."""
    options: Sequence[str] = ()


class Target:
    """The server under test, which can be started again."""

    def __init__(self, plan: Plan, store: str, folder: Path) -> None:
        self.certificate = certificate(folder) if plan.tls else None
        self.trusting = ssl.create_default_context(cafile=self.certificate)
        self.log = folder / "server.log"
        failing = ["tests.fuzz.failing", str(plan.faults), str(plan.seed)]
        program = failing if plan.faults else ["kafka_shim"]
        self._command = [sys.executable, "-m", *program, "serve", "--listen", "127.0.0.1:0", "--store", store]
        for topic in _TOPICS:
            self._command += ["--topic", topic]
        for name, value in _SETTINGS.items():
            self._command += ["--config", f"{name}={value}"]
        if self.certificate is not None:
            self._command += ["--tls-cert", str(self.certificate), "--tls-key", str(folder / "key.pem")]
        self._command += [*plan.options, "--log-level", "warning"]
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        """Start it; `port` is where it listens."""
        with self.log.open("a") as log:
            self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        if not ready.startswith("ready "):
            raise RuntimeError(f"the server did not start: {self.log.read_text()[-2000:]}")
        self.port = int(ready.split()[1].rpartition(":")[2])
        return self.process

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def resident(self) -> int:
        """The MiB of its memory in use; 0 when it has ended."""
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE") // _MIB

    def stop(self) -> int | None:
        """Send SIGTERM, and return the exit code; None if it does not end."""
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            assert self.process.stdout is not None
            self.process.stdout.close()

    def tracebacks(self) -> dict[str, int]:
        """Count the tracebacks in the log by their last line."""
        counts: Counter[str] = Counter()
        inside = False
        with self.log.open(errors="replace") as lines:
            for line in lines:
                if line.strip().startswith("Traceback "):
                    inside = True
                elif inside and re.match(r"(  )?[A-Za-z_.]+(:|$)", line):
                    counts[re.sub(r"\d+", "N", line.strip())[:160]] += 1
                    inside = False
        return dict(counts.most_common(20))

    def injected(self) -> dict[str, int]:
        """Count the exceptions of `failing.py` in the log, by the function that raised."""
        with self.log.open(errors="replace") as lines:
            return dict(Counter(name for line in lines for name in _INJECTED.findall(line)).most_common())


def certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1 that signs itself; its key is `key.pem` beside it."""
    path = folder / "certificate.pem"
    subject = ("-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    command = ["openssl", "req", "-x509", *curve, *subject, "-keyout", str(folder / "key.pem"), "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


class Attacker:
    """One connection after the other, each with its own kind of abuse."""

    def __init__(self, number: int, plan: Plan, target: Target, memory: Memory, tally: Tally) -> None:
        self._chance = random.Random(f"{plan.seed}-{number}")
        self._requests = Requests(self._chance, memory)
        self._memory = memory
        self._target = target
        self._tally = tally
        self._sent: dict[int, tuple[Api, int, str | None]] = {}
        self._correlation_id = 0

    async def run(self) -> None:
        """Go on until cancelled, or until the server is gone."""
        while self._target.alive:
            try:
                await self._converse()
            except OSError:
                await trio.sleep(0.01)
            except (trio.BrokenResourceError, trio.ClosedResourceError, FrameError):
                self._tally.closed += 1

    async def _converse(self) -> None:
        chance, target = self._chance, self._target
        tcp = await trio.open_tcp_stream("127.0.0.1", target.port)
        self._tally.connections += 1
        stream: trio.abc.HalfCloseableStream | trio.SSLStream[trio.SocketStream] = tcp
        # A few speak the wrong one of plain text and TLS.
        if (target.certificate is not None) is (chance.random() < 0.98):
            stream = trio.SSLStream(tcp, target.trusting, server_hostname="127.0.0.1", https_compatible=True)
        self._sent.clear()
        splitter = FrameSplitter()
        try:
            for _ in range(chance.choice((1, 5, 40))):
                with trio.move_on_after(SEND_SECONDS) as limit:
                    await self._send(stream)
                if limit.cancelled_caught:
                    # The server reads no more while a request is parked.
                    return
                if chance.random() < 0.9 and not await self._read(stream, splitter, chance.choice((0.005, 0.03, 0.2))):
                    self._tally.closed += 1
                    return
            await self._end(stream, tcp, splitter)
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    async def _send(self, stream: trio.abc.SendStream) -> None:
        chance, burst = self._chance, b""
        for _ in range(chance.choice((1, 1, 2, 6))):
            self._correlation_id += 1
            api, version, data = self._requests.next(self._correlation_id)
            if api is not None:
                self._sent[self._correlation_id] = (api, version, self._requests.group)
            burst += data
            self._tally.requests += 1
        self._tally.last.append(burst[:LAST_BYTES])
        if chance.random() < 0.9:
            await stream.send_all(burst)
            return
        cut = chance.randrange(len(burst) + 1)
        await stream.send_all(burst[:cut])
        await trio.sleep(chance.choice((0, 0.002)))
        if chance.random() < 0.9:
            await stream.send_all(burst[cut:])

    async def _read(self, stream: trio.abc.ReceiveStream, splitter: FrameSplitter, seconds: float) -> bool:
        """Read answers until all are here or the time is up; False when the server has closed."""
        with trio.move_on_after(seconds):
            while self._sent:
                data = await stream.receive_some(1 << 16)
                if not data:
                    return False
                for answer in splitter.feed(bytes(data)):
                    self._look_at(answer)
        return True

    def _look_at(self, answer: bytes) -> None:
        self._tally.answered += 1
        question = self._sent.pop(int.from_bytes(answer[:4]), None)
        if question is None:
            return
        api, version, group = question
        if api.key == ApiKey.API_VERSIONS and not is_served(DEFAULT_RELEASE, api.key, version):
            # A version that is not served is answered as version 0.
            version = 0
        try:
            _, offset = decode_response_header(answer, api.key, version)
            response = api.response.decode(answer[offset:], version)
        except DecodeError:
            self._tally.undecodable[f"{api.name} v{version}"] += 1
            return
        self._memory.learn(response, group)
        code = getattr(response, "error_code", None)
        if code is not None:
            self._tally.errors[code] += 1

    async def _end(self, stream: trio.abc.Stream, tcp: trio.SocketStream, splitter: FrameSplitter) -> None:
        way = self._chance.randrange(4)
        if way == 0:
            # A reset in place of an end.
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif way == 1 and stream is tcp:
            await tcp.send_eof()
            await self._read(stream, splitter, 0.3)
        elif way == 2:
            with trio.move_on_after(SEND_SECONDS):
                await self._send(stream)


def beside(target: Target) -> subprocess.Popen[str]:
    """Start the bystander, and wait until it is a member."""
    command = [sys.executable, "-m", "tests.fuzz.bystander", str(target.port)]
    if target.certificate is not None:
        command.append(str(target.certificate))
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "joined\n"
    return process


def last_words(bystander: subprocess.Popen[str]) -> dict[str, Any]:
    """End the bystander, and return its report."""
    try:
        output, _ = bystander.communicate("", PATIENCE)
    except subprocess.TimeoutExpired:
        bystander.kill()
        output, _ = bystander.communicate()
    try:
        report: dict[str, Any] = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        report = {"requests": 0, "errors": 1, "first_errors": ["the bystander had no answer"], "offset": -1}
    return report


async def fuzz(plan: Plan, target: Target, tally: Tally) -> tuple[dict[str, Any], int | None]:
    """Return the bystander's report, and the server's exit code after SIGTERM."""
    bystander = beside(target)
    try:
        memory = Memory()
        async with trio.open_nursery() as nursery:
            for number in range(plan.connections):
                nursery.start_soon(Attacker(number, plan, target, memory, tally).run)
            ends = trio.current_time() + plan.seconds
            while trio.current_time() < ends and tally.requests < plan.requests and target.alive:
                tally.resident.append(target.resident)
                await trio.sleep(SAMPLE)
            report = await trio.to_thread.run_sync(last_words, bystander)
            died = target.process.poll()
            # While the attack goes on.
            code = died if died is not None else await trio.to_thread.run_sync(target.stop)
            nursery.cancel_scope.cancel()
        return report, code
    finally:
        if bystander.poll() is None:
            bystander.kill()
            bystander.wait()


def has_commit(target: Target, offset: int) -> bool:
    """Start the server again, and return whether it has the last commit of the bystander."""
    target.start()
    try:
        witness = Bystander(connected(target.port, str(target.certificate) if target.certificate else None))
        witness.offset = offset
        witness.check_offset()
        return not witness.errors
    finally:
        target.stop()


def run(plan: Plan, folder: Path) -> dict[str, Any]:
    """Fuzz a server, and return the summary."""
    tally = Tally()
    with ExitStack() as stack:
        store = plan.store
        if store == "postgresql:":
            store = stack.enter_context(postgres_server())
        elif store == "sqlite:":
            store = f"sqlite:{folder / 'fuzzed.db'}"
        target = Target(plan, store, folder)
        stack.callback(_end, target)
        began = time.monotonic()
        report, code = trio.run(partial(fuzz, plan, target, tally))
        seconds = time.monotonic() - began
        is_safe = code != 0 or store == "memory:" or has_commit(target, report["offset"])
        tracebacks, injected = target.tracebacks(), target.injected()
    if code != 0:
        (folder / "last-sent.hex").write_text("\n".join(data.hex() for data in tally.last))
    peak = max(tally.resident)
    return {
        "ok": code == 0 and report["errors"] == 0 and is_safe,
        "store": plan.store,
        "tls": plan.tls,
        "seed": plan.seed,
        "seconds": round(seconds, 1),
        "requests": tally.requests,
        "answered": tally.answered,
        "undecodable": dict(tally.undecodable),
        "errors": dict(tally.errors.most_common()),
        "connections": tally.connections,
        "closed": tally.closed,
        "bystander": report,
        "rss_mib": {"start": tally.resident[0], "peak": peak, "quarters": quarters(tally.resident)},
        "exit_code": code,
        "commit_is_safe": is_safe,
        "tracebacks": tracebacks,
        "injected": injected,
    }


def quarters(resident: Sequence[int]) -> list[float]:
    """Return the median of each quarter of the time, in MiB: a leak grows in the last two quarters as well."""
    samples = [each for each in resident if each] or [0]
    size = max(1, len(samples) // 4)
    return [median(samples[at : at + size] or samples[-1:]) for at in range(0, 4 * size, size)]


def _end(target: Target) -> None:
    if target.alive:
        target.process.kill()
        target.process.wait()


def main() -> int:
    """Run with the arguments of the command line; the exit code is 0 if the summary is `ok`."""
    parser = argparse.ArgumentParser(description="Fuzz a kafka-shim server.")
    parser.add_argument("--store", default="memory:", help="memory:, sqlite:, or postgresql: for a database of its own")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=float, default=inf, help="end after so many requests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument(
        "--faults", type=int, default=0, help="one call in so many raises, at each border of the server"
    )
    parser.add_argument("--folder", type=Path, help="keeps the server's log, and what was sent last, here")
    parser.add_argument("options", nargs="*", help="further options of kafka-shim serve, after --")
    arguments = parser.parse_args()
    plan = Plan(
        store=arguments.store,
        seconds=arguments.seconds,
        requests=arguments.requests,
        seed=arguments.seed,
        tls=arguments.tls,
        connections=arguments.connections,
        faults=arguments.faults,
        options=arguments.options,
    )
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        folder = Path(temporary) if arguments.folder is None else arguments.folder
        folder.mkdir(exist_ok=True)
        summary = run(plan, folder)
    print(json.dumps(summary))
    return 0 if summary["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

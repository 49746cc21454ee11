"""Sandboxes of a laboratory: processes that continue its run from a moment in the past.

Their number is bounded, and they end with their laboratory. A sandbox is `kafka-shim replay JOURNAL --until MOMENT
--serve`. It has its own process because the replay of a long journal takes longer than clients of the laboratory may
wait.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

import trio

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.server.journal import Journal
from kafka_shim.server.refusals import Refused

if TYPE_CHECKING:
    from kafka_shim.control.workbench import Workbench

MAX_SANDBOXES: Final = 4
START_SECONDS: Final = 120.0
"""Seconds that a replay may take."""


@dataclass
class Sandbox:
    """A running sandbox: its first moment, and the addresses for clients and of its control server."""

    number: int
    until: str
    kafka: str
    control: str
    lines: list[str]
    """The puppet of each client, or why it has none, a line each."""
    process: trio.Process


class Sandboxes:
    """The sandboxes of one laboratory, by number."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._running: dict[int, Sandbox] = {}
        self._starting = 0
        self._numbers = count(1)

    @property
    def running(self) -> dict[int, Sandbox]:
        """Return the sandboxes that still run."""
        self._running = {number: each for number, each in self._running.items() if each.process.poll() is None}
        return self._running

    @property
    def journal(self) -> Journal:
        """Return the journal to replay. Raises Refused without one."""
        journal = self._workbench.cluster.config.journal
        if journal is None:
            raise Refused(ErrorCode.INVALID_REQUEST, "This laboratory writes no journal: start it with --journal PATH.")
        return journal

    async def start(self, until: str) -> Sandbox:
        """Start a sandbox from `until`: the number of an input, a time, or empty for now. Raises Refused."""
        journal = self.journal
        if self._workbench.has_tls:
            # Its page would be plain HTTP, with the same token.
            reason = "A control server with TLS starts no sandboxes: use kafka-shim replay --serve."
            raise Refused(ErrorCode.INVALID_REQUEST, reason)
        if len(self.running) + self._starting >= MAX_SANDBOXES:
            raise Refused(ErrorCode.INVALID_REQUEST, f"There are {MAX_SANDBOXES} sandboxes at most: end one first.")
        journal.flush()
        host, token = self._workbench.served_on
        anywhere = f"[{host}]:0" if ":" in host else f"{host}:0"
        command = [sys.executable, "-m", "kafka_shim", "replay", str(journal.path)]
        command += ["--serve", anywhere, "--control", anywhere]
        command += [f"--until={until}"] if until else []
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_SHIM_")}
        if token:
            environment["KAFKA_SHIM_CONTROL_TOKEN"] = token
        self._starting += 1
        try:
            process: trio.Process = await self._workbench.nursery.start(_run, command, environment)
            sandbox = await self._ready(process, until)
        finally:
            self._starting -= 1
        self._running[sandbox.number] = sandbox
        return sandbox

    async def _ready(self, process: trio.Process, until: str) -> Sandbox:
        """Return the sandbox of a process once it is ready. Raises Refused with the process's own sentence."""
        assert process.stdout is not None
        output = ""
        try:
            with trio.fail_after(START_SECONDS):
                while not output.endswith("\n") or not output.splitlines()[-1].startswith("ready "):
                    data = await process.stdout.receive_some()
                    if not data:
                        sentence = output.splitlines()[-1:] or ["The replay has ended."]
                        raise Refused(ErrorCode.INVALID_REQUEST, sentence[0].removeprefix("kafka-shim: "))
                    output += data.decode(errors="replace")
        except BaseException as error:
            process.terminate()
            await trio.aclose_forcefully(process.stdout)
            if isinstance(error, trio.TooSlowError):
                reason = f"The replay takes longer than {START_SECONDS:.0f} seconds: use kafka-shim replay --serve."
                raise Refused(ErrorCode.REQUEST_TIMED_OUT, reason) from None
            raise
        self._workbench.nursery.start_soon(_drain, process.stdout)
        *lines, ready = output.splitlines()
        where = dict(word.split("=", 1) for word in ready.split()[1:])
        lines = [line for line in lines if line.startswith(("puppet ", "no puppet ", "and "))]
        return Sandbox(next(self._numbers), until, where["kafka"], where["control"], lines, process)

    def end(self, number: int) -> Sandbox | None:
        """End a sandbox; return None if there is none of this number."""
        sandbox = self.running.pop(number, None)
        if sandbox is not None:
            sandbox.process.terminate()
        return sandbox


async def _run(command: list[str], environment: dict[str, str], task_status: trio.TaskStatus[trio.Process]) -> None:
    await trio.run_process(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        task_status=task_status,
    )


async def _drain(output: trio.abc.ReceiveStream) -> None:
    """Read the output of a sandbox until it ends, so that it never blocks on its output."""
    async with output:
        while await output.receive_some():
            pass

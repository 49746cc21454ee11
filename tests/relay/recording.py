"""A relay, and a server to stand behind it, in processes of their own, as an operator starts them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def running(*command: str) -> Iterator[str]:
    """The bootstrap addresses of a `kafka-shim` command; it has ended well when the block ends."""
    process = subprocess.Popen([sys.executable, "-m", "kafka_shim", *command], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("ready kafka="), f"{command} is not ready"
        yield ready.split()[1].removeprefix("kafka=")
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(20)
    assert status == 0, f"{command} did not end well"


@contextlib.contextmanager
def recording(upstream: str, trace: Path, *options: str) -> Iterator[str]:
    """The bootstrap address of a relay in front of `upstream`; the trace is whole when the block ends."""
    with running(
        "trace", "record", "--upstream", upstream, "--listen", "127.0.0.1:0", "--trace", str(trace), *options
    ) as bootstrap:
        yield bootstrap

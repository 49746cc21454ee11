"""Requests that Schemathesis makes of the OpenAPI document: a running server gives only answers of the document.

The same requests each time, so that a failure tells about the change at hand. With FUZZ_SECONDS it makes others for so
long, by the seed FUZZ_SEED.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_shim.control.api import operations
from kafka_shim.testing import CoordinatorServer
from tests.examples import EVERYTHING

pytestmark = pytest.mark.second_stage("a fuzzer that runs for as long as it is given")

HERE = Path(__file__).parent
SECONDS = os.environ.get("FUZZ_SECONDS")
SEED = os.environ.get("FUZZ_SEED", "1")
EXAMPLES = "5"
"""Number of requests of each operation and phase when no time is given."""
PHASES = [] if SECONDS or EVERYTHING else ["--phases", "examples,fuzzing,stateful"]
"""The phase with thousands of requests about the border of each field takes minutes: `make everything` has it."""


@pytest.fixture
def server() -> Iterator[CoordinatorServer]:
    """A server that accepts faults that never happen."""
    server = CoordinatorServer(topics={"orders": 4}, brokers=2, control=True)
    server.start()
    yield server
    server.stop()


@pytest.mark.timeout(900 + int(SECONDS or 0) * 2)
def test_nothing_is_found(server: CoordinatorServer) -> None:
    server.puppet("alive", ["orders"])
    server.group("alive").stable(members=1)
    command = [Path(sys.executable).parent / "schemathesis", "--config-file", HERE / "schemathesis.toml"]
    amount = ["--max-time", SECONDS] if SECONDS else ["--max-examples", EXAMPLES, "--generation-deterministic"]
    options = [*amount, *PHASES, "--request-timeout", "10", "--max-failures", "5", "--seed", SEED]
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "tests.control.hooks", "PYTHONPATH": ".", "NO_COLOR": "1"}
    done = subprocess.run(
        [*command, "run", f"{server.control_url}/v1/openapi.json", *options],
        capture_output=True,
        text=True,
        cwd=HERE.parent.parent,
        env=environment,
    )
    # A generated request may be very long.
    output = "\n".join(line[:500] for line in done.stdout.splitlines()) + done.stderr
    assert done.returncode == 0, output
    tested = re.search(r"Tested: (\d+)", output)
    assert tested is not None, output
    assert int(tested[1]) == len(operations(lab=True)), output

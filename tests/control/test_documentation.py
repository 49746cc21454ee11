"""docs/http.md names every operation, and its commands work."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_shim.control.api import operations
from kafka_shim.control.openapi import openapi
from kafka_shim.control.operation import Operation
from kafka_shim.testing import CoordinatorServer

OPERATIONS = operations(lab=True)
TEXT = (Path(__file__).resolve().parents[2] / "docs" / "http.md").read_text()
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
HERE = Path(sys.executable).parent


def named(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


def test_every_operation_is_in_the_table_and_says_whether_it_is_for_tests() -> None:
    rows = [row for row in TEXT.splitlines() if row.startswith("| `")]
    documented = {name: row.endswith("| yes |") for row in rows for name in re.findall(r"`([A-Z]+ /[^`]*)`", row)}
    assert documented == {named(each): each.lab for each in OPERATIONS}


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.body is not None], ids=named)
def test_every_body_has_an_example(operation: Operation) -> None:
    described = openapi(OPERATIONS)["paths"][operation.path][operation.method.lower()]
    assert described["requestBody"]["content"]["application/json"]["example"] == operation.example is not None


@pytest.mark.second_stage("curl")
def test_the_commands_of_the_page_work(server: CoordinatorServer) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    for command in COMMANDS:
        words = shlex.split(command.replace("http://127.0.0.1:8092", server.control_url))
        if words[:2] == ["kafka-shim", "serve"]:
            served(words)
            continue
        if words[0] == "kafka-shim":
            words = [str(HERE / words[0]), *words[1:], "--control", server.control_url]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout.strip()
        if words[0] == "curl":
            assert "message" not in json.loads(done.stdout), command


def served(words: list[str]) -> None:
    """Run a command of the page that starts a server, here on free ports."""
    words = [word.replace(":8092", ":0") for word in words]
    command = [str(HERE / words[0]), *words[1:], "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready kafka=127.0.0.1:")
        process.terminate()
        assert process.wait(20) == 0

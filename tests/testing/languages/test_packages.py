"""The packages of `clients/` for Go and Node, by their own tests; `test_java.py` runs the tests of the Java package."""

import re
from pathlib import Path

import pytest

from kafka_shim.conformance.targets.kafka import cache_folder
from tests.testing.languages.test_examples import ROOT, copy, program, run

pytestmark = pytest.mark.second_stage("Java, Go and Node.js")

TESTS = {"go": 6, "node": 8}


def package(language: str) -> Path:
    return copy(ROOT / "clients" / language, cache_folder() / f"clients-{language}")


@pytest.mark.everything("Go and Node.js")
def test_go() -> None:
    go = program("go", "/usr/local/go/bin")
    output = run([go, "test", "-count=1", "-v", "./..."], package("go"))
    assert len(re.findall(r"^--- PASS", output, re.MULTILINE)) == TESTS["go"]


@pytest.mark.everything("Go and Node.js")
def test_node() -> None:
    node = program("node")
    if int(run([node, "--version"], ROOT)[1:].partition(".")[0]) < 18:
        pytest.skip("Node.js has a test runner since 18")
    output = run([node, "--test"], package("node"))
    assert re.search(rf"^\W*pass {TESTS['node']}$", output, re.MULTILINE), output

"""The packages of `clients/` for Go, Java and Node, by their own tests."""

import re

import pytest

from tests.testing.languages.test_examples import EXAMPLES, copied, program, run

CLIENTS = EXAMPLES.with_name("clients")
TESTS = 4


@pytest.mark.timeout(400)
def test_go() -> None:
    go = program("go", "/usr/local/go/bin")
    output = run([go, "test", "-count=1", "-v", "./..."], copied("go", CLIENTS))
    assert len(re.findall(r"^--- PASS", output, re.MULTILINE)) == TESTS


@pytest.mark.timeout(400)
def test_java() -> None:
    maven = program("mvn")
    program("javac")
    folder = copied("java", CLIENTS)
    run([maven, "-q", "-B", "test"], folder)
    (report,) = (folder / "target" / "surefire-reports").glob("*.xml")
    assert f'tests="{TESTS}" errors="0" skipped="0" failures="0"' in report.read_text()


@pytest.mark.timeout(400)
def test_node() -> None:
    node = program("node")
    if int(run([node, "--version"], CLIENTS)[1:].partition(".")[0]) < 18:
        pytest.skip("Node.js has a test runner since 18")
    output = run([node, "--test"], copied("node", CLIENTS))
    assert re.search(rf"^\W*pass {TESTS}$", output, re.MULTILINE), output

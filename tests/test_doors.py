"""The three doors of the documentation: every page is behind one, and the commands of each do as they say."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer

from tests.waiting import until

pytestmark = pytest.mark.second_stage("real clients in separate runs of pytest")

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_every_page_is_in_the_contents() -> None:
    index = (DOCS / "index.md").read_text()
    contents = set(re.findall(r"^([a-z_/-]+)$", "\n".join(re.findall(r"```\{toctree\}(.*?)```", index, re.S)), re.M))
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    # The contents of the semantics name each chapter by a pattern.
    assert ":glob:\n\n[0-9]*\n" in (DOCS / "semantics" / "index.md").read_text()
    chapters = {page for page in pages if re.match(r"semantics/[0-9]", page)}
    assert contents == pages - chapters - {"index"}


def test_the_tests_of_the_first_door_pass(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "start-testing.md").read_text(), re.S)
    assert len(blocks) == 3
    (tmp_path / "test_orders.py").write_text("\n\n".join(blocks))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


class Reader:
    """Reader that types the commands of a page in an empty folder. A server runs until the next one starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.addresses: dict[str, str] = {}
        self.running: list[subprocess.Popen[str]] = []

    def types(self, line: str) -> str:
        """Return the output of a command, or the first line of a server."""
        program, *words = shlex.split(line)
        if words[0] == "serve":
            self.close()
            words = [re.sub(r":(9092|8092)$", ":0", word) for word in words] + ["--listen", "127.0.0.1:0"]
            if "--control" not in words:
                words += ["--control", "127.0.0.1:0"]
            ready = self._start([sys.executable, "-m", "kafka_shim", *words]).stdout.readline()
            kafka, control = re.fullmatch(r"ready kafka=(\S+) control=http://(\S+)\n", ready).groups()
            self.addresses = {
                "localhost:9092": kafka,
                "127.0.0.1:9092": kafka,
                "http://127.0.0.1:8092": f"http://{control}",
            }
            return ready
        if program == "python":
            script = self.folder / words[0]
            script.write_text(self.here(script.read_text()))
            self._start([sys.executable, *words])
            return ""
        control = ["--control", self.addresses["http://127.0.0.1:8092"]] if words[0] == "faults" else []
        command = [sys.executable, "-m", "kafka_shim", *(self.here(word) for word in words), *control]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, stdin=subprocess.DEVNULL)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done.stdout

    def here(self, text: str) -> str:
        """Return the text with the addresses of this run."""
        for printed, own in self.addresses.items():
            text = text.replace(printed, own)
        return text

    def close(self) -> None:
        """End all processes."""
        for process in reversed(self.running):
            process.kill()
            process.wait()
            process.stdout.close()
        self.running.clear()

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        started = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.running.append(started)
        return started


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.close()


def typed(page: str) -> list[str]:
    """Return the commands of a page without those that install."""
    return re.findall(r"^ {4}((?:kafka-shim|python) .*)$", (DOCS / page).read_text(), re.M)


def consume_and_leave(bootstrap: str) -> None:
    """Consume as a client under construction does."""
    consumer = KafkaConsumer("orders", group_id="mine", client_id="my-client", bootstrap_servers=bootstrap)
    # When a poll ends within a join, kafka-python may ignore every later one.
    consumer.partitions_for_topic("orders")
    until(lambda: (consumer.poll(1000), consumer.assignment())[1])
    consumer.close()


def test_the_second_door_shows_faults_and_the_bytes_of_a_client(reader: Reader) -> None:
    output_of = {}
    for line in typed("start-building.md"):
        if line.startswith("kafka-shim trace show"):
            consume_and_leave(reader.addresses["127.0.0.1:9092"])
        output_of[line.partition(" --")[0], len(output_of)] = reader.types(line)
    outputs = list(output_of.values())
    assert "9 cases, 42 cells" in outputs[0]
    (failed, again) = (output for output in outputs if "INCONSISTENT_GROUP_PROTOCOL (23), Kafka answers" in output)
    assert "42 not as expected" in failed
    assert "kafka-shim conformance --target" in failed
    assert "1 not as expected" in again
    (evidence,) = (reader.folder / "evidence").iterdir()
    assert "must hold: " in evidence.read_text()
    assert "Apache Kafka" in evidence.read_text()
    assert any("assignments[1].assignment" in output for output in outputs)
    story = next(output for (command, _), output in output_of.items() if command == "kafka-shim trace show trace.jsonl")
    assert "my-client joins" in story
    assert "window.FRAMES" in (reader.folder / "run.html").read_text()


def test_the_third_door_watches_and_explains_two_real_consumers(reader: Reader) -> None:
    page = (DOCS / "start-understanding.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.S)
    lines = typed("start-understanding.md")
    # tests/test_cli.py runs it.
    lines.remove("kafka-shim demo")
    outputs = []

    def members() -> int:
        with urllib.request.urlopen(f"{reader.addresses['http://127.0.0.1:8092']}/v1/groups") as answer:
            groups = json.load(answer)["groups"]
        return sum(group["members"] for group in groups if group["state"] == "Stable")

    (reader.folder / "consumer.py").write_text(program)
    for line in lines:
        outputs.append(reader.types(line))
        if line.startswith("python consumer.py"):
            until(lambda line=line: members() == int(line.endswith("two")) + 1)
    assert "JoinGroup v9 -> error 79" in outputs[0]
    assert "NEW_MEMBER: two (127.0.0.1) is new" in outputs[-1]
    # A consumer may join once more just then: `why` has that rebalance after its end.
    until(lambda: "waiting for members" in reader.types(lines[-1]))


def test_the_site_sends_no_request_to_another_host() -> None:
    conf = (DOCS / "conf.py").read_text()
    assert re.findall(r"extensions = (\[.*\])", conf)[0] == '["myst_parser", "sphinx_design"]'

"""Hostile names of clients in all output for people: characters that a terminal obeys show as escapes."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import httpx
import pytest
from click.testing import CliRunner

from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_shim.apis.wire import Message
from kafka_shim.cli import cli
from kafka_shim.persistence.batch import Record, write_batch
from tests.hostile.serving import Peer
from tests.sources.offsets_topic.segments import Partition
from tests.waiting import PATIENCE_S, until

HOSTILE = "\x1b[31m\x1b]52;c;aGk=\x07\r\nFAKE LINE\x9b2J\x7f\u202e\u2028\u2066[red]x[/red]"
GROUP = f"group{HOSTILE}"

# No line of a lesson has line feeds in it, and its texts of TOML have no control characters but as escapes.
HOSTILE_LESSON = """+++
title = "title QUOTED"
minutes = 1
sources = ["source QUOTED"]
[scene]
topics = { orders = 2 }
+++
intro NAME

## step NAME

before NAME

```toml
ask = "ask QUOTED"
do = ["A joins", "wait 5"]

[[options]]
text = "option QUOTED"
when = { state = "Stable" }
```

after NAME
"""
ONE_LINE = HOSTILE.replace("\r\n", " ")
HOSTILE_LOG = """\
[2026-11-27 09:26:06,123] INFO [GroupCoordinator 0]: Member NAME in group billingNAME has failed, removing it from the \
group (kafka.coordinator.group.GroupCoordinator)
[2026-11-27 09:26:06,124] INFO [GroupCoordinator 0]: Preparing to rebalance group billingNAME in state \
PreparingRebalance with old generation 4 (__consumer_offsets-7) (reason: removing member NAME on heartbeat expiration) \
(kafka.coordinator.group.GroupCoordinator)
[2026-11-27 09:26:06,125] INFO [GroupCoordinator 0]: A new line about billingNAME \
(kafka.coordinator.group.GroupCoordinator)
"""
HOSTILE_LESSON = HOSTILE_LESSON.replace("QUOTED", json.dumps(ONE_LINE)[1:-1]).replace("NAME", ONE_LINE)


class Served(NamedTuple):
    """A server with hostile clients, while it runs and after its end."""

    control: str
    journal: Path
    trace: Path
    log: Path
    commands: dict[str, str]
    """The output of each command that asks the running server."""
    story: str


def commands_of(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """Every command below a group of commands, by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands_of(command, *path, name)
        else:
            yield (*path, name)


def output_of(*arguments: str) -> str:
    """Return the output of a command, of both streams."""
    result = CliRunner().invoke(cli, [*arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.output


OF_A_SERVER = {
    "groups list": (),
    "groups describe": (GROUP,),
    "groups lag": (GROUP,),
    "groups create": (f"more{HOSTILE}",),
    "groups delete": (f"more{HOSTILE}",),
    "groups rewind": (GROUP, "orders:0=1", "--wait", "0"),
    "puppets start": (f"puppets{HOSTILE}", "orders"),
    "puppets list": (),
    "topics list": (),
    "topics create": ("another",),
    "topics describe": ("orders",),
    "produce": ("orders", HOSTILE),
    "consume": ("orders",),
    "topics delete": ("another",),
    "faults add": ("delay", "seconds=1", f"group={GROUP}"),
    "faults list": (),
    "faults clear": (),
    "why": (GROUP, "--no-replay"),
    "trace show": (),
    "trace summary": (),
}
OF_A_TRACE = {
    "why": (GROUP, "TRACE", "--no-replay"),
    "trace show": ("TRACE",),
    "trace summary": ("TRACE",),
    "trace from-log": ("LOG", "--out", "FROM_LOG"),
    "trace from-offsets": ("SEGMENTS", "--group", GROUP, "--out", "FROM_LOG"),
    "trace compare": ("TRACE", "TRACE", "--group", GROUP),
    "trace export": ("TRACE", "--group", GROUP, "--mermaid"),
    "replay": ("JOURNAL",),
    "offsets import": ("TRACE", "--store", "sqlite:STORE"),
    "learn": ("LESSON", "--unattended"),
    "assign": ("--topic", f"{HOSTILE}:3"),
}
# `groups watch` and `trace follow` do not end by themselves: they show the same lines as the others. The rest
# shows no text of clients.
OTHERS = {
    "groups watch", "trace follow", "trace record", "serve", "demo", "designs", "offsets export",
    "certificates", "clock", "brokers list", "brokers stop", "brokers kill", "brokers restart", "puppets do",
}  # fmt: skip


def talk(port: int) -> None:
    """A member with hostile names joins, commits and leaves, and another one takes its place."""

    def ask(request: Message, version: int) -> Message:
        with Peer(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)) as peer:
            return peer.ask(request, version)

    batch = write_batch([Record(0, 0, HOSTILE.encode(), HOSTILE.encode(), ((HOSTILE, None),))])
    partitions = [PartitionProduceData(0, batch)]
    ask(ProduceRequest(None, -1, 10_000, [TopicProduceData("orders", bytes(16), partitions)]), 9)
    protocol = JoinGroupRequestProtocol("range", b"")
    ask(JoinGroupRequest("[red]y[/red]", 10_000, 10_000, "", "instance", "consumer", [protocol]), 8)
    for number in range(2):
        protocols = [JoinGroupRequestProtocol(f"protocol{HOSTILE}", b"")]
        join = JoinGroupRequest(
            GROUP, 10_000, 10_000, "", f"instance{number}{HOSTILE}", "consumer", protocols, f"reason{HOSTILE}"
        )
        joined = ask(join, 8)
        assert joined.error_code == 0, joined
        member, generation = joined.member_id, joined.generation_id
        assignment = b"\0\0" + (1).to_bytes(4) + len(HOSTILE.encode()).to_bytes(2) + HOSTILE.encode() + (0).to_bytes(4)
        assignments = [SyncGroupRequestAssignment(member, assignment + (0).to_bytes(4))]
        sync = SyncGroupRequest(
            GROUP, generation, member, f"instance{number}{HOSTILE}", "consumer", f"protocol{HOSTILE}", assignments
        )
        assert ask(sync, 5).error_code == 0
        topics = [
            OffsetCommitRequestTopic("orders", None, [OffsetCommitRequestPartition(0, 1, committed_metadata=HOSTILE)])
        ]
        ask(OffsetCommitRequest(GROUP, generation, member, f"instance{number}{HOSTILE}", topics=topics), 8)
        ask(OffsetCommitRequest(GROUP, generation + 9, member, f"instance{number}{HOSTILE}", topics=topics), 8)
        if number == 0:
            leaver = MemberIdentity(member, f"instance{number}{HOSTILE}", f"left{HOSTILE}")
            assert ask(LeaveGroupRequest(GROUP, members=[leaver]), 5).error_code == 0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hostile")
    trace, journal, log = folder / "trace.jsonl", folder / "journal.jsonl", folder / "server.log"
    command = [
        sys.executable,
        "-m",
        "kafka_shim",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--control",
        "127.0.0.1:0",
        "--lab",
    ]
    options = ["--store", "memory:", "--topic", "orders:2", "--trace", str(trace), "--journal", str(journal)]
    config = ["--config", "group.initial.rebalance.delay.ms=0"]
    with log.open("w") as errors:
        process = subprocess.Popen([*command, *options, *config], stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("ready "), log.read_text()
        _, kafka, control = (word.rpartition("=")[2] for word in ready.split())
        talk(int(kafka.rpartition(":")[2]))
        until(lambda: "FAKE LINE" in log.read_text())
        commands = {
            name: output_of(*name.split(), *arguments, "--control", control) for name, arguments in OF_A_SERVER.items()
        }
        story = httpx.get(f"{control}/v1/events?since=0&seconds=0&form=story").text
        process.terminate()
        assert process.wait(PATIENCE_S) == 0, log.read_text()
        yield Served(control, journal, trace, log, commands, story)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def check(text: str) -> None:
    """Check that a text has no character that a terminal obeys, except line feeds."""
    raw = {character for character in text if not character.isprintable()} - {"\n"}
    assert not raw, text
    assert not any(line.lstrip().startswith("FAKE LINE") for line in text.split("\n")), text


def test_every_command_is_walked() -> None:
    ours = {" ".join(path) for path in commands_of(cli) if path[0] not in ("conformance", "pipeline")}
    assert ours == OF_A_SERVER.keys() | OF_A_TRACE.keys() | OTHERS


@pytest.mark.parametrize("name", OF_A_SERVER)
def test_a_command_that_asks_a_server_shows_escapes(served: Served, name: str) -> None:
    text = served.commands[name]
    check(text)
    # A server with a journal rewinds no group.
    if not name.startswith(("topics", "produce")) and name not in ("groups rewind", "groups lag"):
        assert "\\x1b[31m" in text, text


@pytest.mark.parametrize("name", OF_A_TRACE)
def test_a_command_that_reads_a_file_shows_escapes(served: Served, name: str, tmp_path: Path) -> None:
    lesson = tmp_path / "lesson.toml"
    lesson.write_text(HOSTILE_LESSON)
    log = tmp_path / "server.log"
    log.write_text(HOSTILE_LOG.replace("NAME", ONE_LINE))
    partition = Partition(GROUP)
    partition.generation(1, {f"app{HOSTILE}-1": {f"orders{HOSTILE}": [0]}})
    places = {
        "SEGMENTS": str(partition.write(tmp_path)),
        "LOG": str(log),
        "FROM_LOG": str(tmp_path / "from-log.jsonl"),
        "TRACE": str(served.trace),
        "JOURNAL": str(served.journal),
        "LESSON": str(lesson),
        "sqlite:STORE": f"sqlite:{tmp_path / 'store.db'}",
    }
    text = output_of(*name.split(), *(places.get(argument, argument) for argument in OF_A_TRACE[name]))
    check(text)
    if name not in ("offsets import", "trace compare", "trace from-offsets"):
        assert "\\x1b[31m" in text, text
    if name in ("trace show", "replay", "trace summary"):
        assert "[red]y[/red]" in text, text


def test_a_served_replay_shows_escapes(served: Served) -> None:
    command = [sys.executable, "-m", "kafka_shim", "replay", str(served.journal), "--serve", "127.0.0.1:0"]
    with subprocess.Popen([*command, "--control", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        lines = []
        while not lines or not lines[-1].startswith("ready "):
            lines.append(run.stdout.readline())
            assert lines[-1], lines
        run.terminate()
    text = "".join(lines)
    check(text)
    assert "no puppet for instance1\\x1b[31m" in text, text


def test_names_of_records_are_shown_with_escapes(tmp_path: Path) -> None:
    partition = Partition(GROUP)
    partition.generation(1, {f"app{HOSTILE}-1": {f"orders{HOSTILE}": [0]}})
    partition.generation(2, {f"app{HOSTILE}-2": {f"orders{HOSTILE}": [0]}})
    place = partition.write(tmp_path)
    for command in (("why", GROUP), ("why", "absent"), ("why",)):
        check(output_of(*command, "--offsets", str(place)))


def test_names_of_a_log_are_shown_with_escapes(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(HOSTILE_LOG.replace("NAME", ONE_LINE))
    for text in (output_of("why", "--log", str(log)), output_of("why", f"billing{ONE_LINE}", "--log", str(log))):
        check(text)
        assert "\\x1b[31m" in text, text


def test_a_name_forges_no_event_of_the_story(served: Served) -> None:
    check(served.story)
    lines = [line for line in served.story.split("\n") if line]
    assert all(line.startswith(("id: ", "data: ", ": ")) for line in lines)


def test_a_name_forges_no_line_of_the_log(served: Served) -> None:
    text = served.log.read_text()
    check(text)
    assert "FAKE LINE" in text


def test_json_has_the_names_as_they_are(served: Served) -> None:
    rows = json.loads(output_of("trace", "summary", str(served.trace), "--json"))
    assert GROUP in [row["group"] for row in rows]
    explanation = json.loads(output_of("why", GROUP, str(served.trace), "--no-replay", "--json"))
    assert explanation["group"] == GROUP

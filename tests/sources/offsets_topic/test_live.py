"""`__consumer_offsets` of a running cluster, over a socket: groups of each kind, and a cluster that cannot be read."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.cli import cli
from kafka_shim.sources.offsets_topic.cluster import Cluster
from kafka_shim.sources.offsets_topic.connection import Connection
from kafka_shim.sources.offsets_topic.content import Content
from kafka_shim.sources.offsets_topic.settings import Security
from kafka_shim.sources.offsets_topic.story import TopicStory
from kafka_shim.testing import CoordinatorServer
from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.schema import problems


def address_of(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


@pytest.fixture
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(
        topics={"orders": 4}, brokers=2, config={"group.initial.rebalance.delay.ms": "0"}
    ) as started:
        # The log of a partition begins with its first reader.
        for bootstrap in started.bootstrap.split(","):
            connection = Connection(*address_of(bootstrap), Security())
            connection.ask(FindCoordinatorRequest(key="billing"), FindCoordinatorResponse, 0)
            connection.close()
        read(started, "billing")
        yield started


def read(server: CoordinatorServer, group: str) -> tuple[list[dict[str, Any]], GroupHistory]:
    cluster = Cluster([address_of(server.bootstrap.split(",")[0])], Security())
    partition = cluster.partition_of(group)
    first, end = cluster.bounds(partition)
    entries = Content(partition, group).entries(cluster.batches(partition, first, end))
    events = list(TopicStory(cluster.topic_names()).events(entries))
    cluster.close()
    history = GroupHistory(group)
    for seq, event in enumerate(events, 1):
        assert problems(event | {"seq": seq}) == []
        if event["event"] != "trace":
            history.add(event | {"seq": seq})
    return events, history


def run(*arguments: object) -> Any:
    return CliRunner().invoke(cli, list(map(str, arguments)))


def test_a_classic_group_shows_who_came_and_went(server: CoordinatorServer) -> None:
    one = server.puppet("billing", ["orders"], client_id="app-1")
    server.group("billing").stable(members=1)
    two = server.puppet("billing", ["orders"], client_id="app-2")
    server.group("billing").stable(members=2)
    gone = two.member_id
    two.leave()
    server.group("billing").stable(members=1)
    _, history = read(server, "billing")
    assert [(each.cause, each.trigger) for each in history.rebalances] == [
        ("NEW_MEMBER", one.member_id),
        ("NEW_MEMBER", gone),
        ("MEMBER_GONE", gone),
    ]
    assert (list(history.present), history.members[gone].client_id) == ([one.member_id], "app-2")
    assert set(history.owners.values()) == {one.member_id}
    answer = run("why", "billing", "--kafka", server.bootstrap)
    assert answer.exit_code == 0
    assert "generation 2 -> 3, over at " in answer.stdout
    assert "MEMBER_GONE: app-2 (127.0.0.1) left or was expelled" in answer.stdout
    assert "Cannot tell from this source: whether app-2 left" in answer.stdout.replace("\n", " ")
    assert " records of __consumer_offsets-" in answer.stderr
    assert json.loads(run("why", "billing", "--kafka", server.bootstrap, "--json").stdout)["calm"] is None


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_group_with_epochs_shows_each_step(server: CoordinatorServer, kind: str) -> None:
    start = getattr(server, f"{kind}_puppet")
    one = start("billing", ["orders"], client_id="app-1")
    server.group("billing").stable(members=1)
    two = start("billing", ["orders"], client_id="app-2")
    server.group("billing").stable(members=2)
    gone = two.member_id
    two.leave()
    server.group("billing").stable(members=1)
    events, history = read(server, "billing")
    causes = [(each.cause, each.trigger) for each in history.rebalances]
    # A share group begins a second epoch when its partitions have a state.
    initialised = [("TOPIC_METADATA_CHANGED", "")] * (kind == "share")
    first, *others = [("NEW_MEMBER", one.member_id), ("NEW_MEMBER", gone), ("MEMBER_GONE", gone)]
    assert causes == [first, *initialised, *others]
    assert history.kind == kind
    assert (list(history.present), history.members[gone].how) == ([one.member_id], "gone")
    assert [each["to"] for each in events if each["event"] == "state"] == ["Assigning", "Stable"] * len(causes)
    assert history.epochs is not None
    assigned = history.epochs.has(one.member_id).assigned
    # Of a share group more than one member may have a partition, and a streams group has tasks.
    assert {number for _, number in assigned} == {0, 1, 2, 3}
    assert kind == "streams" or {topic for topic, _ in assigned} == {"orders"}
    assert all(each.over is not None and not each.is_snapshot for each in history.rebalances)


def test_a_group_that_goes_on_is_followed(server: CoordinatorServer) -> None:
    server.puppet("billing", ["orders"], client_id="app-1")
    server.group("billing").stable(members=1)
    cluster = Cluster([address_of(server.bootstrap.split(",")[0])], Security())
    partition = cluster.partition_of("billing")
    first, end = cluster.bounds(partition)
    content, story = Content(partition, "billing"), TopicStory({})
    begun = list(story.events(content.entries(cluster.batches(partition, first, end))))
    assert [each["generation"] for each in begun if each["event"] == "round"] == [1]
    timer = threading.Timer(0.0, lambda: server.puppet("billing", ["orders"], client_id="app-2"))
    timer.start()
    following = story.events(content.entries(cluster.batches(partition, end, None)))
    assert next(each for each in following if each["event"] == "round")["generation"] == 2
    timer.join()
    cluster.close()


def test_the_command_follows_until_ctrl_c(server: CoordinatorServer) -> None:
    server.puppet("billing", ["orders"], client_id="app-1")
    server.group("billing").stable(members=1)
    command = [sys.executable, "-m", "kafka_shim", "why", "billing", "--kafka", server.bootstrap, "--follow"]
    # A shell lets the children of its background jobs ignore interrupts.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed) as following:
        assert following.stderr is not None
        assert following.stdout is not None
        assert next(line for line in following.stderr if line.startswith("Following __consumer_offsets-"))
        server.puppet("billing", ["orders"], client_id="app-2")
        assert next(line for line in following.stdout if "NEW_MEMBER: app-2 (127.0.0.1) is new" in line)
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 0


def test_all_groups_are_listed_and_written_as_a_trace(server: CoordinatorServer, tmp_path: Path) -> None:
    for group in ("billing", "mail"):
        server.puppet(group, ["orders"], client_id=f"{group}-1")
        server.group(group).stable(members=1)
        # The log of each partition begins at its first reader.
        read(server, group)
        server.puppet(group, ["orders"], client_id=f"{group}-2")
        server.group(group).stable(members=2)
    listed = json.loads(run("why", "--kafka", server.bootstrap, "--json").stdout)
    assert {each["group"]: each["calm"] for each in listed} == {"billing": None, "mail": None}
    trace = tmp_path / "trace.jsonl"
    written = run("trace", "from-offsets", "--kafka", server.bootstrap, "--out", trace)
    assert (written.exit_code, written.stdout) == (0, "")
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [each["seq"] for each in events] == list(range(1, len(events) + 1))
    assert events[0]["event"] == "trace"
    walls = [each["wall"] for each in events[1:]]
    assert walls == sorted(walls)
    shown = run("trace", "show", trace).stdout
    assert "mail-2 joins from 127.0.0.1" in shown
    assert "generation 2 is stable; assignments:" in shown


def test_a_group_that_is_not_there_has_its_own_exit_code(server: CoordinatorServer) -> None:
    absent = run("why", "nobody", "--kafka", server.bootstrap)
    assert absent.exit_code == 3
    assert absent.stderr.startswith("kafka-shim: There is no group nobody in __consumer_offsets-")
    server.seed_offsets("batch", {("orders", 0): 5})
    alone = run("why", "batch", "--kafka", server.bootstrap)
    assert alone.exit_code == 4
    assert "batch has committed offsets in __consumer_offsets-" in alone.stderr
    assert "but no record of members" in alone.stderr


def test_a_wrong_address_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    refused = run("why", "billing", "--kafka", f"127.0.0.1:{port}")
    assert (refused.exit_code, refused.stdout) == (5, "")
    assert refused.stderr == f"Error: Nothing listens at 127.0.0.1:{port}: is it the address of a broker?\n"
    nowhere = run("why", "billing", "--kafka", "host.invalid:9092")
    assert nowhere.stderr == "Error: There is no host host.invalid: name a broker as HOST:PORT.\n"


def test_a_cluster_without_the_topic_is_one_sentence() -> None:
    with CoordinatorServer() as empty:
        answer = run("why", "billing", "--kafka", empty.bootstrap)
    assert answer.exit_code == 5
    assert answer.stderr == "Error: The cluster has no __consumer_offsets: no group has used it yet.\n"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--follow"], "--follow needs a GROUP and --kafka"),
        (["--command-config", "x"], "--command-config is for --kafka."),
        (["--kafka", "a:1", "--offsets", "b"], "Read a cluster with --kafka, or its files with --offsets, not both."),
        (["--kafka", "a"], "is not of the form HOST:PORT"),
        (["--offsets", "nowhere"], "There is no nowhere."),
    ],
)
def test_options_that_do_not_fit_are_refused(options: list[str], sentence: str) -> None:
    answer = run("why", "billing", *options)
    assert answer.exit_code in (2, 5)
    assert sentence in answer.stderr

"""Versions in logs: of the broker and of clients; the known faults that `why` names by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_shim.cli import cli
from tests.sources.broker_lines import Broker, uuid
from tests.sources.test_clients import M, java, joined, rd

STARTED = "[2026-11-27 09:26:01,000] INFO Kafka version: {} (org.apache.kafka.common.utils.AppInfoParser)\n"
POLL = "Application maximum poll interval (300000ms) exceeded by 88ms (adjust max.poll.interval.ms)"


def answer(group: str, *files: Path) -> dict[str, Any]:
    options = [option for file in files for option in ("--log", str(file))]
    done = CliRunner().invoke(cli, ["why", group, *options, "--json", "--no-replay"])
    assert done.exit_code == 0, done.output
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def thrown_out(release: str) -> bytes:
    """A group with rebalances of 2 ms, as with JoinGroup 0 and Kafka 2.3.0."""
    broker = Broker(release)
    broker.preparing(0.0, 0, f"Adding new member app-0-{uuid(0)} with group instanceid None")
    broker.stabilized(3.0, 1, 1)
    for number in range(1, 6):
        joins = f"Adding new member app-{number}-{uuid(number)} with group instanceid None"
        broker.preparing(5.0 * number, number, joins)
        broker.stabilized(5.0 * number + 0.002, number + 1, 1)
    return broker.text


@pytest.mark.parametrize(("version", "expected"), [("2.3.0", "2.3.1 or later"), ("2.3.1", ""), ("", "if it is older")])
def test_a_broker_that_throws_out_its_members_needs_an_upgrade(tmp_path: Path, version: str, expected: str) -> None:
    log = tmp_path / "server.log"
    log.write_bytes((STARTED.format(version).encode() if version else b"") + thrown_out("2.3"))
    remedies = [each for each in answer("billing", log)["remedies"] if each["setting"] == "the version"]
    assert [expected in each["proposed"] for each in remedies] == ([True] if expected else [])
    if remedies:
        assert remedies[0]["sources"] == ["https://issues.apache.org/jira/browse/KAFKA-8653"]


def test_the_start_of_a_broker_is_in_a_rotated_file(tmp_path: Path) -> None:
    (tmp_path / "server.log.2026-11-27-08").write_text(STARTED.format("2.3.0"))
    (tmp_path / "server.log").write_bytes(thrown_out("2.3"))
    remedy = answer("billing", tmp_path)["remedies"][0]
    assert (remedy["who"], remedy["seen"]) == ("broker", "Kafka broker 2.3.0")


def test_a_client_beside_a_broker_in_one_file_hides_the_broker_s_version(tmp_path: Path) -> None:
    client = java(20, joined(1, M)).replace("groupId=g", "groupId=other")
    (tmp_path / "all.log").write_bytes(STARTED.format("2.3.0").encode() + thrown_out("2.3") + client.encode())
    remedy = answer("billing", tmp_path / "all.log")["remedies"][0]
    assert remedy["seen"] == "Kafka broker of unknown version"


@pytest.mark.parametrize(("version", "first"), [("1.0.1", "the version"), ("1.1.0", "max.poll.interval.ms")])
def test_an_old_librdkafka_is_upgraded_before_it_is_tuned(tmp_path: Path, version: str, first: str) -> None:
    started = rd(1, f"librdkafka v{version} (0x10001ff) c#consumer-1 initialized (debug 0x100)")
    (tmp_path / "app.log").write_text(f"{started}\n{rd(30, POLL)}\n")
    found = answer("g", tmp_path / "app.log")
    assert next(each["setting"] for each in found["remedies"]) == first
    assert "max.poll.interval.ms" in [each["setting"] for each in found["remedies"]]


@pytest.mark.parametrize(("version", "is_named"), [("1.4.6", True), ("1.4.7", False), ("2.0.2", False)])
def test_a_default_client_id_names_library_and_version(tmp_path: Path, version: str, is_named: bool) -> None:
    broker = Broker("2.8")
    one, two = f"kafka-python-{version}-{uuid(1)}", f"app-{uuid(2)}"
    broker.preparing(0.0, 0, f"Adding new member {one} with group instance id None")
    broker.stabilized(3.0, 1, 2)
    broker.assigned(3.1, 1, two, 2)
    broker.expired(40.0, one)
    broker.preparing(40.001, 1, f"removing member {one} on heartbeat expiration")
    broker.stabilized(41.0, 2, 1)
    broker.assigned(41.1, 2, two, 1)
    (tmp_path / "server.log").write_bytes(broker.text)
    why = [each["why"] for each in answer("billing", tmp_path / "server.log")["remedies"] if each["sources"]]
    assert any("kafka-python#1787" in each for each in why) is is_named

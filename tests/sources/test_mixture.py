"""Logs of brokers and clients together: reasons of departures, refused requests, clocks, limits."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_shim.cli import cli
from kafka_shim.commands.logs import Logs
from kafka_shim.trace.schema import problems
from tests.sources.judge import BROKER, CLIENTS, SOURCES, TOGETHER, logs_of
from tests.sources.recordings import Recording, recorded

RECORDINGS = {f"{each.release}/{each.name}": each for each in recorded()}
MISSED_POLL = RECORDINGS["4.4/poll-interval-exceeded-confluent-kafka-2.16"]
KOLKATA = RECORDINGS["3.9/poll-interval-exceeded-java-3.9.2"]
STAMPLESS = RECORDINGS["3.9/poll-interval-exceeded-kafka-python-3.0-stampless"]
REFUSED = RECORDINGS["4.4/other-assignor-java-4.4.0"]
QUIET = RECORDINGS["4.4/killed-and-restarted-at-once-confluent-kafka-2.16"]


def events_of(recording: Recording, source: str) -> list[dict[str, Any]]:
    return list(Logs([str(each) for each in logs_of(recording, source)], UTC, recording.group).events())


def why(recording: Recording, source: str) -> tuple[dict[str, Any], str]:
    options = [option for each in logs_of(recording, source) for option in ("--log", str(each))]
    done = CliRunner().invoke(cli, ["why", recording.group, *options, "--json", "--no-replay"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("recording", [MISSED_POLL, KOLKATA, REFUSED], ids=lambda each: each.name)
def test_events_are_of_the_schema_and_in_order(recording: Recording, source: str) -> None:
    events = events_of(recording, source)
    assert [problem for event in events for problem in problems(event)] == []
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["wall"] for event in events] == sorted(event["wall"] for event in events)
    assert all(event["where"] for event in events)


@pytest.mark.parametrize("recording", [MISSED_POLL, STAMPLESS], ids=lambda each: each.name)
def test_a_client_gives_the_reason_that_the_broker_lacks(recording: Recording) -> None:
    def reasons(source: str) -> set[str]:
        changes = [each for each in events_of(recording, source) if each["event"] == "member"]
        return {each.get("reason", "") for each in changes if each["change"] == "left"}

    assert reasons(BROKER) == {""}
    assert "consumer poll timeout has expired." in reasons(TOGETHER)


def test_lines_of_another_zone_are_moved_and_that_is_said() -> None:
    answer, errors = why(KOLKATA, TOGETHER)
    assert "The clock of report-2.log.gz is 5:30 h ahead of the broker's" in errors
    alone, _ = why(KOLKATA, BROKER)
    assert [each["generation"] for each in answer["rebalances"]] == [each["generation"] for each in alone["rebalances"]]


def test_a_refused_client_shows_beside_the_broker() -> None:
    answer, _ = why(REFUSED, TOGETHER)
    assert answer["findings"][0]["code"] == "JOIN_REFUSED"
    assert answer["findings"][0]["client"] == "odd"
    alone, _ = why(REFUSED, BROKER)
    assert [each for each in alone["cannot_tell"] if "refused" in each] != []


def test_the_library_of_the_log_spells_the_setting() -> None:
    answer, _ = why(RECORDINGS["4.4/poll-interval-exceeded-aiokafka-0.14"], TOGETHER)
    assert answer["remedies"][0]["setting"] == "max_poll_interval_ms"


def test_logs_of_clients_that_say_nothing_are_no_calm_group() -> None:
    options = [option for each in logs_of(QUIET, CLIENTS) for option in ("--log", str(each))]
    done = CliRunner().invoke(cli, ["why", QUIET.group, *options])
    assert done.exit_code == 3
    assert "It does not say that no group rebalanced." in done.stderr

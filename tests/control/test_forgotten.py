"""`why` on a server that has forgotten its oldest events: it says so, and calls nothing calm that it did not see."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from click.testing import CliRunner, Result

from kafka_shim.cli import cli
from kafka_shim.control.operations import groups
from kafka_shim.testing import CoordinatorServer

ALL_REBALANCES, SOME_REBALANCES = 4000, 9000
"""Bytes of events that leave no rebalance of three, and some of them."""


@pytest.fixture
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 4}, control=True) as server:
        yield server


def rebalanced(server: CoordinatorServer, times: int = 3) -> None:
    for number in range(times):
        server.puppet("billing", ["orders"], client_id=f"m{number}")
        server.group("billing").stable(members=number + 1)
    # A heartbeat is an event too.
    server.clock.freeze()


def over_http(server: CoordinatorServer) -> dict[str, object]:
    answer: dict[str, object] = httpx.get(f"{server.control_url}/v1/groups/billing/why").json()
    return answer


def by_command(server: CoordinatorServer, *options: str) -> Result:
    return CliRunner().invoke(cli, ["why", "billing", "--control", server.control_url, "--no-replay", *options])


def test_a_group_whose_rebalances_are_forgotten_is_not_said_to_have_had_none(server: CoordinatorServer) -> None:
    server.kit.history.limit(ALL_REBALANCES, 1_000_000)
    rebalanced(server)
    count = server.kit.history.dropped[0]
    answer = over_http(server)
    assert answer["rebalances"] == []
    assert answer["verdict"] == "No rebalance shows."
    assert answer["calm"] is None
    assert answer["advice"] == "nothing that the events here show, but some are missing."
    assert answer["missing"] == [f"the server has forgotten its oldest {count:,} events"]
    told = by_command(server)
    assert told.exit_code == 4
    assert told.stderr == (
        "kafka-shim: No rebalance of billing shows,"
        f" but {server.control_url} has forgotten its oldest {count:,} events.\n"
    )


def test_what_is_forgotten_is_missing_in_the_answer(server: CoordinatorServer) -> None:
    server.kit.history.limit(SOME_REBALANCES, 1_000_000)
    rebalanced(server)
    count = server.kit.history.dropped[0]
    answer = over_http(server)
    assert 0 < len(answer["rebalances"]) < 3  # type: ignore[arg-type]
    assert str(answer["verdict"]).startswith("Rebalanced at least ")
    assert answer["calm"] is None
    assert answer["missing"] == [f"the server has forgotten its oldest {count:,} events"]
    told = by_command(server)
    assert (told.exit_code, told.stderr) == (0, "")
    assert f"Not complete: {server.control_url} has forgotten its oldest {count:,} events." in told.stdout
    as_json = json.loads(by_command(server, "--json").stdout)
    assert as_json["calm"] is None
    assert as_json["missing"] == [f"{server.control_url} has forgotten its oldest {count:,} events"]


def test_an_unknown_group_may_be_a_forgotten_one(server: CoordinatorServer) -> None:
    server.kit.history.limit(ALL_REBALANCES, 1_000_000)
    rebalanced(server)
    told = CliRunner().invoke(cli, ["why", "biling", "--control", server.control_url])
    assert told.exit_code == 3
    assert f"but {server.control_url} has forgotten its oldest" in told.stderr
    assert "Did you mean billing?" in told.stderr


def test_nothing_is_missing_before_the_server_forgets(server: CoordinatorServer) -> None:
    rebalanced(server)
    answer = over_http(server)
    assert str(answer["verdict"]).startswith("Rebalanced 3 times in ")
    assert (answer["calm"], answer["missing"]) == (True, [])


def test_all_rebalances_are_judged_and_the_newest_are_listed(
    server: CoordinatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "LISTED", 2)
    rebalanced(server)
    answer = over_http(server)
    assert str(answer["verdict"]).startswith("Rebalanced 3 times in ")
    assert [each["generation"] for each in answer["rebalances"]] == [2, 3]  # type: ignore[attr-defined]

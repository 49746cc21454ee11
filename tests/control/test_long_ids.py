"""`why` of a group with a long id: the server cuts it in each event, and a command takes the whole one."""

from __future__ import annotations

import httpx
from click.testing import CliRunner

from kafka_shim.cli import cli
from kafka_shim.testing import CoordinatorServer


def test_a_group_with_a_long_id_has_its_rebalances() -> None:
    group = "g" * 5000
    with CoordinatorServer(topics={"orders": 4}, control=True) as server:
        server.puppet(group, ["orders"], client_id="m")
        server.group(group).stable(members=1)
        server.puppet("short", ["orders"], client_id="n")
        server.group("short").stable(members=1)
        answer = httpx.get(f"{server.control_url}/v1/groups/{group}/why").json()
        story = httpx.get(f"{server.control_url}/v1/groups/{group}/story").json()["story"]
        result = CliRunner().invoke(cli, ["why", group, "--control", server.control_url, "--no-replay"])
        names = CliRunner().invoke(cli, ["why", "--control", server.control_url])
    assert [each["cause"] for each in answer["rebalances"]] == ["NEW_MEMBER"]
    assert answer["group"] == group
    assert any("m joins" in line for line in story), story
    assert result.exit_code == 0, result.stderr
    first = result.output.partition("\n")[0]
    assert 199 <= first.count("g") < 210, first
    assert "joining and leaving cost these rebalances" in result.output
    assert "g" * 199 + "…" in names.stderr, names.stderr
    assert len(names.stderr) < 3000

"""Redpanda's lines, made from the formats in its source: no running Redpanda wrote them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_shim.cli import cli
from kafka_shim.sources.layouts import Layouts
from kafka_shim.sources.redpanda import REDPANDA
from tests.sources.broker_lines import BEGIN_MS, uuid
from tests.sources.test_versions import answer

ONE, TWO = f"app-1-{uuid(1)}", f"app-2-{uuid(2)}"
MEMBER = (
    "Added member id={} group=billing group_inst={{nullopt}} proto_type=consumer assignment_len=0"
    " timeouts=10000ms/60000ms protocols={{}} is_new=false joining=true syncing=false"
    " with join timeout 300000 ms to group id=billing"
)


def line(at: float, state: str, generation: int, text: str, level: str = "TRACE") -> str:
    stamp = datetime.fromtimestamp(BEGIN_MS / 1000 + at, UTC)
    clock = f"{stamp:%Y-%m-%d %H:%M:%S},{stamp.microsecond // 1000:03d}"
    return f"{level} {clock} [shard 0:kafk] kafka - group.cc:278 - [N:billing S:{state} G:{generation}] {text}\n"


def life() -> str:
    """Two members start, one dies, and the other leaves."""
    return "".join(
        (
            line(0, "Empty", 0, f"Requesting rejoin for unknown member with new id {ONE}"),
            line(0.01, "Empty", 0, MEMBER.format(ONE)),
            line(0.01, "Empty", 0, "Changing state from Empty to PreparingRebalance"),
            line(1, "PreparingRebalance", 0, MEMBER.format(TWO)),
            line(3, "PreparingRebalance", 1, "Changing state from PreparingRebalance to CompletingRebalance"),
            line(3.1, "CompletingRebalance", 1, "Changing state from CompletingRebalance to Stable"),
            line(90, "Stable", 1, f"Heartbeat expired for keep_alive=true member {TWO}"),
            line(100, "Stable", 1, f"Heartbeat expired for keep_alive=false member {TWO}"),
            line(100, "Stable", 1, f"Removing member {TWO}"),
            line(100, "Stable", 1, "Changing state from Stable to PreparingRebalance"),
            line(101, "PreparingRebalance", 2, "Changing state from PreparingRebalance to CompletingRebalance"),
            line(101.1, "CompletingRebalance", 2, "Changing state from CompletingRebalance to Stable"),
            line(200, "Stable", 2, f"Removing member {ONE}"),
            line(200, "Stable", 2, "Changing state from Stable to PreparingRebalance"),
            line(200.1, "PreparingRebalance", 3, "Changing state from PreparingRebalance to Empty"),
        )
    )


def test_the_life_of_a_group_is_read(tmp_path: Path) -> None:
    (tmp_path / "redpanda.log").write_text(life())
    found: dict[str, Any] = answer("billing", tmp_path / "redpanda.log")
    assert [(each["generation"], each["cause"], each["trigger"]) for each in found["rebalances"]] == [
        (1, "NEW_MEMBER", ONE),
        (2, "SESSION_EXPIRED", TWO),
        (3, "MEMBER_LEFT", ONE),
    ]
    assert [each["code"] for each in found["findings"] if each["trouble"]] == ["SESSION_EXPIRED"]
    assert found["findings"][0]["client"] == "app-2"


def test_levels_above_trace_have_no_rebalance(tmp_path: Path) -> None:
    log = tmp_path / "redpanda.log"
    log.write_text(line(0, "Stable", 1, "Storing committed offset failed - kafka::error_code", "INFO "))
    done = CliRunner().invoke(cli, ["why", "billing", "--log", str(log)])
    assert done.exit_code in (3, 4)
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("text", "sign", "fields"),
    [
        (
            f"Static member with unknown member id and instance id i joins the group, replacing previously mapped {ONE}"
            f" member id with new member_id {TWO}",
            "STATIC_REPLACED",
            {"instance": "i", "new": TWO},
        ),
        (
            f"Static member with unknown member id and instance id i joins the group new member id: {ONE}",
            "STATIC_JOINED",
            {"instance": "i"},
        ),
        (f"Removing unjoined member {ONE}", "NOT_REJOINED", {}),
        (f"Selected new leader {ONE}", "LEADER_ELECTED", {"leader": ONE}),
        ("No members re-joined. Scheduling completion for 60000 ms", "NOBODY_REJOINED", {}),
        ("Changing state from Empty to Dead", "DEAD", {}),
    ],
)
def test_a_line_is_its_sign(text: str, sign: str, fields: dict[str, str]) -> None:
    found = REDPANDA.sign(Layouts().line("redpanda.log", 1, line(0, "Stable", 4, text, "DEBUG").encode()))
    assert found is not None
    assert (found.name, found.group) == (sign, "billing")
    assert {name: found.fields[name] for name in fields} == fields

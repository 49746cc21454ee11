"""The searches of `python -m tests.fuzz` that are commands of their own."""

from __future__ import annotations

import subprocess
import sys

from tests.fuzz.__main__ import commands


def test_runs_of_real_clients_are_replayed_too() -> None:
    assert [sys.executable, "-m", "bench.replaying", "--seconds", "60", "--seed", "7"] in commands(60, 7)


def test_every_command_has_the_options_that_it_is_given() -> None:
    for module in {tuple(command[:3]) for command in commands(60, 7)}:
        options = {word for command in commands(60, 7) if tuple(command[:3]) == module for word in command[3:]}
        described = subprocess.run([*module, "--help"], capture_output=True, text=True, check=True).stdout
        assert {each for each in options if each.startswith("--")} <= set(described.replace(",", " ").split())

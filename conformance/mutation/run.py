"""Runs the suite on copies of our sources with one mutant each, a few side by side.

    python -m kafka_shim.conformance.mutation.run [NAME...]

A mutant is caught if a case or a test of the rule fails. The work tree never changes. Exit code 0: every mutant is
caught; 1: some survive, and are listed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import click

from kafka_shim.conformance.mutation.mutant import Mutant
from kafka_shim.conformance.mutation.mutants import MUTANTS

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("kafka_shim", "apis", "persistence", "shim", "conformance", "pipeline", "tests")
AT_ONCE: Final = 3
"""Mutants that run side by side, each in a copy of its own: most of their time is waits of the cases."""
JOBS: Final = 8


@dataclass(frozen=True)
class Fate:
    """The result of a mutant: the cells or test files that failed; none if it survived."""

    mutant: Mutant
    noticed: tuple[str, ...]


def mutated(source: str, mutant: Mutant) -> str:
    """Return a source with the mutant in it. Raises ValueError unless `before` occurs exactly once."""
    if source.count(mutant.before) != 1:
        raise ValueError(f"{mutant.name}: `before` occurs {source.count(mutant.before)} times in {mutant.file}")
    return source.replace(mutant.before, mutant.after)


def unexpected_cells(folder: Path, patterns: Sequence[str]) -> tuple[str, ...]:
    """Run the suite in a folder; return the unexpected cells."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "kafka_shim.conformance",
        "--target",
        "shim",
        "--jobs",
        str(JOBS),
        "--results",
        str(report),
    ]
    for pattern in patterns:
        command += ["--case", pattern]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if not report.exists():
        raise RuntimeError(f"the suite could not run: {ran.stderr.strip().splitlines()[-1:]}")
    cells = json.loads(report.read_text())["cells"]
    return tuple(f"{each['case']}@{each['version']}" for each in cells if each["surprise"])


def failures(folder: Path, tests: Sequence[str]) -> tuple[str, ...]:
    """Return the first of these test files that fails in a folder."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    for test in tests:
        if subprocess.run([*command, test], cwd=folder, env=environment, capture_output=True).returncode == 1:
            return (test,)
    return ()


def copy(folder: Path) -> None:
    """Copy our present sources to a folder."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))


def fate_of(mutant: Mutant, folder: Path) -> Fate:
    """Run a copy with the mutant: first its own areas, then its tests, then all cases, until one fails."""
    path = folder / mutant.file
    source = path.read_text()
    try:
        path.write_text(mutated(source, mutant))
        noticed = unexpected_cells(folder, mutant.areas) if mutant.areas else ()
        return Fate(mutant, noticed or failures(folder, mutant.tests) or unexpected_cells(folder, ()))
    finally:
        path.write_text(source)


@click.command()
@click.argument("names", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """Run the suite on coordinators with one wrong rule each."""
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    with tempfile.TemporaryDirectory(prefix="conformance-mutant-") as scratch, ThreadPoolExecutor(AT_ONCE) as pool:
        free: SimpleQueue[Path] = SimpleQueue()
        for number in range(min(AT_ONCE, len(chosen))):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            copy(folder)
            free.put(folder)

        def run(mutant: Mutant) -> Fate:
            folder = free.get()
            try:
                return fate_of(mutant, folder)
            finally:
                free.put(folder)

        survivors = 0
        for fate in pool.map(run, chosen):
            seen = (
                f"{len(fate.noticed)} cells or tests failed, such as {fate.noticed[0]}" if fate.noticed else "SURVIVED"
            )
            click.echo(f"{fate.mutant.name}: {seen}")
            survivors += not fate.noticed
    click.echo(f"{len(chosen)} mutants, {len(chosen) - survivors} caught")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()

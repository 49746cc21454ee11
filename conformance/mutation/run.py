"""Runs the suite on a copy of our sources with one mutant at a time.

    python -m kafka_shim.conformance.mutation.run [NAME...]

Decides that a mutant is caught if a case comes out otherwise than on the sources as they are. The work tree is never
changed. Exit code 0: every mutant is caught; 1: some survive, and are named.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from kafka_shim.conformance.mutation.mutant import Mutant
from kafka_shim.conformance.mutation.mutants import MUTANTS

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("kafka_shim", "apis", "persistence", "shim", "conformance", "pipeline", "tests")
JOBS: Final = 12


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: the cells, or test files, that noticed; none if it survived."""

    mutant: Mutant
    noticed: tuple[str, ...]


def mutated(source: str, mutant: Mutant) -> str:
    """A source with the mutant in it. Raises ValueError unless what it changes stands there exactly once."""
    if source.count(mutant.before) != 1:
        raise ValueError(f"{mutant.name}: what it changes stands {source.count(mutant.before)} times in {mutant.file}")
    return source.replace(mutant.before, mutant.after)


def surprises(folder: Path, patterns: Sequence[str]) -> tuple[str, ...]:
    """The cells that are not as expected when the suite runs in a folder."""
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
        "--json",
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
    """The first test file of these that fails in a folder."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    for test in tests:
        if subprocess.run([*command, test], cwd=folder, env=environment, capture_output=True).returncode == 1:
            return (test,)
    return ()


def copy(folder: Path) -> None:
    """Copy our sources to a folder, as they are at this moment."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))


def fate_of(mutant: Mutant, folder: Path) -> Fate:
    """Run the suite on a copy with the mutant in it: its own areas first, then its tests, everything if they do not
    notice."""
    path = folder / mutant.file
    source = path.read_text()
    try:
        path.write_text(mutated(source, mutant))
        noticed = surprises(folder, mutant.areas) if mutant.areas else ()
        return Fate(mutant, noticed or failures(folder, mutant.tests) or surprises(folder, ()))
    finally:
        path.write_text(source)


@click.command()
@click.argument("names", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """Let the suite loose on coordinators with one rule wrong."""
    survivors = []
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    with tempfile.TemporaryDirectory(prefix="conformance-mutant-") as name:
        copy(Path(name))
        for mutant in chosen:
            fate = fate_of(mutant, Path(name))
            seen = f"{len(fate.noticed)} of cells and tests, such as {fate.noticed[0]}" if fate.noticed else "SURVIVED"
            click.echo(f"{mutant.name}: {seen}")
            if not fate.noticed:
                survivors.append(mutant.name)
    click.echo(f"{len(chosen)} mutants, {len(chosen) - len(survivors)} caught")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()

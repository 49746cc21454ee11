"""`kafka-shim conformance matrix`: run every target and every client, and write what came of it.

Each run is a process of its own, so that one that goes wrong takes no other along. Its report is kept, and a run whose
report is there already is not run again: what was broken off is taken up.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from kafka_shim.conformance import processes
from kafka_shim.conformance.clients.catalogue import select_clients
from kafka_shim.conformance.clients.crew import EVERY_CLIENT
from kafka_shim.conformance.matrix.data import TARGETS, matrix_of
from kafka_shim.conformance.matrix.page import page_of
from kafka_shim.conformance.matrix.readme import written


@click.command()
@click.option("--target", "targets", multiple=True, default=TARGETS, show_default=True, help="May be repeated.")
@click.option("--client", default="all", show_default=True, help="The clients to try on ours; `none` for no client.")
@click.option("--reports", type=click.Path(path_type=Path), required=True, help="Folder that keeps each run's report.")
@click.option("--within", type=click.IntRange(min=0), help="Begin no run after this many seconds; say what is left.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the matrix as data.")
@click.option("--html", "html_path", type=click.Path(path_type=Path), help="Write the matrix as one HTML page.")
@click.option(
    "--readme", type=click.Path(exists=True, path_type=Path), help="Make the tables of this README anew, in place."
)
def matrix(
    targets: tuple[str, ...],
    client: str,
    reports: Path,
    within: int | None,
    json_path: Path | None,
    html_path: Path | None,
    readme: Path | None,
) -> None:
    """Run all targets and clients, and compare them on one page. What is in the folder is not run again."""
    begun = time.monotonic()
    reports.mkdir(parents=True, exist_ok=True)
    runs = [(name_of(target), ["--target", target]) for target in targets]
    if client != "none":
        clients = select_clients(EVERY_CLIENT, client)
        if not clients:
            raise click.UsageError(f"no client is called {client}; there are {', '.join(EVERY_CLIENT)}")
        runs += [(f"client-{each.name}", ["--target", "shim", "--client", each.name]) for each in clients]
    missing, left = [], []
    for name, arguments in runs:
        path = reports / f"{name}.json"
        if within is not None and time.monotonic() - begun > within and not path.exists():
            left.append(name)
        elif not report_of(path, arguments):
            missing.append(name)
    if left:
        click.echo(f"left, for the same command again: {', '.join(left)}", err=True)
    if missing:
        click.echo(f"no report came of: {', '.join(missing)}", err=True)
    paths = [path for name, _ in runs if (path := reports / f"{name}.json").exists()]
    made = matrix_of([(json.loads(path.read_text()), date_of(path)) for path in paths], today(), commit())
    write(made, json_path, html_path, readme)
    if missing or left:
        sys.exit(2)


def report_of(path: Path, arguments: list[str]) -> bool:
    """Have the report of a run, running it unless it is there; whether there is one now."""
    if not path.exists():
        command = [sys.executable, "-m", "kafka_shim.conformance", *arguments, "--json", str(path)]
        click.echo(" ".join(["kafka-shim", "conformance", *arguments]))
        processes.start(command, stdout=None, last_signal=signal.SIGTERM).wait()
    return path.exists()


def write(made: dict[str, Any], json_path: Path | None, html_path: Path | None, readme: Path | None) -> None:
    """Write the chosen forms of the matrix, each from the data as it is read again."""
    text = json.dumps(made, indent=0, sort_keys=True) + "\n"
    data = json.loads(text)
    if json_path:
        json_path.write_text(text)
    if html_path:
        html_path.write_text(page_of(data))
    if readme:
        readme.write_text(written(readme.read_text(), data))


def name_of(target: str) -> str:
    """A file name for a target: `shim-sqlite` of `shim:sqlite:`."""
    return target.strip(":").replace(":", "-").replace("/", "-")


def date_of(path: Path) -> str:
    """The day a report was written."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d")


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def commit() -> str:
    """The commit of our sources, where they are a work tree."""
    described = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"

"""`kafka-shim conformance matrix`: runs every target and every client, and writes the results.

Each run is a separate process, so that a crash does not stop the others. The reports stay in a folder, and a run with a
report is skipped: the same command continues an interrupted matrix.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import click

from kafka_shim.conformance import processes
from kafka_shim.conformance.clients.catalogue import select_clients
from kafka_shim.conformance.clients.client_processes import EVERY_CLIENT
from kafka_shim.conformance.matrix.data import TARGETS, matrix_of, with_earlier
from kafka_shim.conformance.matrix.page import page_of
from kafka_shim.conformance.matrix.tables import with_tables


@click.command()
@click.option(
    "--target",
    "targets",
    multiple=True,
    default=TARGETS,
    show_default=True,
    help="Broker to test, as for `kafka-shim conformance`; may be repeated.",
)
@click.option("--client", default="all", show_default=True, help="The clients to run against the shim, or `none`.")
@click.option("--reports", type=click.Path(path_type=Path), required=True, help="Folder for the report of each run.")
@click.option(
    "--within",
    type=click.IntRange(min=0),
    metavar="SECONDS",
    help="Start no run after this many seconds; print the remaining ones.",
)
@click.option(
    "--earlier",
    "earlier_path",
    type=click.Path(exists=True, path_type=Path),
    help="Results as JSON, as --data writes them: targets and clients without a new run keep theirs, with its date.",
)
@click.option("--data", "json_path", type=click.Path(path_type=Path), help="Write the table of results as JSON.")
@click.option("--html", "html_path", type=click.Path(path_type=Path), help="Write the matrix as one HTML page.")
@click.option(
    "--tables",
    hidden=True,
    type=click.Path(exists=True, path_type=Path),
    help="Renew the tables in this page (docs/results.md).",
)
def matrix(
    targets: tuple[str, ...],
    client: str,
    reports: Path,
    within: int | None,
    earlier_path: Path | None,
    json_path: Path | None,
    html_path: Path | None,
    tables: Path | None,
) -> None:
    """Run all targets and clients, and compare them on one page. Runs with a report in the folder are skipped."""
    start = time.monotonic()
    reports.mkdir(parents=True, exist_ok=True)
    runs = [(name_of(target), ["--target", target]) for target in targets]
    if client != "none":
        clients = select_clients(EVERY_CLIENT, client)
        if not clients:
            raise click.UsageError(f"there is no client {client}; the clients are {', '.join(EVERY_CLIENT)}")
        runs += [(f"client-{each.name}", ["--target", "shim", "--client", each.name]) for each in clients]
    missing, remaining = [], []
    for name, arguments in runs:
        path = reports / f"{name}.json"
        if within is not None and time.monotonic() - start > within and not path.exists():
            remaining.append(name)
        elif not report_of(path, arguments):
            missing.append(name)
    if remaining:
        click.echo(f"not started; run the same command again: {', '.join(remaining)}", err=True)
    if missing:
        click.echo(f"no report of: {', '.join(missing)}", err=True)
    paths = [path for name, _ in runs if (path := reports / f"{name}.json").exists()]
    data = matrix_of([(json.loads(path.read_text()), date_of(path)) for path in paths], today(), commit())
    if earlier_path is not None:
        data = with_earlier(data, json.loads(earlier_path.read_text()))
    write(data, json_path, html_path, tables)
    if missing or remaining:
        sys.exit(2)


def report_of(path: Path, arguments: list[str], output: TextIO | None = None) -> bool:
    """Run the command unless its report exists; return True if the report exists now.

    `output` takes the lines of the run, by default the standard output.
    """
    if not path.exists():
        command = [sys.executable, "-m", "kafka_shim.conformance", *arguments, "--results", str(path)]
        click.echo(" ".join(["kafka-shim", "conformance", *arguments]), file=output)
        processes.start(command, stdout=output, last_signal=signal.SIGTERM).wait()
    return path.exists()


def write(matrix_data: dict[str, Any], json_path: Path | None, html_path: Path | None, tables: Path | None) -> None:
    """Write the chosen forms of the matrix, each from the data read back from JSON."""
    text = json.dumps(matrix_data, indent=0, sort_keys=True) + "\n"
    data = json.loads(text)
    if json_path:
        json_path.write_text(text)
    if html_path:
        html_path.write_text(page_of(data))
    if tables:
        tables.write_text(with_tables(tables.read_text(), data))


def name_of(target: str) -> str:
    """Return a file name for a target: `shim-sqlite` for `shim:sqlite:`."""
    return target.strip(":").replace(":", "-").replace("/", "-")


def date_of(path: Path) -> str:
    """Return the day a report was written."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d")


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def commit() -> str:
    """Return the commit of our sources; `unknown` outside a work tree."""
    described = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"

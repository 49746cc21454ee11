"""`kafka-shim offsets`: export and import groups and offsets to and from the log segments of a Kafka broker.

`persistence/interchange.py` reads and writes them. Neither command needs a server; a store that a server has open is
refused if only one process may have it.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from kafka_shim.apis.readable import readable
from kafka_shim.commands.damaged import reads_files
from kafka_shim.commands.parameters import Whole
from kafka_shim.persistence.batch import CODECS
from kafka_shim.persistence.interchange import export_offsets, import_offsets
from kafka_shim.persistence.store import Store, StoreError
from kafka_shim.persistence.stores import open_store

PROBLEMS_SHOWN: Final = 20
LONGEST_PROBLEM: Final = 1000

_store: Final = click.option(
    "--store", "url", required=True, metavar="URL", help="sqlite:PATH or postgresql://..., as `serve` has it."
)
_partitions: Final = click.option(
    "--partitions",
    type=Whole(1, 10_000),
    default=50,
    show_default=True,
    help="offsets.topic.num.partitions, of the store and of the exported files.",
)
_keep: Final = click.option(
    "--keep-topic-ids",
    is_flag=True,
    help="Let offsets count for the topic id they were committed with alone, not for any topic of the name.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def offsets() -> None:
    """Groups and offsets to and from the logs of a Kafka broker."""


@offsets.command("export")
@click.argument("folder", type=click.Path(file_okay=False, writable=True, path_type=Path))
@_store
@_partitions
@click.option("--codec", type=click.Choice(CODECS), default="none", show_default=True, help="Compression of batches.")
@click.option("--topic-id", metavar="ID", help="Topic id for partition.metadata, in Kafka's base64 form.")
@_keep
@reads_files
def export(folder: Path, url: str, partitions: int, codec: str, topic_id: str | None, keep_topic_ids: bool) -> None:
    """Write FOLDER/__consumer_offsets-N, as a broker keeps them.

    Offsets of open transactions stay in the store.
    """
    if topic_id is not None and not re.fullmatch(r"[A-Za-z0-9_-]{22}", topic_id):
        raise click.ClickException(f"{topic_id!r} is not a topic id: 22 letters, digits, - or _.")
    if url.startswith("sqlite:") and not Path(url.removeprefix("sqlite:")).exists():
        raise click.ClickException(f"There is no store {url.removeprefix('sqlite:')}: name that of `serve --store`.")
    with _store_at(url, partitions) as store:
        try:
            records = export_offsets(
                store,
                partitions,
                folder,
                int(time.time() * 1000),
                codec=codec,
                topic_id=topic_id,
                keep_topic_ids=keep_topic_ids,
            )
        except FileExistsError as error:
            raise click.ClickException(f"{error.filename} already exists.") from error
        except OSError as error:
            raise click.ClickException(f"{folder} cannot be written: {error.strerror}.") from error
    click.echo(f"{records} records in {partitions} partitions written to {folder}.")


@offsets.command("import")
@click.argument("source", type=click.Path(path_type=Path))
@_store
@_partitions
@_keep
@reads_files
def import_(source: Path, url: str, partitions: int, keep_topic_ids: bool) -> None:
    """Read SOURCE: a segment, the folder of a partition, or a broker's log folder.

    Records of SOURCE replace those of the same group and partition in the store. Exit code 1 means that a part of
    SOURCE was unreadable; the rest was imported.
    """
    with _store_at(url, partitions) as store:
        try:
            imported = import_offsets(source, store, partitions, keep_topic_ids=keep_topic_ids)
        except FileNotFoundError as error:
            raise click.ClickException(f"{error}.") from error
        except OSError as error:
            raise click.ClickException(f"{source} cannot be read: {error.strerror}.") from error
    click.echo(f"{imported.offsets} offsets of {imported.groups} groups imported, from {imported.records} records.")
    if imported.pending:
        click.echo(f"{imported.pending} offsets of transactions that were not committed yet are left out.")
    if imported.unknown:
        click.echo(f"{imported.unknown} records of share and streams groups are kept as they are.")
    for problem in imported.problems[:PROBLEMS_SHOWN]:
        click.echo(readable(f"{problem}", LONGEST_PROBLEM), err=True)
    if len(imported.problems) > PROBLEMS_SHOWN:
        click.echo(f"and {len(imported.problems) - PROBLEMS_SHOWN} more", err=True)
    if imported.problems:
        sys.exit(1)


@contextmanager
def _store_at(url: str, partitions: int) -> Iterator[Store]:
    if url == "memory:":
        raise click.ClickException("A store in memory ends with the process: use sqlite:PATH or postgresql://...")
    path = Path(url.removeprefix("sqlite:"))
    is_new = url.startswith("sqlite:") and not path.exists()
    try:
        store = open_store(url, partitions)
        try:
            yield store
        except BaseException:
            store.close()
            if is_new:
                for suffix in ("", "-wal", "-shm", "-journal"):
                    Path(f"{path}{suffix}").unlink(missing_ok=True)
            raise
        finally:
            store.close()
    except StoreError as error:
        raise click.ClickException(str(error)) from error

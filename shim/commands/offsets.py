"""`kafka-shim offsets`: groups and offsets to and from the log segments of a Kafka broker.

Decides the options of an operator and the output; what is read and written is
`persistence/interchange.py`'s to know. Neither command needs a server, and a store that a server has open is refused
where only one may have it.
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

from kafka_shim.persistence.batch import CODECS
from kafka_shim.persistence.interchange import export_offsets, import_offsets
from kafka_shim.persistence.store import Store, StoreError
from kafka_shim.persistence.stores import open_store

PROBLEMS_SHOWN: Final = 20

_store: Final = click.option(
    "--store", "url", required=True, metavar="URL", help="sqlite:PATH or postgresql://..., as `serve` has it."
)
_partitions: Final = click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="offsets.topic.num.partitions, of the store and of what is written.",
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
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@_store
@_partitions
@click.option("--codec", type=click.Choice(CODECS), default="none", show_default=True, help="Compression of batches.")
@click.option("--topic-id", metavar="ID", help="Topic id for partition.metadata, in Kafka's base64 form.")
@_keep
def export(folder: Path, url: str, partitions: int, codec: str, topic_id: str | None, keep_topic_ids: bool) -> None:
    """Write FOLDER/__consumer_offsets-N, as a broker keeps them.

    Offsets of transactions that are still open stay in the store.
    """
    if topic_id is not None and not re.fullmatch(r"[A-Za-z0-9_-]{22}", topic_id):
        raise click.ClickException(f"{topic_id!r} is no topic id: 22 letters, digits, - or _.")
    with _opened(url, partitions) as store:
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
            raise click.ClickException(f"{error.filename} is there already.") from error
        except OSError as error:
            raise click.ClickException(f"{folder} cannot be written: {error.strerror}.") from error
    click.echo(f"{records} records in {partitions} partitions written to {folder}.")


@offsets.command("import")
@click.argument("source", type=click.Path(path_type=Path))
@_store
@_partitions
@_keep
def import_(source: Path, url: str, partitions: int, keep_topic_ids: bool) -> None:
    """Read SOURCE: a segment, the folder of a partition, or a broker's log folder.

    What SOURCE has replaces what the store has of the same group and partition. Exit code 1 says that something in
    SOURCE could not be read; the rest was imported.
    """
    with _opened(url, partitions) as store:
        try:
            found = import_offsets(source, store, partitions, keep_topic_ids=keep_topic_ids)
        except FileNotFoundError as error:
            raise click.ClickException(f"{error}.") from error
        except OSError as error:
            raise click.ClickException(f"{source} cannot be read: {error.strerror}.") from error
    click.echo(f"{found.offsets} offsets of {found.groups} groups imported, from {found.records} records.")
    if found.pending:
        click.echo(f"{found.pending} offsets of transactions that were not committed yet are left out.")
    if found.unknown:
        click.echo(f"{found.unknown} records of share and streams groups are kept as they are.")
    for problem in found.problems[:PROBLEMS_SHOWN]:
        click.echo(f"{problem}", err=True)
    if len(found.problems) > PROBLEMS_SHOWN:
        click.echo(f"and {len(found.problems) - PROBLEMS_SHOWN} more", err=True)
    if found.problems:
        sys.exit(1)


@contextmanager
def _opened(url: str, partitions: int) -> Iterator[Store]:
    if url == "memory:":
        raise click.ClickException("A store in memory is gone with the process: use sqlite:PATH or postgresql://...")
    try:
        store = open_store(url, partitions)
        try:
            yield store
        finally:
            store.close()
    except StoreError as error:
        raise click.ClickException(str(error)) from error

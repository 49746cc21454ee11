"""The commands `kafka-shim pipeline run | stream | report | tables | sql | compact | expire | generate`.

Parses the command line and prints progress and results. A command imports Spark only when it needs Spark, so that
`--help` stays fast.
"""

from __future__ import annotations

import json
import logging
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import click
from rich.console import Console
from rich.table import Column
from rich.table import Table as Grid
from rich.text import Text

from kafka_shim.apis.readable import LONGEST_LINE, readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_shim.pipeline.run import Inputs


def _spark_options(command: Any) -> Any:
    for option in (
        click.option("--config", multiple=True, metavar="NAME=VALUE", help="A setting of Spark; may be repeated."),
        click.option(
            "--memory", default="2g", show_default=True, help="Memory of the driver; in local mode, of the whole run."
        ),
        click.option(
            "--master",
            default="local[*]",
            show_default=True,
            help="Where Spark runs: local[N], spark://HOST:PORT, sc://HOST:PORT.",
        ),
    ):
        command = option(command)
    return command


_KAFKA = click.option(
    "--kafka",
    metavar="HOST:PORT",
    help="Also read __consumer_offsets of this cluster; --config kafka.NAME=VALUE sets Kafka's Java clients.",
)
_ZONE = click.option("--log-zone", default="UTC", show_default=True, help="Time zone of stamps of logs without one.")
_FORMAT = click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "delta", "iceberg"]),
    default="parquet",
    show_default=True,
    help="Format of the tables; delta and iceberg need PySpark 4.1.",
)
_CATALOG = click.option(
    "--catalog",
    metavar="NAME[.NAMESPACE]",
    help="Iceberg catalog, set up by --config spark.sql.catalog.NAME...; default: a catalog in the folder OUT.",
)
_ONLY = click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Compute only this answer or table, and the input that it needs; may be repeated. Default: all.",
)
_KEEP = click.option(
    "--keep",
    default=2,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="How many snapshots to keep.",
)


def _start(
    master: str, memory: str, config: tuple[str, ...], needs: Iterable[str], out: str, little: bool
) -> SparkSession:
    from kafka_shim.pipeline.connectors import KAFKA, NoConnector
    from kafka_shim.pipeline.connectors import settings as settings_for
    from kafka_shim.pipeline.java import NoJava
    from kafka_shim.pipeline.session import LITTLE, Unfetched, session

    chosen = {name: value for name, value in _settings(config).items() if not name.startswith(_OF_KAFKA)}
    if KAFKA in needs and master.startswith(_REMOTE):
        raise Refused(_NOT_REMOTE.format("--kafka"))
    try:
        # A Spark Connect server has its own jars.
        connectors = {} if master.startswith(_REMOTE) else settings_for(needs, chosen, out)
        settings = {"spark.driver.memory": memory, **(LITTLE if little else {}), **chosen, **connectors}
    except NoConnector as error:
        raise Refused(str(error)) from error
    from pyspark.errors import PySparkException

    try:
        return session(master, config=settings)
    except NoJava as error:
        raise click.ClickException(str(error)) from error
    except (NoConnector, Unfetched) as error:
        raise Refused(str(error)) from error
    except PySparkException as error:
        raise click.ClickException(f"Spark cannot be started with --master {master}") from error


_OF_KAFKA: Final = "kafka."
"""Prefix of `--config` names that are settings of Kafka's clients, not of Spark."""
_REMOTE: Final = "sc://"
_NOT_REMOTE: Final = "{} needs a Spark of its own, not a Spark Connect server"


class Refused(click.ClickException):
    """A request that cannot be carried out; the message is one sentence."""

    exit_code = 2


_SENTENCE: Final = re.compile(r"\b(?:Overtaken|Unreadable|Unwritable): (.+)")


@contextmanager
def _spark(
    master: str, memory: str, config: tuple[str, ...], needs: Iterable[str], out: str, little: bool = False
) -> Iterator[SparkSession]:
    """Run with a Spark session for the formats in `needs` (see `pipeline.connectors`) and the store of `out`.

    `little` chooses the settings for small inputs. An error becomes one sentence, printed after Spark's own log.
    """
    spark = _start(master, memory, config, needs, out, little)
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from kafka_shim.pipeline.connectors import NoConnector
    from kafka_shim.pipeline.snapshots import Overtaken, Unwritable
    from kafka_shim.pipeline.sources.places import Unreadable

    try:
        yield spark
    except (Overtaken, NoConnector, Unreadable, Unwritable) as error:
        raise Refused(str(error)) from error
    except (Py4JJavaError, PySparkException) as error:
        # An error raised in a worker arrives as a text that contains the whole traceback.
        ours = _SENTENCE.search(str(error))
        if ours is not None:
            raise Refused(ours[1].strip()) from error
        java = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
        raise click.ClickException(f"Spark failed: {java.strip().splitlines()[0]}") from error
    finally:
        spark.stop()


@contextmanager
def _interrupts() -> Iterator[Event]:
    """Set the yielded event on Ctrl-C, and do nothing else.

    A KeyboardInterrupt in the middle of a call to Java would leave the connection to Java in an unknown state.
    """
    interrupted = Event()
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _writable(out: str) -> None:
    """Create the folder `out` if it is on this machine."""
    if "://" not in out:
        try:
            Path(out).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refused(f"{out} cannot be written: {error.strerror or error}") from error


def _inputs(
    paths: tuple[str, ...], config: tuple[str, ...], end_offsets: str | None = None, kafka: str | None = None,
    zone: str = "UTC",
) -> Inputs:  # fmt: skip
    if not paths and kafka is None:
        raise click.UsageError("there is nothing to read: name traces, segments, logs, or a cluster by --kafka")
    try:
        log_zone = ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as error:
        raise click.BadParameter(
            f"{zone!r} is not a time zone: write a name such as Europe/Berlin, or UTC.", param_hint="--log-zone"
        ) from error
    from kafka_shim.pipeline.run import sort_out
    from kafka_shim.pipeline.sources.kafka_topic import reach
    from kafka_shim.pipeline.sources.places import Unreadable, store_settings

    settings = _settings(config)
    try:
        if kafka is not None:
            reach(kafka)
        inputs = sort_out(paths, end_offsets, store_settings(settings))
        of_kafka = {name: value for name, value in settings.items() if name.startswith(_OF_KAFKA)}
        return inputs._replace(kafka=kafka, kafka_options=of_kafka, zone=log_zone)
    except (ValueError, Unreadable) as error:
        raise Refused(str(error)) from error


def _needs_of(inputs: Inputs, kind: str) -> list[str]:
    from kafka_shim.pipeline.connectors import KAFKA

    return [kind] if inputs.kafka is None else [kind, KAFKA]


def _is_little(inputs: Inputs, config: tuple[str, ...], only: frozenset[str] | None = None) -> bool:
    from kafka_shim.pipeline.run import is_little
    from kafka_shim.pipeline.sources.places import store_settings

    return is_little(inputs, store_settings(_settings(config)), only)


def _settings(config: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for each in config:
        name, equals, value = each.partition("=")
        if not equals:
            raise click.BadParameter(f"{each!r} is not of the form NAME=VALUE", param_hint="--config")
        settings[name] = value
    return settings


@click.group()
def cli() -> None:
    """Rebalances and offsets of months of traces, analysed on Spark: causes, slow members, durations."""


def _kind(kind: str, catalog: str | None) -> str:
    """Join the format and its catalog to the form that `kafka_shim.pipeline.formats.Tables` takes."""
    if catalog is None:
        return kind
    if kind != "iceberg":
        raise click.UsageError("--catalog is for --format iceberg")
    if not re.fullmatch(r"\w+(\.\w+)?", catalog):
        raise click.BadParameter(f"{catalog!r} is not of the form NAME or NAME.NAMESPACE", param_hint="--catalog")
    return f"{kind}:{catalog}"


def _tables_of(
    inputs: Inputs, paths: tuple[str, ...], out: str, kind: str, keep: int, spark: SparkSession, console: Console,
    little: bool, only: frozenset[str] | None = None,
) -> Any:  # fmt: skip
    from kafka_shim.pipeline.progress import Progress
    from kafka_shim.pipeline.replays import replays
    from kafka_shim.pipeline.run import answer, build
    from kafka_shim.pipeline.steps import Task
    from kafka_shim.pipeline.warehouse import Warehouse

    warehouse = Warehouse(spark, out, kind, only, keep, little)
    with Progress(spark, console) as progress, warehouse.change("run", paths):

        def play() -> None:
            with progress.step("replays"):
                warehouse.write_result("replays", replays(warehouse))

        build(warehouse, inputs, progress.step)
        also = [Task("replays", play, ("migration",))] if warehouse.makes("replays") else []
        answer(warehouse, progress.step, also=also)
    return warehouse


@cli.command()
@click.argument("paths", nargs=-1, metavar="[IN]...")
@_KAFKA
@_ZONE
@click.option("--out", required=True, help="Folder for tables and results; replaces those of an earlier run.")
@click.option(
    "--end-offsets", type=click.Path(exists=True), help="CSV: topic, partition, happened_at, end_offset; gives lag."
)
@_ONLY
@_FORMAT
@_CATALOG
@_KEEP
@_spark_options
def run(
    paths: tuple[str, ...], kafka: str | None, log_zone: str, out: str, end_offsets: str | None, only: tuple[str, ...],
    kind: str, catalog: str | None, keep: int, master: str, memory: str, config: tuple[str, ...],
) -> None:  # fmt: skip
    """Build tables and answers from traces, __consumer_offsets segments, and logs of brokers and clients."""
    from kafka_shim.pipeline.needs import places_for

    console = Console(stderr=True)
    kind = _kind(kind, catalog)
    try:
        chosen = places_for(only) if only else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--only") from error
    inputs = _inputs(paths, config, end_offsets, kafka, log_zone)
    _writable(out)
    little = _is_little(inputs, config, chosen)
    with _spark(master, memory, config, _needs_of(inputs, kind), out, little) as spark:
        warehouse = _tables_of(inputs, paths, out, kind, keep, spark, console, little, chosen)
        trust = filter(warehouse.computed, ("violations", "quarantine", "gaps"))
        counts = {name: warehouse.read(name).count() for name in trust}
        summary = {
            "out": warehouse.path,
            "snapshot": warehouse.snapshot.number if warehouse.snapshot else None,
            **counts,
        }
    click.echo(json.dumps(summary))


@cli.command()
@click.argument("paths", nargs=-1, metavar="[IN]...")
@_KAFKA
@_ZONE
@click.option("--out", required=True, help="Folder for report.html, tables and results.")
@click.option(
    "--end-offsets", type=click.Path(exists=True), help="CSV: topic, partition, happened_at, end_offset; gives lag."
)
@_FORMAT
@_CATALOG
@_KEEP
@_spark_options
def report(
    paths: tuple[str, ...], kafka: str | None, log_zone: str, out: str, end_offsets: str | None, kind: str,
    catalog: str | None, keep: int, master: str, memory: str, config: tuple[str, ...],
) -> None:  # fmt: skip
    """Build tables, answers, and one HTML page of them."""
    console = Console(stderr=True)
    kind = _kind(kind, catalog)
    inputs = _inputs(paths, config, end_offsets, kafka, log_zone)
    _writable(out)
    little = _is_little(inputs, config)
    with _spark(master, memory, config, _needs_of(inputs, kind), out, little) as spark:
        # Importing the report takes a while, so it runs while Spark works.
        importing = Thread(target=import_module, args=["kafka_shim.pipeline.report"])
        importing.start()
        warehouse = _tables_of(inputs, paths, out, kind, keep, spark, console, little)
        importing.join()
        from kafka_shim.pipeline.report import report as page_about
        from kafka_shim.pipeline.report import write_report

        of = ", ".join([*paths, *filter(None, [kafka])])
        if "://" in out:
            page = warehouse.files.write("report.html", page_about(warehouse, of))
        else:
            page = str(write_report(warehouse, Path(out) / "report.html", of))
    click.echo(page)


@cli.command()
@click.argument("paths", nargs=-1, required=True, metavar="IN...")
@click.option(
    "--out", required=True, help="Folder for the tables and the checkpoint; a stream resumes from its last batch."
)
@click.option("--every", help='Time between batches, like "10 seconds"; default: read all there is, then end.')
@click.option(
    "--max-bytes", type=click.IntRange(min=1), metavar="BYTES", help="About how many bytes of the trace a batch reads."
)
@click.option(
    "--days",
    type=click.IntRange(min=1),
    metavar="DAYS",
    help="Keep only the last so many days (UTC) of events; default: keep all.",
)
@click.option(
    "--answers",
    default=0.0,
    show_default=True,
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Maximum age of the answers, in seconds, before a batch renews them; 0: every batch renews them.",
)
@_FORMAT
@_CATALOG
@_KEEP
@_spark_options
def stream(
    paths: tuple[str, ...], out: str, every: str | None, max_bytes: int | None, days: int | None, answers: float,
    kind: str, catalog: str | None, keep: int, master: str, memory: str, config: tuple[str, ...],
) -> None:  # fmt: skip
    """Keep tables and answers up to date while traces grow."""
    kind = _kind(kind, catalog)
    if master.startswith(_REMOTE):
        raise Refused(_NOT_REMOTE.format("a stream"))
    inputs = _inputs(paths, config)
    if not inputs.traces:
        raise Refused("a stream reads traces, and there are none")
    _writable(out)
    # An input that grows may outgrow the settings for small inputs.
    little = every is None and _is_little(inputs, config)
    with _spark(master, memory, config, [kind], out, little) as spark:
        from kafka_shim.pipeline.sources.places import store_settings
        from kafka_shim.pipeline.stream import progress, stop
        from kafka_shim.pipeline.stream import stream as start
        from kafka_shim.pipeline.warehouse import Warehouse

        console = Console(stderr=True)
        warehouse = Warehouse(spark, out, kind, keep=keep)
        printed = -1
        with _interrupts() as interrupted:
            query = start(
                warehouse,
                inputs,
                every=every,
                max_bytes=max_bytes,
                days=days,
                answers_s=answers,
                stopped=interrupted,
            )
            ended = False
            while not ended and not interrupted.is_set():
                ended = bool(query.awaitTermination(1))
                now = progress(query, inputs, store_settings(_settings(config)))
                if now is not None and now.batch > printed:
                    printed = now.batch
                    newest = "" if now.newest is None else f", up to {now.newest:%Y-%m-%d %H:%M:%S} UTC"
                    console.print(
                        f"batch {now.batch}: {now.events:,} events in {now.seconds:.1f} s,"
                        f" {now.behind_bytes:,} bytes to go{newest}"
                    )
            if not ended:
                # py4j and Spark log errors about the cancelled work; they are no use to the user.
                logging.getLogger("py4j").setLevel(logging.CRITICAL)
                spark.sparkContext.setLogLevel("OFF")
                stop(spark, query)
                console.print("stopped; the next start goes on from the last whole batch")


@cli.command()
@click.argument("out", required=False)
@click.argument("name", required=False)
@click.option("--rows", default=20, show_default=True, help="How many rows of a table to show.")
@click.option("--json", "as_json", is_flag=True, help="Rows as JSON Lines.")
@click.option("--snapshot", type=int, help="Read this snapshot, by its number in OUT/snapshots.")
@_spark_options
def tables(
    out: str | None, name: str | None, rows: int, as_json: bool, snapshot: int | None, master: str, memory: str,
    config: tuple[str, ...],
) -> None:  # fmt: skip
    """List the tables; with OUT, count their rows; with NAME, show the rows of one table."""
    from kafka_shim.pipeline.schemas import TABLES

    console = Console()
    if name is not None and name not in TABLES:
        raise click.ClickException(f"no table {name}; there are {', '.join(TABLES)}")
    if out is None:
        grid = Grid("table", "one row is", "columns")
        for each, table in TABLES.items():
            grid.add_row(each, table.row, str(len(table.columns)))
        console.print(grid)
        return
    with _spark(master, memory, config, _needs(out, config), out) as spark:
        from kafka_shim.pipeline.warehouse import Warehouse

        warehouse = Warehouse(spark, out)
        if snapshot is not None:
            try:
                warehouse = warehouse.at(snapshot)
            except ValueError as error:
                raise Refused(str(error)) from error
        if name is not None and not warehouse.computed(name):
            raise Refused(f"the run that made {out} left out {name} (--only)")
        if name is None:
            grid = Grid("table", "rows")
            for each in filter(warehouse.computed, TABLES):
                grid.add_row(each, str(warehouse.read(each).count()))
            console.print(grid)
        elif as_json:
            _print_json(warehouse.read(name).limit(rows))
        else:
            chosen = warehouse.read(name).limit(rows)
            _show(console, chosen.columns, [list(row) for row in chosen.collect()])


@cli.command()
@click.argument("out")
@click.argument("query")
@click.option("--json", "as_json", is_flag=True, help="Rows as JSON Lines.")
@_spark_options
def sql(out: str, query: str, as_json: bool, master: str, memory: str, config: tuple[str, ...]) -> None:
    """Run an SQL query; every table and every answer of a run is a view of the same name."""
    with _spark(master, memory, config, _needs(out, config), out) as spark:
        from kafka_shim.pipeline.warehouse import Warehouse

        Warehouse(spark, out).views()
        answer = spark.sql(query)
        if as_json:
            _print_json(answer)
        else:
            _show(Console(), answer.columns, [list(row) for row in answer.collect()])


def _needs(out: str, config: tuple[str, ...]) -> set[str]:
    """Return the formats of the tables of a run. Raises Refused if `out` is not the folder of a run."""
    from kafka_shim.pipeline.formats import needs_of
    from kafka_shim.pipeline.sources.places import Place, Unreadable, store_settings

    try:
        entries = Place(f"{out.rstrip('/')}/snapshots", store_settings(_settings(config))).children()
        newest = max((each for each in entries if re.fullmatch(r"\d+\.json", each.name)), default=None)
    except Unreadable:
        newest = None
    if newest is None:
        raise Refused(f"{out} was not written by `kafka-shim pipeline run`")
    return needs_of(json.loads(newest.text() or "")["tables"].values())


@cli.command()
@click.argument("out")
@_KEEP
@_spark_options
def expire(out: str, keep: int, master: str, memory: str, config: tuple[str, ...]) -> None:
    """Delete old snapshots and the files that only they name."""
    with _spark(master, memory, config, _needs(out, config), out) as spark:
        from kafka_shim.pipeline.warehouse import Warehouse

        count = Warehouse(spark, out).expire(keep)
    click.echo(json.dumps({"folders": count}))


@cli.command()
@click.argument("out")
@_spark_options
def compact(out: str, master: str, memory: str, config: tuple[str, ...]) -> None:
    """Rewrite tables of many small files as few large files; a stream can go on afterwards."""
    with _spark(master, memory, config, _needs(out, config), out) as spark:
        from kafka_shim.pipeline.warehouse import Warehouse

        done = Warehouse(spark, out).compact_all()
    click.echo(json.dumps({"tables": done}))


def _print_json(rows: DataFrame) -> None:
    from pyspark.sql import functions as F

    for (line,) in rows.select(F.to_json(F.struct("*"))).collect():
        click.echo(line)


def _show(console: Console, columns: list[str], rows: list[list[Any]]) -> None:
    """Print rows as one table if the terminal is wide enough, else each row below the one before."""
    names = [_text(name) for name in columns]
    cells = [[_text("" if value is None else str(value)) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    if sum(widths) + 3 * len(columns) < console.width:
        grid = Grid(*(Column(name) for name in names))
        for row in cells:
            grid.add_row(*row)
        console.print(grid)
        return
    for number, row in enumerate(cells, 1):
        grid = Grid("row", str(number), box=None, pad_edge=False)
        for name, value in zip(names, row, strict=True):
            if value:
                grid.add_row(name, value)
        console.print(grid)
        console.print()


def _text(value: str) -> Text:
    # Not as strings: those are markup, and a value may be a name of a client.
    return Text(readable(value, LONGEST_LINE))


@cli.command()
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the files; new or empty.")
@click.option("--groups", required=True, type=click.IntRange(min=1), metavar="NUMBER", help="How many groups.")
@click.option(
    "--events",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Number of events; without it, each group runs for half an hour.",
)
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same data.")
@click.option(
    "--nodes",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Nodes; each writes its own trace.",
)
@click.option("--segments/--no-segments", default=True, show_default=True, help="Also write __consumer_offsets.")
@click.option("--packed", is_flag=True, help="Compress the trace files with zstd.")
def generate(out: Path, groups: int, events: int | None, seed: int, nodes: int, segments: bool, packed: bool) -> None:
    """Generate traces and segments with faults, and list the faults in OUT/faults.json."""
    from kafka_shim.pipeline.generate.write import generate as make

    try:
        volume = make(out, groups=groups, events=events, seed=seed, nodes=nodes, segments=segments, packed=packed)
    except FileExistsError as error:
        raise click.ClickException(str(error)) from error
    json.dump(volume._asdict(), sys.stdout)
    click.echo()

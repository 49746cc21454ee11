"""The Spark session of the pipeline.

The settings here are those that the jobs depend on (UTC, the same Python on every worker) and those that suit a single
machine (few shuffle partitions, no web page). `config` can override all of them. On a cluster, only `master` differs.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Mapping
from threading import Lock, Thread
from typing import Final

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kafka_shim.pipeline.connectors import NoConnector
from kafka_shim.pipeline.java import find_java

REMOTE: Final = "sc://"
"""Prefix of the address of a Spark Connect server."""

SHUFFLE_PARTITIONS: Final = 64
"""Number of partitions of a shuffle before Spark merges small ones.

A multiple of the number of buckets: Spark hashes both alike, so rows shuffled by group are in one bucket.
"""

_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # A task writes files for the buckets of several groups at once; with fewer writers Spark would sort all rows first.
    "spark.sql.maxConcurrentOutputFileWriters": "32",
    # Each open file buffers a row group of every column.
    "spark.hadoop.parquet.block.size": str(16 << 20),
    "spark.hadoop.parquet.page.size": str(128 << 10),
    # A run has several hundred compiled queries, and the batches of a stream repeat them; Spark caches 100 by default.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # A stream resumes from its last batch; by default Spark keeps the files of a hundred batches.
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    # Python workers reuse freed memory for the next part of a file; otherwise the system has to clear new pages.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    # Level 1 makes files a tenth larger than the default level 3.
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_PATIENCE_S: Final = 5.0
LITTLE_BYTES: Final = 32 << 20
"""Inputs up to this many bytes are small: Spark takes longer to start and to plan than to do the work."""
RARE: Final = 16
"""Without heartbeats and commits, inputs this many times as large are small: of the generated traces, 0.6 % of the
events remain."""
_QUICK: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=200m -XX:MetaspaceSize=256m -Xms400m"
)
"""Options of Java: compile little, and start with enough memory for Spark's classes so that nothing is collected."""
LITTLE: Final = {
    # For small inputs, optimising, checking and compiling a plan takes longer than running it.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.lightweightPlanChangeValidation": "false",
    # Spark formats the plan for its web page even if there is no page.
    "spark.sql.ui.explainMode": "simple",
    # One task for each stage: several steps run side by side already.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "0",
    # By default Delta reads the log of a table in 50 tasks, and looks for old files in 10,000.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.driver.extraJavaOptions": _QUICK,
    "spark.executor.extraJavaOptions": _QUICK,
}
"""Settings of a session for small inputs."""
_ON_THIS_MACHINE: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
}
_UNFETCHED: Final = re.compile(r"(?:unresolved dependency|download failed): ([\w.-]+)#([\w.-]+);([\w.-]+)")


class Unfetched(RuntimeError):
    """Packages that Spark cannot fetch; the message is one sentence."""


class _Errors:
    """The standard error of Java, which waits until Spark has started: a failure may be one sentence instead."""

    def __init__(self) -> None:
        self._stderr = os.dup(2)
        output, end = os.pipe()
        os.dup2(end, 2)
        os.close(end)
        self._lines: list[bytes] = []
        self._started = False
        self._lock = Lock()
        self._reader = Thread(target=self._read, args=[output], daemon=True)
        self._reader.start()

    def _read(self, output: int) -> None:
        with open(output, "rb") as lines:
            for line in lines:
                with self._lock:
                    self._lines.append(line)
                    self._print()

    def _print(self) -> None:
        if self._started:
            os.write(self._stderr, b"".join(self._lines))
            self._lines.clear()

    def end(self, is_printed: bool) -> str:
        """Return the text so far; with `is_printed`, print it, and the following lines as they come."""
        os.dup2(self._stderr, 2)
        if not is_printed:
            # Java has ended, or does so now.
            self._reader.join(_PATIENCE_S)
        with self._lock:
            text = b"".join(self._lines).decode(errors="replace")
            self._started = is_printed
            self._print()
        return text


def _started(builder: SparkSession.Builder) -> SparkSession:
    """Start or reuse the session. Raises `Unfetched`."""
    errors = _Errors()
    try:
        spark = builder.getOrCreate()
    except PySparkException as error:
        packages = sorted({":".join(each) for each in _UNFETCHED.findall(errors.end(False))})
        if not packages:
            errors.end(True)
            raise
        raise Unfetched(
            f"Spark cannot fetch {', '.join(packages)}: check the name and the network, or name the jars by"
            " --config spark.jars=FILE,FILE"
        ) from error
    except BaseException:
        errors.end(True)
        raise
    errors.end(True)
    return spark


def _connected(address: str, config: Mapping[str, str]) -> SparkSession:
    """Return a session of the Spark Connect server at `address`, with those settings that belong to a session."""
    settings = {name: value for name, value in {**_ALWAYS, **config}.items() if name.startswith("spark.sql.")}
    builder = SparkSession.builder.remote(address)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with warnings.catch_warnings():
            # The server keeps its own value of a setting that no session can change.
            warnings.simplefilter("ignore", UserWarning)
            return builder.getOrCreate()
    except ImportError as error:
        raise NoConnector(
            f"--master {address} needs the packages of Spark Connect: pip install 'pyspark[connect]'"
        ) from error


def context_of(spark: SparkSession) -> SparkContext | None:
    """Return the context of a session; None over Spark Connect, which has none in this process."""
    return getattr(spark, "sparkContext", None)


def session(
    master: str = "local[*]", *, name: str = "kafka-shim pipeline", config: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a session at `master`. Sources are registered when they are read by name: registering takes a second.

    With `sc://HOST:PORT` it is a session of a Spark Connect server, which has its own Java and its own memory. Raises
    `kafka_shim.pipeline.java.NoJava`, `Unfetched` and `NoConnector`. Workers of a cluster need this package and pyarrow
    in the Python that `PYSPARK_PYTHON` names there; on this machine the workers use this Python.
    """
    if master.startswith(REMOTE):
        return _connected(master, config or {})
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    local = master.startswith("local") or "127.0.0.1" in master or "localhost" in master
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # By default workers take the python3 of PATH, which may lack the packages of this Python.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {**_ALWAYS, **(_ON_THIS_MACHINE if local else {}), **(config or {})}
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    # The launcher is itself a Java process that only builds a command line.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    spark = _started(builder)
    spark.sparkContext.setLogLevel("ERROR")
    return spark

"""Makes the Spark session the pipeline runs in. It does not know what is computed.

What is set here is what the jobs rely on (UTC, the same Python on every worker) and what a single machine wants (few
shuffle partitions, no web page). All of it can be overridden by `config`, and none of it is in the way of a cluster:
`master` alone says where the work is done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

from kafka_shim.pipeline.java import find_java

SHUFFLE_PARTITIONS: Final = 64
"""How many parts a shuffle has before Spark puts small ones together. A multiple of the number of buckets: what is
brought together by group is then in one bucket, as Spark hashes both alike."""

_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # A task writes files for several groups' buckets at once; without this it sorts all of its rows first.
    "spark.sql.maxConcurrentOutputFileWriters": "32",
    # And each of these files holds back as much as a row group of each column before it writes.
    "spark.hadoop.parquet.block.size": str(16 << 20),
    "spark.hadoop.parquet.page.size": str(128 << 10),
    # What was compiled for a query is kept for the next one like it: a run has several hundred, a stream's batches the
    # same ones each time. Spark keeps 100.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # A stream goes on from its last batch; Spark keeps files about a hundred.
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    # Python workers keep what they free for the next part of a file, instead of having the system clear pages anew.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    # A tenth larger than at the usual 3.
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
LITTLE_BYTES: Final = 32 << 20
"""So many bytes to read are little: starting and planning takes longer than the work."""
_QUICK: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=200m -XX:MetaspaceSize=256m -Xms400m"
)
"""Java is to compile little and to collect nothing: Spark's classes alone take more than it has at first."""
LITTLE: Final = {
    # To find the best plan, to look whether it is sound, and to compile it takes longer than any plan does.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.lightweightPlanChangeValidation": "false",
    # What Spark's page says of a plan is put together whether there is a page or not.
    "spark.sql.ui.explainMode": "simple",
    # One task for each stage; several steps are at work anyhow.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "0",
    "spark.driver.extraJavaOptions": _QUICK,
    "spark.executor.extraJavaOptions": _QUICK,
}
"""Settings of a session for little data."""
_ASKED_OFTEN: Final = ("PythonUtils", "PythonSQLUtils", "org.apache.spark.sql.functions")
"""Classes that PySpark asks Java for with nearly every call, which then looks through some three hundred jars for names
that are in none. They are kept once they were found."""
_ON_THIS_MACHINE: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
}


def session(
    master: str = "local[*]", *, name: str = "kafka-shim pipeline", config: Mapping[str, str] | None = None
) -> SparkSession:
    """The session at `master`. The sources are registered by whoever reads them by name: it takes Spark a second.

    Raises `kafka_shim.pipeline.java.NoJava`. The workers of a cluster need this package and pyarrow in the Python that
    `PYSPARK_PYTHON` names there; here it is this Python.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    local = master.startswith("local") or "127.0.0.1" in master or "localhost" in master
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Otherwise the workers take the python3 of PATH, which need not have what this one has.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {**_ALWAYS, **(_ON_THIS_MACHINE if local else {}), **(config or {})}
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    # The launcher is a Java itself, which only puts together a command.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    jvm = spark.sparkContext._jvm
    for name in _ASKED_OFTEN:
        setattr(jvm, name, getattr(jvm, name))
    return spark

"""Spark's package cache in the tests: each release of Spark has its own folder."""

import os
from pathlib import Path

import pyspark

from kafka_shim.conformance.targets.kafka import cache_folder, jars_of
from kafka_shim.pipeline.connectors import for_kafka

SETTINGS = {
    # Two processes that fetch one package into one folder at the same time disturb each other.
    "spark.jars.ivy": str(cache_folder() / f"spark-{pyspark.__version__}"),
    "spark.jars.ivySettings": str(Path(__file__).with_name("ivysettings.xml")),
}


def jars_for_kafka() -> str:
    """Return Spark's connector for Kafka and its dependencies, for `spark.jars`. Raises TargetError."""
    package = for_kafka()
    theirs = {jar.name for jar in (Path(pyspark.__file__).parent / "jars").iterdir()}
    jars = jars_of(package.partition(":")[2].replace(":", "-"), package).split(os.pathsep)
    return ",".join(jar for jar in jars if Path(jar).name not in theirs)

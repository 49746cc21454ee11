"""How the Sparks of the tests fetch packages: once, each into a folder of its own that is kept."""

import os
from pathlib import Path

import pyspark

from kafka_shim.conformance.targets.kafka import cache_folder, jars_of
from kafka_shim.pipeline.connectors import for_kafka

SETTINGS = {
    # Two that fetch one package into one folder at a time get into each other's way.
    "spark.jars.ivy": str(cache_folder() / f"spark-{pyspark.__version__}"),
    "spark.jars.ivySettings": str(Path(__file__).with_name("ivysettings.xml")),
}


def jars_for_kafka() -> str:
    """Spark's connector for Kafka and what it needs that Spark has not, as `spark.jars` has it. Raises TargetError."""
    package = for_kafka()
    theirs = {jar.name for jar in (Path(pyspark.__file__).parent / "jars").iterdir()}
    found = jars_of(package.partition(":")[2].replace(":", "-"), package).split(os.pathsep)
    return ",".join(jar for jar in found if Path(jar).name not in theirs)

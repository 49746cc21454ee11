"""What Spark needs besides itself to read from Kafka, to write tables of lakes, and to write to a store: packages and
settings. It does not know what is read and written.

Spark fetches the packages when it starts, and keeps them. Connectors for Delta and Iceberg are published for Spark 4.1,
Spark's own for Kafka with most of its releases.
For S3 Hadoop asks for all modules of AWS at once, which are 600 MB; those that it uses are 30.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pyspark

LINE: Final = "4.1"
"""The line of Spark that both connectors are published for."""
PACKAGES: Final = {
    "delta": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
}
KAFKA: Final = "kafka"
"""What reads from Kafka, as a need."""
_FOR_KAFKA: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_KAFKA_RELEASES: Final = {"4.1": "4.1.3", "4.2": "4.2.0", "4.3": "4.2.0"}
"""By line of Spark, the newest release of its connector that is published and works with it; else it is Spark's own."""
_EXTENSIONS: Final = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
_HADOOP_AWS: Final = "org.apache.hadoop:hadoop-aws"
_AWS: Final = "software.amazon.awssdk"
_AWS_MODULES: Final = ("s3", "s3-transfer-manager", "sts")
_AWS_OF_HADOOP: Final = {"3.4": "2.29.52", "3.5": "2.35.4"}
"""By line of Hadoop, the release of AWS's modules that it was built with."""
_IN_SPARK: Final = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")
"""What packages ask for that Spark has."""
_PACKAGES: Final = "spark.jars.packages"
_EXCLUDED: Final = "spark.jars.excludes"
_EXTENDED: Final = "spark.sql.extensions"
_CATALOG: Final = "spark.sql.catalog.spark_catalog"


class NoConnector(RuntimeError):
    """There is no connector for this Spark, or nothing says where it is to connect to; the message is one sentence."""


def settings(needs: Iterable[str], given: Mapping[str, str] | None = None, out: str = "") -> dict[str, str]:
    """Spark's settings for a session that needs some of the formats (`kafka_shim.pipeline.formats`) or `KAFKA`, and
    writes to the address `out`, instead of those `given` by the user, which they contain. A user who gives jars has the
    connectors. Raises NoConnector."""
    given = given or {}
    needs = {each.partition(":")[0] for each in needs}
    names = sorted(needs & {*PACKAGES})
    if names and not pyspark.__version__.startswith(f"{LINE}."):
        raise NoConnector(
            f"{', '.join(names)} needs PySpark {LINE}, for which connectors are published:"
            f" pip install 'pyspark=={LINE}.*'"
        )
    packages = [PACKAGES[name] for name in names] + ([for_kafka()] if KAFKA in needs else [])
    found = {}
    store = _of_s3(_hadoop()) if out.partition("://")[0] == "s3a" else []
    if (packages or store) and "spark.jars" not in given:
        named = {_artifact(each) for each in given.get(_PACKAGES, "").split(",")}
        ours = [each for each in [*packages, *store] if _artifact(each) not in named]
        found[_PACKAGES] = _with(given, _PACKAGES, ours)
        left_out = [*_IN_SPARK, *([f"{_AWS}:bundle"] if len(store) > 1 else [])]
        found[_EXCLUDED] = _with(given, _EXCLUDED, left_out)
    if names:
        found[_EXTENDED] = _with(given, _EXTENDED, [_EXTENSIONS[name] for name in names])
    if "delta" in names and _CATALOG not in given:
        found[_CATALOG] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    return found


def for_kafka() -> str:
    """Spark's connector for Kafka, for this PySpark."""
    line = ".".join(pyspark.__version__.split(".")[:2])
    return f"{_FOR_KAFKA}:{_KAFKA_RELEASES.get(line, pyspark.__version__)}"


def _with(given: Mapping[str, str], name: str, more: list[str]) -> str:
    """What the user gave for a setting, and more."""
    return ",".join([*filter(None, given.get(name, "").split(",")), *more])


def _of_s3(hadoop: str) -> list[str]:
    # Of a Hadoop that is not known here, all that it asks for.
    release = _AWS_OF_HADOOP.get(hadoop.rpartition(".")[0])
    modules = [f"{_AWS}:{name}:{release}" for name in _AWS_MODULES] if release else []
    return [f"{_HADOOP_AWS}:{hadoop}", *modules]


def _hadoop() -> str:
    """The release of Hadoop that is in this PySpark."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return jar.stem.rpartition("-")[2]


def _artifact(package: str) -> str:
    """Group and name of a package, without its release."""
    return package.rpartition(":")[0]

"""Packages and settings that Spark needs for Kafka, for Delta and Iceberg tables, and for stores.

Spark downloads the packages when it starts and caches them. Connectors for Delta and Iceberg are published for
Spark 4.1, Spark's own connector for Kafka with most releases of Spark. For S3, Hadoop depends on all modules of AWS,
which are 600 MB; the modules that it uses are 30 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pyspark

LINE: Final = "4.1"
"""The line of Spark for which the connectors of both formats are published."""
PACKAGES: Final = {
    "delta": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
}
KAFKA: Final = "kafka"
"""The need for Spark's connector for Kafka, as `settings` takes it."""
_FOR_KAFKA: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_KAFKA_RELEASES: Final = {"4.1": "4.1.3", "4.2": "4.2.0", "4.3": "4.2.0"}
"""By line of Spark: the newest published release of its connector that works with it. Default: the release of Spark."""
_EXTENSIONS: Final = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
_HADOOP_AWS: Final = "org.apache.hadoop:hadoop-aws"
_AWS: Final = "software.amazon.awssdk"
_AWS_MODULES: Final = ("s3", "s3-transfer-manager", "sts")
_AWS_OF_HADOOP: Final = {"3.4": "2.29.52", "3.5": "2.35.4"}
"""By line of Hadoop: the release of AWS's modules that it was built with."""
_IN_SPARK: Final = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")
"""Dependencies of the packages that Spark already has."""
_PACKAGES: Final = "spark.jars.packages"
_EXCLUDED: Final = "spark.jars.excludes"
_EXTENDED: Final = "spark.sql.extensions"
_CATALOG: Final = "spark.sql.catalog.spark_catalog"


class NoConnector(RuntimeError):
    """No connector exists for this Spark, or its configuration is missing; the message is one sentence."""


def settings(needs: Iterable[str], user: Mapping[str, str] | None = None, out: str = "") -> dict[str, str]:
    """Return Spark's settings for a session with these formats (`kafka_shim.pipeline.formats`) or `KAFKA`.

    `out` is the address to write to. Each returned setting includes the value of the user. If the user sets
    `spark.jars`, these must include the connectors. Raises NoConnector.
    """
    user = user or {}
    needs = {each.partition(":")[0] for each in needs}
    names = sorted(needs & {*PACKAGES})
    if names and not pyspark.__version__.startswith(f"{LINE}."):
        raise NoConnector(
            f"{', '.join(names)} needs PySpark {LINE}, for which connectors are published:"
            f" pip install 'pyspark=={LINE}.*'"
        )
    packages = [PACKAGES[name] for name in names] + ([for_kafka()] if KAFKA in needs else [])
    result = {}
    store = _of_s3(_hadoop()) if out.partition("://")[0] == "s3a" else []
    if (packages or store) and "spark.jars" not in user:
        present = {_artifact(each) for each in user.get(_PACKAGES, "").split(",")}
        ours = [each for each in [*packages, *store] if _artifact(each) not in present]
        result[_PACKAGES] = _with(user, _PACKAGES, ours)
        left_out = [*_IN_SPARK, *([f"{_AWS}:bundle"] if len(store) > 1 else [])]
        result[_EXCLUDED] = _with(user, _EXCLUDED, left_out)
    if names:
        result[_EXTENDED] = _with(user, _EXTENDED, [_EXTENSIONS[name] for name in names])
    if "delta" in names and _CATALOG not in user:
        result[_CATALOG] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    return result


def for_kafka() -> str:
    """Return the package of Spark's connector for Kafka, for this PySpark."""
    line = ".".join(pyspark.__version__.split(".")[:2])
    return f"{_FOR_KAFKA}:{_KAFKA_RELEASES.get(line, pyspark.__version__)}"


def _with(user: Mapping[str, str], name: str, more: list[str]) -> str:
    """Append to a comma-separated setting of the user."""
    return ",".join([*filter(None, user.get(name, "").split(",")), *more])


def _of_s3(hadoop: str) -> list[str]:
    # For an unknown release of Hadoop, take all modules of AWS.
    release = _AWS_OF_HADOOP.get(hadoop.rpartition(".")[0])
    modules = [f"{_AWS}:{name}:{release}" for name in _AWS_MODULES] if release else []
    return [f"{_HADOOP_AWS}:{hadoop}", *modules]


def _hadoop() -> str:
    """Return the release of Hadoop in this PySpark."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return jar.stem.rpartition("-")[2]


def _artifact(package: str) -> str:
    """Return group and name of a package, without its release."""
    return package.rpartition(":")[0]

"""What Spark fetches for Kafka, for formats of lakes and for stores."""

import pyspark
import pytest

from kafka_shim.pipeline import connectors


def test_what_a_format_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.9")
    found = connectors.settings(["iceberg:lake.kafka", "delta"])
    assert found["spark.jars.packages"] == ",".join(connectors.PACKAGES.values())
    assert connectors.settings(["parquet"]) == {}
    # A user who gives jars has the connectors; packages of a user come before ours.
    assert "spark.jars.packages" not in connectors.settings(["delta"], {"spark.jars": "a.jar"})
    given = {"spark.jars.packages": "g:driver:1,io.delta:delta-spark_4.1_2.13:4.4.1"}
    assert connectors.settings(["delta"], given)["spark.jars.packages"] == given["spark.jars.packages"]


@pytest.mark.parametrize(
    ("release", "connector"), [("4.1.4", "4.1.3"), ("4.2.1", "4.2.0"), ("4.3.0", "4.2.0"), ("4.4.0", "4.4.0")]
)
def test_what_reads_from_kafka_is_spark_s_own(monkeypatch: pytest.MonkeyPatch, release: str, connector: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", release)
    package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{connector}"
    found = connectors.settings(["parquet", connectors.KAFKA])
    assert found["spark.jars.packages"] == package
    # Hadoop's jars, which Spark has, are not fetched again.
    assert "org.apache.hadoop:hadoop-client-runtime" in found["spark.jars.excludes"].split(",")
    assert connectors.settings([connectors.KAFKA], {"spark.jars": "a.jar"}) == {}
    given = {"spark.jars.packages": f"{package}-mine"}
    assert connectors.settings([connectors.KAFKA], given)["spark.jars.packages"] == given["spark.jars.packages"]


def test_a_format_that_this_spark_has_no_connector_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    with pytest.raises(connectors.NoConnector, match=r"delta needs PySpark 4\.1"):
        connectors.settings(["delta"])


def test_of_s3_only_the_modules_that_hadoop_uses_are_fetched() -> None:
    found = connectors.settings([], {}, "s3a://bucket/out")
    names = [each.split(":")[1] for each in found["spark.jars.packages"].split(",")]
    assert names == ["hadoop-aws", "s3", "s3-transfer-manager", "sts"]
    assert "software.amazon.awssdk:bundle" in found["spark.jars.excludes"].split(",")

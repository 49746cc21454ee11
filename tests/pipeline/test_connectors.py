"""The packages that Spark fetches for Kafka, for lake formats and for stores."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from kafka_shim.pipeline import connectors


def test_a_format_adds_its_package_and_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.9")
    result = connectors.settings(["iceberg:lake.kafka", "delta"])
    assert result["spark.jars.packages"] == ",".join(connectors.PACKAGES.values())
    assert connectors.settings(["parquet"]) == {}
    # With `spark.jars` the user provides the connectors; the user's packages come before ours.
    assert "spark.jars.packages" not in connectors.settings(["delta"], {"spark.jars": "a.jar"})
    user = {"spark.jars.packages": "g:driver:1,io.delta:delta-spark_4.1_2.13:4.4.1"}
    assert connectors.settings(["delta"], user)["spark.jars.packages"] == user["spark.jars.packages"]


@pytest.mark.parametrize(
    ("release", "connector"), [("4.1.4", "4.1.3"), ("4.2.1", "4.2.0"), ("4.3.0", "4.2.0"), ("4.4.0", "4.4.0")]
)
def test_kafka_is_read_by_spark_s_own_connector(monkeypatch: pytest.MonkeyPatch, release: str, connector: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", release)
    package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{connector}"
    result = connectors.settings(["parquet", connectors.KAFKA])
    assert result["spark.jars.packages"] == package
    # Spark already has Hadoop's jars.
    assert "org.apache.hadoop:hadoop-client-runtime" in result["spark.jars.excludes"].split(",")
    assert connectors.settings([connectors.KAFKA], {"spark.jars": "a.jar"}) == {}
    user = {"spark.jars.packages": f"{package}-mine"}
    assert connectors.settings([connectors.KAFKA], user)["spark.jars.packages"] == user["spark.jars.packages"]


def test_a_format_without_a_connector_for_this_spark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    with pytest.raises(connectors.NoConnector, match=r"delta needs PySpark 4\.1"):
        connectors.settings(["delta"])


def test_only_the_aws_modules_that_hadoop_uses_are_fetched() -> None:
    result = connectors.settings([], {}, "s3a://bucket/out")
    names = [each.split(":")[1] for each in result["spark.jars.packages"].split(",")]
    assert names == ["hadoop-aws", "s3", "s3-transfer-manager", "sts"]
    assert "software.amazon.awssdk:bundle" in result["spark.jars.excludes"].split(",")


REPOSITORY = """<ivysettings><settings defaultResolver="here"/>
<resolvers><filesystem name="here"><artifact pattern="{}/[artifact].[ext]"/></filesystem></resolvers></ivysettings>"""


@pytest.mark.second_stage("Spark and its time")
def test_a_package_that_cannot_be_fetched_is_one_sentence(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("{}\n")
    repository = tmp_path / "ivysettings.xml"
    repository.write_text(REPOSITORY.format(tmp_path))
    settings = {
        "spark.jars.packages": "org.example:absent:1.0",
        "spark.jars.ivySettings": str(repository),
        "spark.jars.ivy": str(tmp_path / "ivy"),
    }
    config = [word for name, value in settings.items() for word in ("--config", f"{name}={value}")]
    command = [sys.executable, "-m", "kafka_shim.pipeline", "run", str(trace), "--out", str(tmp_path / "out"), *config]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: Spark cannot fetch org.example:absent:1.0")
    assert done.stderr.count("\n") == 1

"""A run over Spark Connect: the client has no Java, and all work is that of the server."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from bench.killing import same_tables
from kafka_shim.conformance.targets.base import Endpoint, free_port, wait_until_listening
from kafka_shim.pipeline.cli import cli
from kafka_shim.pipeline.java import find_java
from kafka_shim.pipeline.warehouse import Warehouse

from .conftest import RECORDINGS

pytest.importorskip("grpc", reason="the client of Spark Connect is not installed")

TABLES = ("events", "rounds", "membership", "ownership", "offset_history", "lag", "log_records")


@pytest.fixture
def server(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The address of a Spark Connect server on this machine."""
    port = free_port()
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(tmp_path),
    }
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    places = {"SPARK_HOME": str(home), "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=tmp_path, env={**os.environ, **places, "PYTHONPATH": os.getcwd()}
        )
    try:
        wait_until_listening(Endpoint("127.0.0.1", port), process, 300)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.everything("Spark Connect's server")
def test_a_run_over_connect_has_the_tables_of_a_run_here(
    server: str, spark: SparkSession, recorded_day: Warehouse, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    # There is no Java to find here.
    environment = {**os.environ, "JAVA_HOME": str(tmp_path / "no-java")}

    def pipeline(*arguments: str) -> str:
        command = [sys.executable, "-m", "kafka_shim", "pipeline", *arguments, "--master", server]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    summary = json.loads(pipeline("run", str(RECORDINGS / "kafka-4.2"), "--out", str(out)))
    assert [summary[name] for name in ("violations", "quarantine", "gaps")] == [0, 0, 0]
    same_tables(Warehouse(spark, str(out)), recorded_day, TABLES)
    causes = pipeline("sql", str(out), "select cause, sum(rounds) as rounds from causes group by cause", "--json")
    expected = recorded_day.result("causes").groupBy("cause").sum("rounds").collect()
    assert {tuple(json.loads(line).values()) for line in causes.splitlines()} == {tuple(row) for row in expected}


@pytest.mark.parametrize("command", [["stream", "."], ["run", "--kafka", "ADDRESS"]])
def test_what_needs_a_spark_of_its_own_is_refused(command: list[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        words = [address if word == "ADDRESS" else word for word in command]
        done = CliRunner().invoke(cli, [*words, "--out", str(tmp_path / "out"), "--master", f"sc://{address}"])
    assert done.exit_code == 2
    assert "needs a Spark of its own, not a Spark Connect server" in done.output

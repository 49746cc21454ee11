"""One Spark session and one set of generated data for all tests of the pipeline.

Several pytest workers share the data: the first one that needs it generates it, the others wait for it.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (requirements/spark.txt)")

from pyspark.sql import SparkSession

from kafka_shim.conformance.targets.base import TargetError
from kafka_shim.pipeline.generate.write import generate
from kafka_shim.pipeline.java import NoJava, find_java
from kafka_shim.pipeline.replays import replays
from kafka_shim.pipeline.run import answer, build, sort_out
from kafka_shim.pipeline.session import LITTLE, session
from kafka_shim.pipeline.sources import register
from kafka_shim.pipeline.warehouse import Warehouse
from tests.once import made_once

from .packages import jars_for_kafka

GROUPS = 28
SEED = 11
RECORDINGS = Path(__file__).parent / "recordings"
RECORDED_LOGS = Path(__file__).parents[1] / "sources" / "recorded"
LOGS = (
    "3.9/rolling-restart-java-3.9.2",
    "3.9/deploy-at-once-kafka-python-3.0",
    "3.9/killed-for-good-kafka-python-3.0",
    "3.9/poll-interval-exceeded-java-3.9.2",
    "4.4/a-consumer-is-killed-confluent-kafka-2.16-consumer",
)
WITH_EPOCHS = {
    *("events", "requests", "commit_events", "renewals", "trace_gaps", "lives", "membership", "rounds", "ownership"),
    *(
        "partition_pauses",
        "violations",
        "trace_history",
        "log_history",
        "log_records",
        "trace_quarantine",
        "log_quarantine",
    ),
}
"""The tables that differ for groups with epochs."""


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "pipeline"


@pytest.fixture(scope="session")
def spark(shared: Path) -> Iterator[SparkSession]:
    try:
        find_java()
    except NoJava as error:
        pytest.skip(str(error))
    config = {**LITTLE, "spark.driver.memory": "1500m"}
    with suppress(TargetError):
        made_once(shared / "jars", jars_for_kafka)
        config["spark.jars"] = jars_for_kafka()
    session_of_tests = session("local[2]", name="tests", config=config)
    register(session_of_tests)
    yield session_of_tests
    session_of_tests.stop()


@pytest.fixture
def connector(spark: SparkSession) -> SparkSession:
    """The session, with the connector for Kafka."""
    try:
        jars_for_kafka()
    except TargetError as error:
        pytest.skip(str(error))
    return spark


@pytest.fixture(scope="session")
def data(shared: Path) -> Path:
    """A trace and segments of some groups, with each kind of fault in one of them."""
    folder = shared / "data"
    return made_once(folder, lambda: generate(folder, groups=GROUPS, seed=SEED, nodes=1))


@pytest.fixture(scope="session")
def faults(data: Path) -> list[dict[str, Any]]:
    faults: list[dict[str, Any]] = json.loads((data / "faults.json").read_text())
    return faults


@pytest.fixture(scope="session")
def warehouse(spark: SparkSession, shared: Path, data: Path) -> Warehouse:
    """All tables and answers of the generated data."""
    folder = shared / "warehouse"
    warehouse = Warehouse(spark, str(folder))

    def make() -> None:
        with warehouse.change("run"):
            build(warehouse, sort_out([str(data)]))
            answer(warehouse)
            warehouse.write_result("replays", replays(warehouse))

    made_once(folder, make)
    warehouse.refresh()
    return warehouse


@pytest.fixture(scope="session")
def recorded_day(spark: SparkSession, shared: Path) -> Warehouse:
    """All tables and answers of the recording of a real Kafka with three groups (`recordings/kafka-4.2`)."""
    folder = shared / "recorded"
    # As the commands have it for input of this size.
    warehouse = Warehouse(spark, str(folder), little=True)

    def make() -> None:
        with warehouse.change("run"):
            build(warehouse, sort_out([str(RECORDINGS / "kafka-4.2")]))
            answer(warehouse)

    made_once(folder, make)
    warehouse.refresh()
    return warehouse


@pytest.fixture(scope="session")
def recorded_logs(spark: SparkSession, shared: Path) -> Warehouse:
    """All tables and answers of the packed logs of a broker and its clients, of five groups (`tests/sources`)."""
    folder = shared / "logs"
    warehouse = Warehouse(spark, str(folder), little=True)

    def make() -> None:
        with warehouse.change("run"):
            build(warehouse, sort_out([str(RECORDED_LOGS / name) for name in LOGS]))
            answer(warehouse)

    made_once(folder, make)
    warehouse.refresh()
    return warehouse


@pytest.fixture(scope="session")
def with_epochs(spark: SparkSession, shared: Path) -> Warehouse:
    """The tables of groups with epochs, from three kinds of traces.

    Traces written by the rules, by relays in front of them, and the recording of a real Kafka (`kafka-4.2-epochs`),
    with a trace that is named by its run.
    """
    from tests.pipeline.test_epochs import write_stories

    folder = shared / "epochs"
    warehouse = Warehouse(spark, str(folder / "out"), only=WITH_EPOCHS)

    def make() -> None:
        write_stories(folder / "stories")
        with warehouse.change("run"):
            build(warehouse, sort_out([str(folder / "stories"), str(RECORDINGS / "kafka-4.2-epochs")]))

    made_once(folder, make)
    warehouse.refresh()
    return warehouse

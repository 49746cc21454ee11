"""A run of one question reads and computes the tables that this question needs, and no others."""

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession

from kafka_shim.pipeline.cli import cli
from kafka_shim.pipeline.needs import ANSWER_NEEDS, TABLE_NEEDS, places_for
from kafka_shim.pipeline.run import answer, answers, build, derived, is_little, sort_out
from kafka_shim.pipeline.schemas import PLACES, STEADY
from kafka_shim.pipeline.session import LITTLE_BYTES, RARE
from kafka_shim.pipeline.tables.columns import Scope
from kafka_shim.pipeline.warehouse import Warehouse

RECORDING = Path(__file__).parent / "recordings" / "lives" / "trace"


class Noting(Warehouse):
    """A warehouse that notes the places that are read."""

    def __init__(self, of: Warehouse) -> None:
        super().__init__(of.spark, of.path)
        self.places: set[str] = set()

    def read(self, name: str, scope: Scope | None = None, *, steady: bool | None = None) -> DataFrame:
        places = {place for place, table in PLACES.items() if table == name}
        self.places |= {place for place in places or {name} if steady is None or steady == (place in STEADY.values())}
        return super().read(name, scope, steady=steady)


@pytest.mark.everything("every step is planned once more")
def test_needs_are_the_places_that_each_step_reads(warehouse: Warehouse) -> None:
    noting = Noting(warehouse)
    made = {each.place: each.rows for each in derived(noting)}
    assert made.keys() == TABLE_NEEDS.keys()
    assert answers(noting).keys() | {"replays"} == ANSWER_NEEDS.keys()
    steady = {*STEADY.values()}
    for name, rows in [*made.items(), *answers(noting).items()]:
        noting.places.clear()
        rows()
        needs = {*TABLE_NEEDS.get(name, ()), *ANSWER_NEEDS.get(name, ())}
        # A read of a whole table names all its places, even if the step drops those of commits and heartbeats.
        assert needs <= noting.places, name
        assert noting.places - needs <= steady, name


def test_one_question_reads_a_part_of_the_trace(spark: SparkSession, tmp_path: Path) -> None:
    every = places_for(["causes"])
    assert every == {"causes", "rounds", "events", "lives"}
    one = Warehouse(spark, str(tmp_path / "one"), only=every)
    with one.change("run"):
        build(one, sort_out([str(RECORDING)]))
        answer(one)
    counts: Counter[tuple[str, str]] = Counter()
    for row in one.result("causes").collect():
        counts[row.group_id, row.cause] += row.rounds
    events = [
        json.loads(line) for file in RECORDING.iterdir() for line in gzip.decompress(file.read_bytes()).splitlines()
    ]
    rebalances = [event for event in events if event["event"] in ("round", "epoch")]
    assert counts == Counter((event["group"], event["cause"]) for event in rebalances)
    assert "incomplete" not in one.result("causes").columns
    assert {*(one._tables or {})} == {*every, "causes.csv"}
    reader = Warehouse(spark, one.path)
    assert [name for name in ("rounds", "violations", "requests") if reader.computed(name)] == ["rounds"]


def test_a_question_without_heartbeats_and_commits_has_the_settings_for_small_inputs(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.touch()
    inputs = sort_out([str(tmp_path)])
    os.truncate(file, LITTLE_BYTES + 1)
    assert is_little(inputs, only=places_for(["causes", "blame"]))
    assert not is_little(inputs, only=places_for(["violations"]))
    assert not is_little(inputs)
    os.truncate(file, LITTLE_BYTES * RARE + 1)
    assert not is_little(inputs, only=places_for(["causes"]))


def test_a_question_without_a_table_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["run", str(RECORDING), "--out", str(tmp_path), "--only", "colours"])
    assert done.exit_code == 2
    assert "there is no question colours" in done.output


@pytest.mark.parametrize("name", ["gaps", "commits", "replays", "violations"])
def test_a_question_includes_the_needs_of_its_needs(name: str) -> None:
    places = places_for([name])
    for place in places:
        assert {*TABLE_NEEDS.get(place, ()), *ANSWER_NEEDS.get(place, ())} <= places

"""Segment files of a stopped broker: folders, single segments, damaged ones, and a log beside them."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from kafka_shim.cli import cli
from kafka_shim.persistence.batch import HEADER_SIZE
from tests.sources.offsets_topic.segments import GROUP, Partition

A, B = "app-a-1", "app-b-1"


def run(*arguments: object) -> Any:
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


def made() -> Partition:
    partition = Partition()
    partition.generation(1, {A: {"orders": [0, 1]}})
    partition.generation(2, {A: {"orders": [0]}, B: {"orders": [1]}}, seconds=60)
    partition.commit(17)
    partition.generation(3, {A: {"orders": [0, 1]}}, seconds=60)
    return partition


def test_a_folder_a_folder_of_folders_and_a_segment_say_the_same(tmp_path: Path) -> None:
    place = made().write(tmp_path / "data")
    answers = [
        json.loads(run("why", GROUP, "--offsets", path, "--json").stdout)
        for path in (place, tmp_path / "data", place / "00000000000000000000.log")
    ]
    assert answers[0] == answers[1] == answers[2]
    assert [each["cause"] for each in answers[0]["rebalances"]] == ["NEW_MEMBER", "NEW_MEMBER", "MEMBER_GONE"]
    assert answers[0]["rebalances"][2]["lines"] == ["__consumer_offsets-7@3", "__consumer_offsets-7@3"]


def test_two_replicas_and_a_pattern_of_the_shell_count_once(tmp_path: Path) -> None:
    places = [made().write(tmp_path / each) for each in ("one", "two")]
    answer = run("why", GROUP, "--offsets", places[0], places[1], "--json")
    assert len(json.loads(answer.stdout)["rebalances"]) == 3


def test_a_damaged_batch_is_said_and_the_rest_is_read(tmp_path: Path) -> None:
    partition = made()
    place = partition.write(tmp_path)
    segment = place / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[HEADER_SIZE + 5] ^= 0xFF
    segment.write_bytes(data)
    answer = run("why", GROUP, "--offsets", place)
    assert answer.exit_code == 0
    assert "the checksum is wrong; it was skipped." in answer.stderr
    # The first generation is lost: the second is the oldest, and no rebalance.
    assert "Rebalanced once" in answer.stdout


def test_since_chooses_rebalances_with_what_was_before(tmp_path: Path) -> None:
    place = made().write(tmp_path)
    whole = json.loads(run("why", GROUP, "--offsets", place, "--json").stdout)["rebalances"]
    since = whole[1]["started"] + 1
    moment = datetime.fromtimestamp(since).isoformat()
    (last,) = json.loads(run("why", GROUP, "--offsets", place, "--since", moment, "--json").stdout)["rebalances"]
    assert (last["cause"], last["trigger"]) == ("MEMBER_GONE", B)


def test_names_of_topics_come_from_the_folders_beside(tmp_path: Path) -> None:
    from kafka_shim.sources.offsets_topic.files import segments_of, topic_names

    place = made().write(tmp_path)
    topic = tmp_path / "orders-0"
    topic.mkdir()
    (topic / "partition.metadata").write_text("version: 0\ntopic_id: Vy_iApHaSz6HwIbqMrYQFg\n")
    assert list(topic_names(segments_of([str(place)])).values()) == ["orders"]


def test_an_unfit_path_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no segment")
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, sentence in (
        (tmp_path / "notes.txt", "is no segment: these end with .log."),
        (empty, "has neither segments (*.log) nor folders __consumer_offsets-N."),
        (tmp_path / "absent", "There is no "),
    ):
        answer = run("why", GROUP, "--offsets", path)
        assert (answer.exit_code, answer.stdout) == (5, "")
        assert sentence in answer.stderr
    assert run("why", "other", "--offsets", made().write(tmp_path / "data")).exit_code == 3


def test_one_record_alone_is_no_calm_group(tmp_path: Path) -> None:
    partition = Partition()
    partition.hole(10)
    partition.generation(12, {A: {"orders": [0, 1]}})
    answer = run("why", GROUP, "--offsets", partition.write(tmp_path))
    assert answer.exit_code == 4
    assert "its records are of generation or epoch 12 alone" in answer.stderr
    assert "compaction has removed them" in answer.stderr


def test_holes_say_from_when_on_the_partition_is_complete(tmp_path: Path) -> None:
    partition = Partition()
    partition.generation(1, {A: {"orders": [0]}})
    partition.hole(5)
    partition.generation(9, {A: {"orders": [0]}, B: {}})
    answer = json.loads(run("why", GROUP, "--offsets", partition.write(tmp_path), "--json").stdout)
    assert any(each.startswith("which rebalances there were before 20") for each in answer["cannot_tell"])


def test_a_member_that_commits_nothing_is_named_beside_one_that_does(tmp_path: Path) -> None:
    partition = Partition()
    partition.generation(1, {A: {"orders": [0]}, B: {"orders": [1]}})
    partition.commit(1, partition=1, seconds=2)
    both = run("why", GROUP, "--offsets", partition.write(tmp_path / "soon")).stderr
    for offset in range(3):
        partition.commit(offset, partition=0, seconds=40)
    partition.generation(2, {A: {"orders": [0]}, B: {"orders": [1]}})
    partition.commit(9, partition=0, seconds=100)
    answer = run("why", GROUP, "--offsets", partition.write(tmp_path / "late")).stderr
    assert "committed nothing" not in both
    assert "app-b-1 has committed nothing for its partition in the 2 min since the newest assignment" in answer
    assert "app-a-1" not in answer


def test_the_trace_of_a_group_is_written_for_other_commands(tmp_path: Path) -> None:
    place, trace = made().write(tmp_path), tmp_path / "trace.jsonl"
    assert run("trace", "from-offsets", place, "--group", GROUP, "--out", trace).exit_code == 0
    of_trace = json.loads(run("why", GROUP, trace, "--json").stdout)
    of_files = json.loads(run("why", GROUP, "--offsets", place, "--json").stdout)
    assert of_trace == of_files
    page = tmp_path / "page.html"
    assert run("trace", "export", trace, "--html", page, "--no-replay").exit_code == 0
    assert page.stat().st_size > 100_000
    assert "MEMBER_GONE" in trace.read_text()
    assert "There is no group absent" in run("trace", "from-offsets", place, "--group", "absent").stderr
    assert run("trace", "from-offsets").exit_code == 2

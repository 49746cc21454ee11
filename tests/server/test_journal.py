"""The file of a journal: it ends at its limit, and the clock stands still while an input is worked on."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from zlib import crc32

import orjson

from kafka_shim.server.journal import Journal


def lines_of(path: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def test_a_journal_ends_before_its_limit_and_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path, max_bytes=1000) as journal:
        journal.begin({"run": "r"})
        worked = 0
        for _ in range(100):
            with journal.input("fire"):
                worked += 1
    assert worked == 100
    assert journal.ended
    assert 750 < path.stat().st_size <= 1000
    assert lines_of(path)[-1]["reason"] == journal.end_reason
    assert "its limit is 1000" in journal.end_reason
    seqs = [line["seq"] for line in lines_of(path)[1:]]
    assert seqs == list(range(1, len(seqs) + 1))


def test_the_journal_of_the_previous_process_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    for run in ("the one that crashed", "the next"):
        with Journal(path) as journal:
            journal.begin({"run": run})
    assert lines_of(tmp_path / "journal.jsonl.1")[0]["run"] == "the one that crashed"
    assert lines_of(path)[0]["run"] == "the next"


def test_the_clock_stands_still_while_an_input_is_handled(tmp_path: Path) -> None:
    ticking = count(5.0)
    with Journal(tmp_path / "journal.jsonl", real=lambda: next(ticking)) as journal:
        assert journal.clock() == 5.0
        with journal.input("fire"):
            assert [journal.clock(), journal.clock()] == [6.0, 6.0]
        assert journal.clock() == 7.0


def test_an_event_within_an_input_is_no_input(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.jsonl", real=lambda: 1.5) as journal:
        with journal.input("fire"), journal.input("lost", connection=3):
            journal.answered(3, b"bytes", 0)
        with journal.input("lost", connection=4):
            pass
    fire, lost = lines_of(tmp_path / "journal.jsonl")
    assert fire == {"seq": 1, "at": 1.5, "in": "fire", "out": [[3, 5, crc32(b"bytes"), 0]]}
    assert lost == {"seq": 2, "at": 1.5, "in": "lost", "connection": 4}


def test_journal_names_the_event_that_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.begin({"run": "r"})
        with journal.input("fire"):
            pass
        journal.end("a fault is in force")
        with journal.input("fire"):
            pass
        # Other processes see it at once, not at the end of this one.
        assert [line.get("in") for line in lines_of(path)] == [None, "fire", "end"]
    assert [line.get("in") for line in lines_of(path)] == [None, "fire", "end"]

"""Reading of traces: packed, rotated, unfinished and damaged files."""

import gzip
import io
import json
from pathlib import Path

import cramjam
import orjson
import pytest

from kafka_shim.trace.completeness import Missing
from kafka_shim.trace.reading import STDIN, UnreadableTrace, files_of, read

EVENTS = [
    {"event": "trace", "seq": 1, "wall": 10.0},
    {"event": "member", "group": "billing", "seq": 2, "wall": 11.0},
    {"event": "exchange", "api": "Heartbeat", "group": "billing", "error": 0, "seq": 3, "wall": 12.0},
    {"event": "exchange", "api": "Heartbeat", "group": "billing", "error": 27, "seq": 4, "wall": 13.0},
    {"event": "member", "group": "shipping", "seq": 5, "wall": 14.0},
]
LINES = b"".join(orjson.dumps(event) + b"\n" for event in EVENTS)


def zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


def numbers(*paths: Path, **options: object) -> list[int]:
    return [event["seq"] for event in read(paths, **options)]


@pytest.mark.parametrize(
    ("name", "pack"),
    [("t.jsonl", bytes), ("t.jsonl.gz", gzip.compress), ("t.zst", zstd)],
)
def test_reading_unpacks_a_trace(tmp_path: Path, name: str, pack: object) -> None:
    path = tmp_path / name
    path.write_bytes(pack(LINES))
    assert numbers(path) == [1, 2, 3, 4, 5]


def test_reading_a_group_keeps_all_its_events(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(LINES)
    assert numbers(path, group="billing") == [1, 2, 3, 4]


@pytest.mark.parametrize("group", ["billing", "zahlung-ü", 'a "b"'])
@pytest.mark.parametrize("space", ["", " "])
@pytest.mark.parametrize("escapes", [True, False])
def test_another_program_may_have_written_the_lines(tmp_path: Path, group: str, space: str, escapes: bool) -> None:
    path = tmp_path / "t.jsonl"
    of_group = {"billing": group, "shipping": f"not {group}"}
    renamed = [event | ({"group": of_group[event["group"]]} if "group" in event else {}) for event in EVENTS]
    renamed.append({"event": "trace", "run": "the second", "seq": 3, "wall": 15.0})
    separators = (f",{space}", f":{space}")
    path.write_text("".join(json.dumps(e, ensure_ascii=escapes, separators=separators) + "\n" for e in renamed))
    assert numbers(path, group=group) == [1, 2, 3, 4, 3]
    assert missing_in(path, group=group) == [f"the first 2 events are not in {path}, it begins with seq 3"]


def test_since_and_until_are_wall_clock_times(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(LINES)
    assert numbers(path, since=11.0, until=13.0) == [2, 3, 4]


def test_files_that_were_rotated_away_come_first(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for name, number in (("t.jsonl", 3), ("t.jsonl.10", 2), ("t.jsonl.9", 1)):
        (tmp_path / name).write_bytes(orjson.dumps({"event": "member", "seq": number}) + b"\n")
    assert [file.name for file in files_of(path)] == ["t.jsonl.9", "t.jsonl.10", "t.jsonl"]
    assert numbers(path) == [1, 2, 3]


def test_reading_merges_several_traces_by_time(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b'{"event":"a","seq":1,"wall":1}\n{"event":"a","seq":3,"wall":3}\n')
    two.write_bytes(b'{"event":"a","seq":2,"wall":2}\n{"event":"a","seq":4,"wall":4}\n')
    assert numbers(one, two) == [1, 2, 3, 4]


def test_reading_accepts_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(LINES))))
    assert numbers(STDIN) == [1, 2, 3, 4, 5]


def test_reading_skips_an_unfinished_last_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(LINES + b'{"event":"mem')
    assert numbers(path) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"not an event\n" + LINES, "Line 1 of .* is not an event of a trace."),
        (LINES + b"[1]\n", "Line 6 of .* is not an event of a trace."),
        (gzip.compress(LINES)[:-9], "is not a complete gzip file."),
        (bytes(cramjam.zstd.compress(LINES))[:-3], "is not a complete zstd file."),
    ],
)
def test_a_file_that_is_not_a_trace_is_refused_in_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(UnreadableTrace, match=sentence):
        numbers(path)


def test_a_missing_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTrace, match=r"There is no .*missing"):
        numbers(tmp_path / "missing")
    with pytest.raises(UnreadableTrace, match="is a folder"):
        numbers(tmp_path)


def missing_in(*paths: Path, group: str | None = None) -> list[str]:
    missing = Missing()
    assert all(read(paths, group=group, missing=missing))
    return list(missing.sentences)


def test_files_that_were_rotated_away_are_read_on_after_a_cut_end(tmp_path: Path) -> None:
    older, newer = tmp_path / "t.jsonl.1", tmp_path / "t.jsonl"
    older.write_bytes(LINES + b'{"event":"mem')
    newer.write_bytes(LINES)
    assert numbers(newer) == [1, 2, 3, 4, 5] * 2
    assert missing_in(newer) == [f"{older} ends in the middle of line 6, and what came after is not there"]


def begin(run: str, seq: int) -> bytes:
    return orjson.dumps({"event": "trace", "run": run, "seq": seq, "wall": 1.0}) + b"\n"


def events(*seqs: int) -> bytes:
    return b"".join(b'{"event":"member","group":"billing","seq":%d,"wall":1.0}\n' % seq for seq in seqs)


@pytest.mark.parametrize(
    ("files", "lost"),
    [
        ([begin("a", 1) + events(2, 3)], []),
        # Rotated files, and a server that started again.
        ([begin("a", 1) + events(2), begin("a", 3) + events(4)], []),
        ([begin("a", 1) + events(2, 3), begin("b", 1) + events(2)], []),
        ([begin("a", 1) + events(2, 3) + begin("b", 1) + events(2)], []),
        # A line without a newline at the end is whole, if it is JSON; a trace needs no numbers.
        ([(begin("a", 1) + events(2))[:-1]], []),
        ([b'{"event":"member","wall":1.0}\n' * 2], []),
        ([begin("a", 1) + events(2, 5)], ["2 events between seq 2 and 5 are not in {}"]),
        ([begin("a", 1) + events(2), begin("a", 4)], ["1 event between seq 2 and 4 is not in {}"]),
        ([begin("a", 1), begin("b", 1) + events(3)], ["1 event between seq 1 and 3 is not in {}"]),
        ([events(8, 9)], ["the first 7 events are not in {}, it begins with seq 8"]),
        ([events(2)], ["the first event is not in {}, it begins with seq 2"]),
        ([events(2, 5, 9)], ["6 events are not in {}, in 3 places, the first after seq 0"]),
        ([], ["{} is empty"]),
    ],
)
def test_gaps_in_the_numbers_are_found_and_no_others(tmp_path: Path, files: list[bytes], lost: list[str]) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(files[-1] if files else b"")
    for number, content in enumerate(files[:-1], 1):
        (tmp_path / f"t.jsonl.{number}").write_bytes(content)
    for group in (None, "billing", "shipping"):
        assert missing_in(path, group=group) == [each.format(path) for each in lost]


@pytest.mark.parametrize("group", [None, "billing"])
def test_a_line_of_no_group_is_checked_too(tmp_path: Path, group: str | None) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(LINES + b"{bad/\n" + LINES)
    with pytest.raises(UnreadableTrace, match=r"Line 6 of .* is not an event of a trace; without that line"):
        numbers(path, group=group)

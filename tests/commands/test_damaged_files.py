"""Files that are damaged in every way: a sentence and exit code 2, never a traceback, and no memory."""

import copy
import gzip
import random
import re
import resource
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard
from click.testing import CliRunner

from kafka_shim.cli import cli
from kafka_shim.persistence.records import OffsetCommitKey, encode_key
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.trace import reading
from tests.examples import examples
from tests.lab.test_replay import record
from tests.sources.offsets_topic.segments import Partition

DAMAGED = examples(200)
# datetime refuses the seconds 2**62, 2**63 and 1e12 each with another exception.
MISSING = re.compile(r"not in .*\.jsonl|in the middle of line \d+|\.jsonl is empty")
LOG = """\
[2026-11-27 09:26:06,123] INFO [GroupCoordinator 0]: Member a-1 in group billing has failed, removing it from the \
group (kafka.coordinator.group.GroupCoordinator)
[2026-11-27 09:26:06,124] INFO [GroupCoordinator 0]: Preparing to rebalance group billing in state PreparingRebalance \
with old generation 4 (__consumer_offsets-7) (reason: removing member a-1 on heartbeat expiration) \
(kafka.coordinator.group.GroupCoordinator)
"""
SHAPES: list[Any] = [None, True, 0, -1, 1e12, 2**62, 2**63, 1e300, "", "text", "😀", [], [1, 2], {}, {"event": 1}]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Return a journal, and the trace of the same run."""
    folder = tmp_path_factory.mktemp("recorded")
    record(4, folder)
    trace = b"".join(path.read_bytes() for path in reading.files_of(folder / "trace.jsonl"))
    return (folder / "journal.jsonl").read_bytes(), trace


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, each in inner for place in places(each, (*path, name)))]


def damaged_line(chance: random.Random, line: bytes) -> bytes:
    """Remove one value of a line, or give it another shape or text."""
    whole = copy.deepcopy(orjson.loads(line))
    *way, name = chance.choice(places(whole)[1:])
    at = whole
    for step in way:
        at = at[step]
    match chance.randrange(3):
        case 0:
            del at[name]
        case 1 if isinstance(at[name], str):
            at[name] = at[name][: len(at[name]) // 2] + "="
        case _:
            at[name] = chance.choice(SHAPES)
    return orjson.dumps(whole)


def damaged(chance: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    number = 0 if chance.random() < 0.2 else chance.randrange(len(lines))
    match chance.randrange(8):
        case 0:
            return data[: chance.randrange(len(data))]
        case 1:
            lines[number] = orjson.dumps(chance.choice(SHAPES)) + b"\n"
        case 2:
            lines[number] = lines[number][: len(lines[number]) // 2] + b"\n"
        case 3:
            del lines[number]
        case 4:
            packed = bytearray(gzip.compress(data))
            packed[chance.randrange(10, len(packed))] ^= 255
            return bytes(packed[: chance.randrange(len(packed) // 2, len(packed))])
        case _:
            lines[number] = damaged_line(chance, lines[number]) + b"\n"
    return b"".join(lines)


def run(*arguments: str) -> str:
    """Run a command that must end without a traceback, and return its output."""
    ended = CliRunner().invoke(cli, [*arguments])
    assert ended.exception is None or isinstance(ended.exception, SystemExit), (arguments, ended.exception)
    assert "Traceback" not in ended.output
    if ended.exit_code:
        # A line that was removed is said before.
        *missing, sentence = ended.stderr.strip().splitlines()
        assert len(missing) <= 1, ended.stderr
        assert all(MISSING.search(each) for each in missing), ended.stderr
        assert sentence.startswith(("kafka-shim: ", "Usage: ", "Error: ")), ended.stderr
    return ended.output


def test_a_damaged_journal_is_a_sentence(recorded: tuple[bytes, bytes], tmp_path: Path) -> None:
    chance, refused = random.Random(21), 0
    path = tmp_path / "journal.jsonl"
    for _ in range(DAMAGED):
        path.write_bytes(damaged(chance, recorded[0]))
        refused += "Replayed" not in run("replay", str(path))
    assert refused > DAMAGED // 3


@pytest.mark.parametrize(
    "command",
    [
        ("trace", "show", "TRACE"),
        ("trace", "summary", "TRACE"),
        ("trace", "export", "TRACE", "--mermaid"),
        ("why", "--no-replay", "GROUP", "TRACE"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_damaged_trace_is_a_sentence(recorded: tuple[bytes, bytes], tmp_path: Path, command: tuple[str, ...]) -> None:
    chance = random.Random(22)
    path = tmp_path / "trace.jsonl"
    groups = [orjson.loads(line).get("group") for line in recorded[1].splitlines()]
    names = {"TRACE": str(path), "GROUP": next(group for group in groups if group)}
    for _ in range(DAMAGED):
        path.write_bytes(damaged(chance, recorded[1]))
        run(*(names.get(word, word) for word in command))


@pytest.mark.parametrize("wall", [1e12, 2**62, 2**63, 1e300])
def test_a_wall_clock_out_of_range_is_a_sentence(recorded: tuple[bytes, bytes], tmp_path: Path, wall: float) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(
        b"".join(orjson.dumps({**orjson.loads(line), "wall": wall}) + b"\n" for line in recorded[1].splitlines())
    )
    assert "is damaged" in run("trace", "show", str(path))


LESSON = """+++
title = "Two members"
minutes = 1
sources = ["semantics 2.3"]
[scene]
topics = { orders = 2 }
+++
intro

## step

before

```toml
ask = "Which state?"
do = ["A joins", "wait 5"]
holds = [{ state = "Stable" }]

[[options]]
text = "It is Stable"
when = { state = "Stable" }
```

after
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("intro", "intr\xf6"),
        ('"Two members"', "3"),
        ("[scene]\ntopics = { orders = 2 }", "scene = 3"),
        ("{ orders = 2 }", "3"),
        ("{ orders = 2 }", '{ orders = "2" }'),
        ('["semantics 2.3"]', "[1]"),
        ('"Which state?"', "3"),
        ('["A joins", "wait 5"]', "5"),
        ('["A joins", "wait 5"]', "[5]"),
        ('[{ state = "Stable" }]', "[3]"),
        ('[[options]]\ntext = "It is Stable"\nwhen = { state = "Stable" }', "options = [3]"),
        ('when = { state = "Stable" }', "when = 3"),
        ('text = "It is Stable"\n', ""),
    ],
)
def test_a_damaged_lesson_is_a_sentence(before: str, after: str, tmp_path: Path) -> None:
    path = tmp_path / "lesson.md"
    assert before in LESSON
    path.write_bytes(LESSON.encode())
    assert "after" in run("learn", str(path), "--unattended")
    path.write_bytes(LESSON.replace(before, after).encode("latin-1"))
    outputs = [run("learn", str(path), option) for option in ("--unattended", "--solutions", "--check")]
    assert any("Error: " in output for output in outputs), outputs


def flipped(chance: random.Random, data: bytes) -> bytes:
    """Change some bytes, and perhaps cut the end."""
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed[: chance.choice((len(changed), chance.randrange(len(changed))))])


@pytest.mark.parametrize("command", ["trace from-log", "trace from-offsets", "offsets import"])
def test_a_damaged_log_or_segment_is_no_traceback(command: str, tmp_path: Path) -> None:
    chance = random.Random(23)
    partition = Partition("billing")
    partition.generation(1, {"a-1": {"orders": [0]}})
    partition.generation(2, {"a-1": {"orders": [0]}, "b-2": {"orders": [1]}})
    path = next(partition.write(tmp_path).glob("*.log"))
    if command == "trace from-log":
        path.write_text(LOG)
    data = path.read_bytes()
    for number in range(DAMAGED // 4):
        path.write_bytes(flipped(chance, data))
        target = ("--store", f"sqlite:{tmp_path / f'{number}.db'}") if "import" in command else ("--out", "-")
        ended = CliRunner().invoke(cli, [*command.split(), str(path), *target])
        assert isinstance(ended.exception, SystemExit | None), ended.exception
        assert "Traceback" not in ended.output


def test_a_damaged_store_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path, 50)
    store.open()
    store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        key = encode_key(OffsetCommitKey("g", "t", 0))
        connection.execute("INSERT INTO records VALUES (0, ?, 'text')", (key,))
    assert "What was read is damaged" in run("offsets", "export", str(tmp_path / "out"), "--store", f"sqlite:{path}")


@pytest.mark.second_stage("its time")
@pytest.mark.parametrize("command", [("trace", "show"), ("replay",)], ids=" ".join)
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_bomb_takes_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], pack: Any
) -> None:
    monkeypatch.setattr(reading, "LONGEST_LINE", 4 * reading.MIB)
    monkeypatch.setattr(reading, "LONGEST_ZSTD", 4 * reading.MIB)
    path = tmp_path / "bomb"
    path.write_bytes(pack(b"[" * 400 * reading.MIB))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "MiB" in run(*command, str(path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024

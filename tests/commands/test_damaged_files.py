"""Journals and traces that are damaged in every way: a sentence and exit code 2, never a traceback, and no memory."""

import copy
import gzip
import random
import re
import resource
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard
from click.testing import CliRunner

from kafka_shim.cli import cli
from kafka_shim.trace import reading
from tests.examples import examples
from tests.lab.test_replay import record

DAMAGED = examples(200)
# datetime refuses the seconds 2**62, 2**63 and 1e12 each with another exception.
MISSING = re.compile(r"not in .*\.jsonl|in the middle of line \d+|\.jsonl is empty")
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

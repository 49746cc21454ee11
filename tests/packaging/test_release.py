"""The release command, as far as it goes without a network; `make dist` tries the packages themselves."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.conftest import ROOT

RELEASE = ROOT / "requirements" / "release.py"
AUTHOR = {f"GIT_{who}_{what}": "test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def release(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RELEASE), *arguments, "--dry-run", "--no-dist"]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | AUTHOR)


@pytest.mark.second_stage("a clone")
def test_a_dry_run_names_the_push_and_leaves_no_tag() -> None:
    done = release("987.6.5")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "not done: git push --atomic origin HEAD:main v987.6.5 clients/go/v987.6.5\n"
    tags = subprocess.run(["git", "tag"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert "v987.6.5" not in tags


@pytest.mark.second_stage("a clone")
def test_a_wrong_version_is_refused_in_one_sentence() -> None:
    done = release("next")
    assert (done.returncode, done.stderr) == (1, "'next' is not a version such as 1.2.3.\n")


def test_the_changes_get_the_version_and_the_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(RELEASE.parent)
    import release as module

    page = "# Changelog\n\n## Unreleased\n\n- A change.\n\n## 1.0.0 (2026-01-01)\n"
    dated = module.dated(page, "1.1.0", "2026-02-03")
    assert dated.startswith("# Changelog\n\n## Unreleased\n\n## 1.1.0 (2026-02-03)\n\n- A change.\n\n## 1.0.0")
    with pytest.raises(SystemExit, match="no changes"):
        module.dated(dated, "1.2.0", "2026-02-04")


def test_a_tag_starts_the_publication() -> None:
    workflow: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    # YAML reads the word `on` as true.
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    commands = "\n".join(step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"])
    assert "requirements/dist.py --file-only" in commands
    assert "requirements/program.txt" in commands


def test_the_program_is_the_python_of_the_commands_that_it_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(RELEASE.parent)
    import program as module

    start = tmp_path / "kafka-shim"
    start.write_text(module.MAIN)
    for arguments in (["--version"], ["-m", "kafka_shim", "--version"]):
        done = subprocess.run([sys.executable, str(start), *arguments], capture_output=True, text=True)
        assert ", version " in done.stdout, done.stderr

"""The contents and the version of the sdist and of the wheel."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from tests.packaging.conftest import PYTHONS, ROOT, Distribution, build

pytestmark = pytest.mark.second_stage("fresh installations")


def package_files() -> set[str]:
    """Return every committed file of the package, by its name after following links."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    committed = {Path(name) for name in listing.decode().split("\0") if name}
    names = set()
    homes = {f"kafka_shim/{part.name}": part.resolve().relative_to(ROOT) for part in (ROOT / "kafka_shim").iterdir()}
    while homes:
        name, home = homes.popitem()
        for each in committed:
            inside = name if each == home else f"{name}/{each.relative_to(home)}" if home in each.parents else None
            if inside and each != home and (ROOT / each).is_symlink():
                homes[inside] = (ROOT / each).resolve().relative_to(ROOT)
            elif inside:
                names.add(inside)
    return names


def test_the_wheel_is_the_package_and_nothing_else(distribution: Distribution) -> None:
    with zipfile.ZipFile(distribution.wheel) as wheel:
        packed = {each.filename for each in wheel.infolist() if ".dist-info/" not in each.filename}
        links = [each.filename for each in wheel.infolist() if each.external_attr >> 28 == 0o12]
    assert packed == package_files()
    assert links == []
    assert {"kafka_shim/py.typed", "kafka_shim/conformance/expect/shim.toml"} <= packed


def test_the_sdist_has_files_where_the_checkout_has_links(distribution: Distribution) -> None:
    with tarfile.open(distribution.sdist) as sdist:
        members = sdist.getmembers()
    assert [each.name for each in members if not each.isfile()] == []
    names = {each.name.partition("/")[2] for each in members}
    around = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO", ".gitignore"}
    assert names == package_files() | around


def test_the_checkout_and_the_sdist_build_the_same_wheel(distribution: Distribution, tmp_path: Path) -> None:
    build(ROOT, tmp_path, "--wheel")
    (built,) = tmp_path.glob("*.whl")
    assert (built.name, built.read_bytes()) == (distribution.wheel.name, distribution.wheel.read_bytes())


def test_an_image_is_built_from_all_of_the_package(tmp_path: Path) -> None:
    """The files that the Dockerfile copies are enough for the wheel, built by its own command."""
    source = tmp_path / "src"
    for names in re.findall(r"^COPY (?!--)(.+)$", (ROOT / "Dockerfile").read_text(), re.M):
        *origins, to = names.split()
        for origin in origins:
            home = source / (origin if to == "./" else to)
            home.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / origin).is_dir():
                shutil.copytree(ROOT / origin, home, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / origin, home)
    build(source, tmp_path, "--wheel", SETUPTOOLS_SCM_PRETEND_VERSION="1.2.3")
    with zipfile.ZipFile(tmp_path / "kafka_group_shim-1.2.3-py3-none-any.whl") as wheel:
        assert {each for each in wheel.namelist() if ".dist-info/" not in each} == package_files()


def test_the_metadata_describes_the_package(distribution: Distribution) -> None:
    with zipfile.ZipFile(distribution.wheel) as wheel:
        info = f"kafka_group_shim-{distribution.version}.dist-info"
        metadata = message_from_bytes(wheel.read(f"{info}/METADATA"))
        entries = wheel.read(f"{info}/entry_points.txt").decode()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert {f"Programming Language :: Python :: {each}" for each in PYTHONS} <= set(metadata.get_all("Classifier", []))
    assert {each.split(",")[0] for each in metadata.get_all("Project-URL", [])} >= {"Homepage", "Changelog", "Issues"}
    assert "kafka-shim = kafka_shim.cli:main" in entries
    assert "kafka-shim = kafka_shim.testing.plugin" in entries


def version_of(folder: Path, **variables: str) -> str:
    """Return the version of a distribution that was built in a folder."""
    command = [sys.executable, "-m", "hatchling", "version"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, env=os.environ | variables)
    return done.stdout.strip()


class TestVersion:
    """A release has the version of its tag; any other version is distinguishable."""

    @pytest.fixture
    def clone(self, tmp_path: Path) -> Path:
        """Make a shallow clone, as CI services do."""
        folder = tmp_path / "clone"
        git("clone", "--quiet", "--depth", "1", ROOT.as_uri(), str(folder))
        return folder

    def test_a_tag_is_the_version(self, clone: Path) -> None:
        git("-C", str(clone), "tag", "v1.2.3")
        assert version_of(clone) == "1.2.3"

    def test_the_tag_of_the_go_package_is_no_version(self, clone: Path) -> None:
        git("-C", str(clone), "tag", "v1.2.3")
        # Git prefers the newest annotated tag of a commit.
        git("-C", str(clone), "tag", "--annotate", "--message", "Release 1.2.3", "clients/go/v1.2.3")
        assert version_of(clone) == "1.2.3"

    def test_a_checkout_without_a_tag_is_a_development_version(self, clone: Path) -> None:
        for tag in git("-C", str(clone), "tag").split():
            git("-C", str(clone), "tag", "--delete", tag)
        commit = git("-C", str(clone), "rev-parse", "HEAD")
        _, _, local = version_of(clone).partition("+")
        assert local.startswith("g")
        assert commit.startswith(local[1:])

    def test_an_sdist_keeps_its_version(self, distribution: Distribution, tmp_path: Path) -> None:
        with tarfile.open(distribution.sdist) as sdist:
            sdist.extractall(tmp_path, filter="data")
        (folder,) = tmp_path.iterdir()
        assert version_of(folder) == distribution.version

    def test_a_copy_without_a_repository_takes_a_version_from_outside(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
        assert version_of(tmp_path) == "0.0.0"
        assert version_of(tmp_path, SETUPTOOLS_SCM_PRETEND_VERSION="1.2.3") == "1.2.3"


def git(*arguments: str) -> str:
    """Run git and return its output."""
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout.strip()

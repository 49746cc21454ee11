"""Makes a release: `make release VERSION=1.2.3`, and with DRY_RUN=1 in a clone that is thrown away.

It dates the changes in CHANGELOG.md, commits that, sets the tags of the release and of the Go package, builds and tries
all packages, and pushes. The rest is done by `.github/workflows/release.yml`, which the tag starts.
"""

import argparse
import datetime
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def git(folder: Path, *arguments: str) -> str:
    """Runs git in a repository and returns its output; ends with its error if it fails."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def tags_of(version: str) -> "tuple[str, str]":
    """Returns the tags of a release; Go finds a module in a folder by a tag with the folder's name."""
    return f"v{version}", f"clients/go/v{version}"


def dated(changelog: str, version: str, day: str) -> str:
    """Returns the list of changes with the unreleased ones under this version."""
    head, heading, rest = changelog.partition("## Unreleased\n")
    changes = rest.partition("\n## ")[0].strip()
    if not heading or not changes:
        sys.exit("CHANGELOG.md has no changes under Unreleased.")
    return f"{head}{heading}\n## {version} ({day})\n{rest}"


def prepare(folder: Path, version: str) -> None:
    """Commits the dated changes and sets the tags."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"{version!r} is not a version such as 1.2.3.")
    if changed := git(folder, "status", "--porcelain"):
        sys.exit(f"There are changes that are not committed:\n{changed}")
    if existing := set(tags_of(version)) & set(git(folder, "tag").split()):
        sys.exit(f"The tag {min(existing)} exists already.")
    page = folder / "CHANGELOG.md"
    page.write_text(dated(page.read_text(), version, datetime.date.today().isoformat()))
    git(folder, "commit", "--quiet", "--message", f"Release {version}", "CHANGELOG.md")
    for tag in tags_of(version):
        git(folder, "tag", "--annotate", "--message", f"Release {version}", tag)


def main() -> None:
    """Makes the release, or tries it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("version")
    parser.add_argument("--dry-run", action="store_true", help="in a clone; nothing is pushed")
    parser.add_argument("--no-dist", action="store_true", help="do not build the packages")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = ROOT
        if options.dry_run:
            folder = Path(name) / "clone"
            git(ROOT, "clone", "--quiet", str(ROOT), str(folder))
        prepare(folder, options.version)
        if not options.no_dist:
            subprocess.run([sys.executable, str(folder / "requirements" / "dist.py")], check=True)
        push = ["push", "--atomic", "origin", "HEAD:main", *tags_of(options.version)]
        if options.dry_run:
            print(f"not done: git {' '.join(push)}")
        else:
            git(folder, *push)


if __name__ == "__main__":
    main()

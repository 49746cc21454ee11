"""No file of the repository holds a secret: a private key, a token of a service, or a password in an address."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECRETS = {
    # Forty characters of base64 follow the first line of a real key, and none that of an example. Each pattern begins
    # with letters, which makes the search quick.
    "private key": r"PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}",
    "key of AWS": r"AKIA(?!IOSFODNN7EXAMPLE)[A-Z0-9]{16}\b",
    "temporary key of AWS": r"ASIA(?!IOSFODNN7EXAMPLE)[A-Z0-9]{16}\b",
    "token of GitHub": r"gh[pousr]_[A-Za-z0-9]{36}",
    "newer token of GitHub": r"github_pat_[A-Za-z0-9_]{60}",
    "token of GitLab": r"glpat-[A-Za-z0-9_-]{20}",
    "token of PyPI": r"pypi-AgEIcHlwaS[A-Za-z0-9_-]{50}",
    "token of npm": r"npm_[A-Za-z0-9]{36}\b",
    "token of Slack": r"xox[abprs]-[A-Za-z0-9-]{20}",
    "key of Google": r"AIza[A-Za-z0-9_-]{35}\b",
    "signed token": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}",
    "password in an address": r"://[^\s/:@'\"{}<>]+:(?!secret@|password@|pass@|PASSWORD@)[^\s/:@'\"{}<>$]{6,}@",
}
PATTERNS = {name: re.compile(text) for name, text in SECRETS.items()}
MAX_BYTES = 4 * 1024 * 1024


def found(text: str) -> list[str]:
    return [name for name, pattern in PATTERNS.items() if pattern.search(text)]


def test_no_file_holds_a_secret() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout of the repository")
    names = [name for name in listed.stdout.split("\0") if name]
    assert len(names) > 500
    paths = [path for name in names if (path := ROOT / name).is_file() and not path.is_symlink()]
    texts = {path: path.read_bytes().decode("latin-1") for path in paths if path.stat().st_size < MAX_BYTES}
    secrets = {str(path.relative_to(ROOT)): kinds for path, text in texts.items() if (kinds := found(text))}
    assert secrets == {}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("-----BEGIN EC PRIVATE KEY-----\n" + "A" * 64, "private key"),
        ("AK" + "IA" + "Q" * 16, "key of AWS"),
        ("gh" + "p_" + "a" * 36, "token of GitHub"),
        ("py" + "pi-AgEIcHlwaS" + "x" * 60, "token of PyPI"),
        ("eyJ" + "hbGciOiJSUzI1NiJ9.eyJ" + "zdWIiOiJhbGljZSJ9." + "s" * 40, "signed token"),
        ("postgresql:/" + "/alice:hunter22@db.test/x", "password in an address"),
    ],
)
def test_secrets_are_found(text: str, kind: str) -> None:
    assert kind in found(f"before {text} after")

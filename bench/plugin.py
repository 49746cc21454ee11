"""The CPU time of the plugin: `python -m bench.plugin BARE OURS`.

BARE is a Python with pytest alone, OURS one with this package too. An unrelated run of pytest in both, a run with one
coordinator, and both runs without byte code: `PYTHONPYCACHEPREFIX` names an empty folder, which nothing is written to.
The processes take turns, and the least time of each counts: other work of the machine only adds.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

TIMES = 9
UNRELATED = "def test_nothing():\n    assert True\n"
COORDINATOR = "def test_a_coordinator(kafka_coordinator):\n    assert kafka_coordinator.bootstrap\n"


def cpu_ms(python: str, folder: Path, **variables: str) -> float:
    """Run pytest in a folder, and return its CPU time in ms. Raises CalledProcessError if a test fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=clean | variables, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def main() -> None:
    """Measure and print."""
    bare, ours = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        unrelated, coordinator = Path(name, "unrelated"), Path(name, "coordinator")
        for folder, test in ((unrelated, UNRELATED), (coordinator, COORDINATOR)):
            folder.mkdir()
            (folder / "test_it.py").write_text(test)
        none = {"PYTHONPYCACHEPREFIX": str(Path(name, "none")), "PYTHONDONTWRITEBYTECODE": "1"}
        cases = {
            "pytest alone": lambda: cpu_ms(bare, unrelated),
            "with the package, an unrelated run": lambda: cpu_ms(ours, unrelated),
            "with a coordinator": lambda: cpu_ms(ours, coordinator),
            "pytest alone, no byte code": lambda: cpu_ms(bare, unrelated, **none),
            "with a coordinator, no byte code": lambda: cpu_ms(ours, coordinator, **none),
        }
        took: dict[str, list[float]] = {each: [] for each in cases}
        for _ in range(TIMES):
            for case, run in cases.items():
                took[case].append(run())
    for case, times in took.items():
        print(f"{case:36} {min(times):6.0f} ms")


if __name__ == "__main__":
    main()

"""The weight of the base and of each extra: `python -m bench.weight WHEEL...`.

Fresh environments of this Python, made by pip: the base of each wheel, and each extra of the last one. Packages and MB
are those that pip installs beside itself; pytest is added after that. CPU time is that to import `kafka_shim.testing`,
of an unrelated run of pytest and of a run with one coordinator, each beyond Python or pytest alone; and the last
without byte code: `PYTHONPYCACHEPREFIX` names an empty folder, and nothing is written to it. The processes take turns,
and the least time of each counts: other work of the machine only adds.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

TIMES = 9
EXTRAS = ("cli", "security", "postgres", "clients", "containers")
IMPORT = ("-c", "from kafka_shim.testing import CoordinatorServer")
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
UNRELATED = "def test_nothing():\n    assert True\n"
COORDINATOR = "def test_a_coordinator(kafka_coordinator):\n    assert kafka_coordinator.bootstrap\n"


class Weight(NamedTuple):
    """The weight of a requirement once pip has installed it: packages beside ours, MB, and those of ours."""

    packages: int
    whole: float
    ours: float


def installed(folder: Path, *requirements: str) -> Weight:
    """Make an environment with these requirements, and with pytest after they are weighed."""
    venv.create(folder, with_pip=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    before = {each.name for each in packages.glob("*.dist-info")}
    empty = megabytes(packages)
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if requirements:
        subprocess.run([*pip, *requirements], check=True)
    after = {each.name for each in packages.glob("*.dist-info")} - before
    others = [each for each in after if not each.startswith("kafka_group_shim-")]
    weight = Weight(len(others), megabytes(packages) - empty, megabytes(packages / "kafka_shim"))
    subprocess.run([*pip, "pytest"], check=True)
    return weight


def megabytes(folder: Path) -> float:
    """Return the size of all files in a folder, in MB."""
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) / 1e6


def cpu_ms(folder: Path, *command: str, cwd: Path, **variables: str) -> float:
    """Run the Python of an environment, and return its CPU time in ms. Raises CalledProcessError if it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [folder / "bin/python", *command], cwd=cwd, env=clean | variables, check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def least(cases: dict[tuple[str, str], Callable[[], float]]) -> dict[tuple[str, str], float]:
    """Measure all in turn, `TIMES` times after a first one that does not count, and return the least of each."""
    runs = [{name: measure() for name, measure in cases.items()} for _ in range(TIMES + 1)]
    return {name: min(run[name] for run in runs[1:]) for name in cases}


def main() -> None:
    """Measure and print a row of a table for each base and each extra."""
    wheels = sys.argv[1:]
    requirements = {Path(each).name.split("-")[1]: each for each in wheels}
    bases = tuple(requirements)
    requirements |= {each: f"{wheels[-1]}[{each}]" for each in EXTRAS}
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        for folder, text in ((home / "unrelated", UNRELATED), (home / "coordinator", COORDINATOR)):
            folder.mkdir()
            (folder / "test_it.py").write_text(text)
        none = {"PYTHONPYCACHEPREFIX": str(home / "none"), "PYTHONDONTWRITEBYTECODE": "1"}

        def measures(environment: str) -> dict[str, Callable[[], float]]:
            folder, bare = home / environment, environment == "bare"
            used = home / ("unrelated" if bare else "coordinator")
            found = {
                "import": lambda: cpu_ms(folder, *(("-c", "pass") if bare else IMPORT), cwd=home),
                "unrelated": lambda: cpu_ms(folder, *PYTEST, cwd=home / "unrelated"),
            }
            if bare or environment in bases:
                found |= {
                    "fixture": lambda: cpu_ms(folder, *PYTEST, cwd=used),
                    "no byte code": lambda: cpu_ms(folder, *PYTEST, cwd=used, **none),
                }
            return found

        installed(home / "bare")
        weights = {each: installed(home / each, requirement) for each, requirement in requirements.items()}
        cases = {
            (environment, what): measure
            for environment in ("bare", *weights)
            for what, measure in measures(environment).items()
        }
        times = least(cases)
    print("| | packages | MB | ours | import | unrelated run | with a coordinator | the same without byte code |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for each, weight in weights.items():
        more = [ms - times["bare", what] for (environment, what), ms in times.items() if environment == each]
        row = [weight.packages, *(f"{mb:.0f}" for mb in weight[1:]), *(f"{ms:.0f} ms" for ms in more)]
        print(f"| {each} | {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    main()

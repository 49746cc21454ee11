"""The commands of docs/pipeline.md for `docker compose`, run as processes instead of containers.

The arguments are the same; a folder replaces the volume, and this machine the network.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bench.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
MASTER = "spark://spark-master:7077"


def commands() -> list[list[str]]:
    """Return the commands of service `pipeline`, in the order of the page."""
    page = (ROOT / "docs/pipeline.md").read_text()
    lines = re.findall(r"^ {4}docker compose run --rm pipeline (.+)$", page, re.M)
    return [shlex.split(each) for each in lines]


def test_the_three_services_share_an_image_and_a_volume() -> None:
    spark = {name: each for name, each in SERVICES.items() if "spark" in each.get("profiles", ())}
    assert set(spark) == {"spark-master", "spark-worker", "pipeline"}
    assert len({(each["image"], *each["volumes"]) for each in spark.values()}) == 1
    image = (ROOT / "Dockerfile").read_text().partition(" AS spark\n")[2].partition("\nFROM ")[0]
    assert "install --directory --owner spark /data" in image
    assert re.search(r'^ENTRYPOINT \["spark-class"\]$', image, re.M)
    # The pipeline waits for its cluster to start; `up` starts no pipeline.
    assert set(spark["pipeline"]["depends_on"]) == {"spark-worker"}
    assert spark["pipeline"]["scale"] == 0


@pytest.mark.everything("a Spark cluster")
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    assert SERVICES["spark-worker"]["command"] == [Cluster.WORKER, MASTER]
    assert SERVICES["spark-master"]["command"] == [Cluster.MASTER, "--host", "spark-master"]
    generate, report = commands()
    assert report[-2:] == ["--master", MASTER]
    with Cluster(tmp_path / "cluster", workers=1, cores=2) as cluster:

        def done(words: list[str], *more: str) -> str:
            here = [re.sub("^/data", str(data), word).replace(MASTER, cluster.url) for word in words]
            entry = [str(Path(sys.executable).parent / SERVICES["pipeline"]["entrypoint"][0]), "pipeline"]
            ran = subprocess.run(
                [*entry, *here, *more], capture_output=True, text=True, cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            assert ran.returncode == 0, ran.stderr[-2000:]
            return ran.stdout

        # Fewer groups than on the page, to be faster.
        groups = generate.index("--groups") + 1
        generate[groups] = "1"
        assert json.loads(done(generate))["events"] > 0
        page = done(report)
    assert Path(page.strip()).read_text().startswith("<!doctype html>")

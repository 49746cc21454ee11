"""What docker-compose.yml says of the pipeline on a cluster of containers."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def test_the_three_services_have_one_image_and_one_volume() -> None:
    spark = {name: each for name, each in SERVICES.items() if "spark" in each.get("profiles", ())}
    assert set(spark) == {"spark-master", "spark-worker", "pipeline"}
    assert len({(each["image"], *each["volumes"]) for each in spark.values()}) == 1
    image = (ROOT / "Dockerfile").read_text().partition(" AS spark\n")[2].partition("\nFROM ")[0]
    assert "install --directory --owner spark /data" in image
    assert re.search(r'^ENTRYPOINT \["spark-class"\]$', image, re.M)
    # A pipeline that is waiting for its cluster does not start, and none is started by `up`.
    assert set(spark["pipeline"]["depends_on"]) == {"spark-worker"}
    assert spark["pipeline"]["scale"] == 0
    assert spark["spark-worker"]["command"][-1] == "spark://spark-master:7077"

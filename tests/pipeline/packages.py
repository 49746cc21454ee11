"""How the Sparks of the tests fetch packages: once, each into a folder of its own that is kept."""

from pathlib import Path

import pyspark

from kafka_shim.conformance.targets.kafka import cache_folder

SETTINGS = {
    # Two that fetch one package into one folder at a time get into each other's way.
    "spark.jars.ivy": str(cache_folder() / f"spark-{pyspark.__version__}"),
    "spark.jars.ivySettings": str(Path(__file__).with_name("ivysettings.xml")),
}

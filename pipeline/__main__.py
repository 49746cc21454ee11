"""`python -m kafka_shim.pipeline` is `kafka-shim pipeline`."""

from kafka_shim.pipeline.cli import cli

if __name__ == "__main__":
    cli(prog_name="python -m kafka_shim.pipeline")

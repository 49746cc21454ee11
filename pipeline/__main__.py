"""`python -m pipeline` is `kafka-shim pipeline`."""

from pipeline.cli import cli

if __name__ == "__main__":
    cli(prog_name="python -m pipeline")

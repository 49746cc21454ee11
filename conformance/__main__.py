"""`python -m kafka_shim.conformance`."""

from kafka_shim.conformance.cli import cli

cli(prog_name="conformance")

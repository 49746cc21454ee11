"""`python -m conformance`."""

from conformance.cli import cli

cli(prog_name="conformance")

"""Entry point of `python -m kafka_shim.conformance`."""

import sys

try:
    from kafka_shim.conformance.cli import cli
except ModuleNotFoundError as error:
    if error.name not in ("click", "rich"):
        raise
    print("conformance: The command needs more packages: pip install 'kafka-group-shim[cli]'", file=sys.stderr)
    sys.exit(2)

cli(prog_name="conformance")

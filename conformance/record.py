"""The record of a run: the answers of a target in every cell, in a file to compare other targets with.

The record of Apache Kafka in this package shows differences without a running Kafka.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

from kafka_shim.apis.releases import DEFAULT_RELEASE, is_at_least
from kafka_shim.conformance.story import Step

KAFKA: Final = {
    release: Path(__file__).parent / "expect" / f"kafka-{release}.record.json.gz" for release in ("4.2", "4.4")
}
"""The packaged records by release, oldest first."""
SCHEMA: Final = 1


class Record:
    """The stories of a run by cell name, and the description of the target."""

    def __init__(self, description: str, stories: dict[str, list[Step]]) -> None:
        self.description = description
        self.stories = stories

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read a file that `write` wrote. Raises OSError or ValueError for any other file."""
        with gzip.open(path, "rt") as file:
            data: Any = json.load(file)
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise ValueError(f"{path} is not a record of this version")
        return cls(
            data["description"], {name: [tuple(step) for step in steps] for name, steps in data["cells"].items()}
        )

    @classmethod
    def of_kafka(cls, release: str = DEFAULT_RELEASE) -> Record:
        """Read the packaged record of the oldest Kafka that is not older than a release."""
        path = next((path for of, path in KAFKA.items() if is_at_least(of, release)), KAFKA[max(KAFKA)])
        return cls.read(path) if path.exists() else cls("", {})

    def write(self, path: Path) -> None:
        text = json.dumps({"schema": SCHEMA, "description": self.description, "cells": self.stories}, sort_keys=True)
        # No timestamp: the same record gives the same file.
        path.write_bytes(gzip.compress(text.encode(), mtime=0))

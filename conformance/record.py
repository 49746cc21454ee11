"""The record of a run: what a target answered in every cell, kept in a file to compare others with.

The record of Apache Kafka that comes with the suite shows what differs without a Kafka at hand.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

from kafka_shim.conformance.story import Step

KAFKA: Final = Path(__file__).parent / "expect" / "kafka-4.2.record.json.gz"
SCHEMA: Final = 1


class Record:
    """Stories by the name of their cell, and the target they are from."""

    def __init__(self, description: str, stories: dict[str, list[Step]]) -> None:
        self.description = description
        self.stories = stories

    @classmethod
    def read(cls, path: Path) -> Record:
        """A record that `write` wrote. Raises OSError or ValueError where there is none."""
        with gzip.open(path, "rt") as file:
            data: Any = json.load(file)
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise ValueError(f"{path} is no record of this version")
        return cls(
            data["description"], {name: [tuple(step) for step in steps] for name, steps in data["cells"].items()}
        )

    @classmethod
    def of_kafka(cls) -> Record:
        """That of Apache Kafka which comes with the suite."""
        return cls.read(KAFKA) if KAFKA.exists() else cls("", {})

    def write(self, path: Path) -> None:
        text = json.dumps({"schema": SCHEMA, "description": self.description, "cells": self.stories}, sort_keys=True)
        # Without the time of day in it, the same record is the same file.
        path.write_bytes(gzip.compress(text.encode(), mtime=0))

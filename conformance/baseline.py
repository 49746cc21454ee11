"""Baselines of a run: the files of `--baseline`, and those that `--write-baseline` makes.

There are three kinds: known failures (TOML, with a reason for each), the verdicts of a run (its JSON), and all answers
of a target (gzip). Reading looks at the content, writing at the name.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kafka_shim.conformance.expect import Expectations
from kafka_shim.conformance.record import Record
from kafka_shim.conformance.report.assessment import Assessment
from kafka_shim.conformance.report.files import write_expectations, write_json

ENDINGS: Final = (".toml", ".json", ".json.gz")
"""The ends of the names of baselines."""

_GZIP: Final = b"\x1f\x8b"
_UNREADABLE: Final = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True)
class Baseline:
    """The expected verdicts and the reference answers of a run; None for those of the package."""

    expected: Expectations | None = None
    reference: Record | None = None

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Baseline:
        """Read files of any kind. Raises ValueError for another file, and for two files of verdicts or of answers."""
        baseline = cls()
        for path in paths:
            is_record = path.read_bytes().startswith(_GZIP)
            if (baseline.reference if is_record else baseline.expected) is not None:
                raise ValueError(f"{path} is a second baseline of its kind")
            try:
                if is_record:
                    baseline = replace(baseline, reference=Record.read(path))
                else:
                    baseline = replace(baseline, expected=read_expectations(path))
            except _UNREADABLE as error:
                raise ValueError(f"{path} is not a baseline: {error!r}") from error
        return baseline


def read_expectations(path: Path) -> Expectations:
    """Read known failures, or the verdicts of an earlier run."""
    is_json = path.read_bytes().lstrip().startswith(b"{")
    return Expectations.of_run(path) if is_json else Expectations.read(path)


def write_baseline(assessment: Assessment, path: Path) -> None:
    """Write a run as a baseline; the end of the name, one of `ENDINGS`, selects the kind."""
    if path.suffix == ".toml":
        write_expectations(assessment, path)
    elif path.suffix == ".json":
        write_json(assessment, path)
    else:
        run = assessment.run
        Record(run.description, {each.cell.name: each.story for each in run.results}).write(path)

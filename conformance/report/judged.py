"""A run as the reports show it: what is news, why, and how to see it again."""

from __future__ import annotations

import shlex
from functools import cached_property

from kafka_shim.conformance.expect import Expectations
from kafka_shim.conformance.record import Record
from kafka_shim.conformance.report.causes import Cause, Differences, causes_of
from kafka_shim.conformance.runner import Result, Run
from kafka_shim.conformance.verdict import NOT_JUDGED, Verdict


class Judged:
    """A run with what is expected of its target, and the record it is compared with.

    `command` is what started it, without the choice of cases.
    """

    def __init__(self, run: Run, expectations: Expectations, record: Record, command: list[str]) -> None:
        self.run = run
        self.expectations = expectations
        self.record = record
        self.command = command

    def surprise(self, result: Result) -> str | None:
        """Why a result is news; None if it is as expected."""
        return self.expectations.surprise(result.cell.case.id, result.cell.version, result.verdict)

    @cached_property
    def news(self) -> list[Result]:
        """What is not as expected, in the order of the run."""
        return [each for each in self.run.results if self.surprise(each) is not None]

    @cached_property
    def differences(self) -> Differences:
        return Differences(self.run.results, self.record.stories)

    @cached_property
    def causes(self) -> list[Cause]:
        """The causes of the failures that are news, the most frequent first."""
        return self._causes(self.news)

    @cached_property
    def all_causes(self) -> list[Cause]:
        """The causes of all failures, expected or not."""
        return self._causes(self.run.results)

    def _causes(self, results: list[Result]) -> list[Cause]:
        failures = [each for each in results if each.verdict not in NOT_JUDGED and each.verdict is not Verdict.PASS]
        return causes_of(failures, self.differences)

    def cause_of(self, result: Result) -> str:
        """The cause a failure hangs on, in words; empty for what is no failure."""
        blamed = self.differences.blamed(result) if result.verdict is not Verdict.PASS else None
        return blamed.text if blamed else ""

    def again(self, result: Result) -> str:
        """The command that runs a cell again and keeps its frames."""
        return shlex.join([*self.command, "--case", result.cell.name, "--evidence", "evidence"])

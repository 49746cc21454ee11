"""The results of a run beside the expectations and the baseline: surprises, causes, and a command to repeat."""

from __future__ import annotations

import shlex
from functools import cached_property

from kafka_shim.conformance.expect import Expectations
from kafka_shim.conformance.record import Record
from kafka_shim.conformance.report.causes import Cause, Differences, causes_of
from kafka_shim.conformance.runner import Result, Run
from kafka_shim.conformance.verdict import NOT_JUDGED, Verdict


class Assessment:
    """A run with the expectations for its target, and the record of answers to compare with.

    `command` started the run, without the selection of cases.
    """

    def __init__(self, run: Run, expectations: Expectations, record: Record, command: list[str]) -> None:
        self.run = run
        self.expectations = expectations
        self.record = record
        self.command = command

    def surprise(self, result: Result) -> str | None:
        """Return the reason why a result is unexpected; None if it is expected."""
        return self.expectations.surprise(result.cell.case.id, result.cell.version, result.verdict)

    @cached_property
    def unexpected(self) -> list[Result]:
        """The unexpected results, in the order of the run."""
        return [each for each in self.run.results if self.surprise(each) is not None]

    @cached_property
    def differences(self) -> Differences:
        return Differences(self.run.results, self.record.stories)

    @cached_property
    def causes(self) -> list[Cause]:
        """The causes of the unexpected failures, the most frequent first."""
        return self._causes(self.unexpected)

    @cached_property
    def all_causes(self) -> list[Cause]:
        """The causes of all failures, expected or not."""
        return self._causes(self.run.results)

    def _causes(self, results: list[Result]) -> list[Cause]:
        failures = [each for each in results if each.verdict not in NOT_JUDGED and each.verdict is not Verdict.PASS]
        return causes_of(failures, self.differences)

    def cause_of(self, result: Result) -> str:
        """Return the cause of a failure in words; empty for any other result."""
        main = self.differences.main_difference(result) if result.verdict is not Verdict.PASS else None
        return main.text if main else ""

    def again(self, result: Result) -> str:
        """Return the command that runs a cell again and keeps its frames."""
        return shlex.join([*self.command, "--case", result.cell.name, "--evidence", "evidence"])

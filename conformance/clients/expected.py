"""Known failures of clients, `expect.toml`, and the check for unexpected results.

Any change is unexpected: a failure without a line in the file, and a pass in spite of one.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from kafka_shim.conformance.clients.runner import ClientResult
from kafka_shim.conformance.verdict import Verdict

EXPECT: Final = Path(__file__).with_name("expect.toml")


class Expectations:
    """The known failures, by client and case, each with its reason. Those in `sometimes` may also pass."""

    def __init__(
        self, reasons: dict[tuple[str, str], str], sometimes: frozenset[tuple[str, str]] = frozenset()
    ) -> None:
        self.reasons = reasons
        self.sometimes = sometimes

    @classmethod
    def read(cls, path: Path) -> Expectations:
        """Read a file such as

        [[expected]]
        client = "kafkajs-2.2.4"
        cases = ["R20"]
        reason = "..."
        link = "..."
        sometimes = true
        """
        with open(path, "rb") as file:
            lines = tomllib.load(file)["expected"]
        return cls(
            {
                (line["client"], case): f"{line['reason']}{' (' + line['link'] + ')' if 'link' in line else ''}"
                for line in lines
                for case in line["cases"]
            },
            frozenset((line["client"], case) for line in lines if line.get("sometimes") for case in line["cases"]),
        )

    def reason(self, result: ClientResult) -> str | None:
        """Return why a cell is expected to fail; None if it is expected to pass."""
        return self.reasons.get((result.client.name, result.case.id))

    def surprise(self, result: ClientResult) -> str | None:
        """Return why a result is unexpected; None if it is expected."""
        reason = self.reason(result)
        if result.verdict in (Verdict.SKIP, Verdict.UNIMPLEMENTED):
            return None
        if result.verdict is Verdict.HARNESS_ERROR:
            return "the suite itself failed"
        if result.verdict is Verdict.PASS:
            return (
                None
                if reason is None or (result.client.name, result.case.id) in self.sometimes
                else f"pass where a failure was expected ({reason})"
            )
        return f"{result.verdict} where a pass was expected" if reason is None else None

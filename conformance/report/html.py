"""One run as a page: that of the matrix, with filters, and the evidence behind each case that fails."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kafka_shim.conformance.matrix.command import commit, today
from kafka_shim.conformance.matrix.data import matrix_of
from kafka_shim.conformance.matrix.page import page_of
from kafka_shim.conformance.report.evidence import annotated
from kafka_shim.conformance.report.files import as_json
from kafka_shim.conformance.report.judged import Judged
from kafka_shim.conformance.verdict import NOT_JUDGED, Verdict

_EVIDENCE_SHOWN: Final = 40_000


def write_html(judged: Judged, path: Path) -> None:
    """Write the page of one run."""
    matrix = matrix_of([(as_json(judged), today())], today(), commit(), judged.expectations)
    cases = matrix["servers"][0]["cases"]
    for result in judged.run.results:
        if result.verdict not in NOT_JUDGED and result.verdict is not Verdict.PASS:
            shown = annotated(result, judged)[:_EVIDENCE_SHOWN]
            row = cases[result.cell.case.id]
            row.setdefault("evidence", shown)
            row.setdefault("cause", judged.cause_of(result))
    path.write_text(page_of(matrix))

"""One run as an HTML page: that of the matrix, with filters, and the evidence of each failed case."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kafka_shim.conformance.matrix.command import commit, today
from kafka_shim.conformance.matrix.data import matrix_of
from kafka_shim.conformance.matrix.page import page_of
from kafka_shim.conformance.report.assessment import Assessment
from kafka_shim.conformance.report.evidence import annotated
from kafka_shim.conformance.report.files import as_json
from kafka_shim.conformance.verdict import NOT_JUDGED, Verdict

_MAX_EVIDENCE: Final = 40_000


def write_html(assessment: Assessment, path: Path) -> None:
    """Write the page of one run."""
    matrix = matrix_of([(as_json(assessment), today())], today(), commit(), assessment.expectations)
    cases = matrix["servers"][0]["cases"]
    for result in assessment.run.results:
        if result.verdict not in NOT_JUDGED and result.verdict is not Verdict.PASS:
            evidence = annotated(result, assessment)[:_MAX_EVIDENCE]
            row = cases[result.cell.case.id]
            row.setdefault("evidence", evidence)
            row.setdefault("cause", assessment.cause_of(result))
    path.write_text(page_of(matrix))

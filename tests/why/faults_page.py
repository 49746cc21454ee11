"""Generator of the table in docs/known-faults.md. Run `python -m tests.why.faults_page` after a change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from kafka_shim.why.known_faults import FAULTS

PAGE: Final = Path(__file__).parents[2] / "docs" / "known-faults.md"


def table() -> str:
    """Return the table of known faults."""
    rows = ["| fault | of | versions | mended in | sign | what happens |", "| --- | --- | --- | --- | --- | --- |"]
    for each in FAULTS:
        versions = f"{each.since} and later" if each.since else "all before"
        sign = each.sign + ("; said without a version too" if each.is_telling else "")
        mended = ", ".join(each.mended)
        rows.append(
            f"| [{each.name}]({each.source}) | {each.product} | {versions} | {mended} | {sign} | {each.happens} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    PAGE.write_text(
        re.sub(
            r"(<!-- faults -->\n\n).*?(\n\n<!-- end -->)",
            lambda match: f"{match[1]}{table()}{match[2]}",
            PAGE.read_text(),
            flags=re.DOTALL,
        )
    )

"""Generator of `docs/pipeline-tables.md`: `python -m kafka_shim.pipeline.documents docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from kafka_shim.pipeline.schemas import EVENTS, LOG_RECORDS, PARTITIONED, TABLES, Table

PAGE = "pipeline-tables.md"


def columns() -> str:
    """Return the page: every source and table with its columns."""
    parts = [
        "# Tables of the pipeline\n\nThe columns of each table that the Spark pipeline writes;"
        " [pipeline.md](pipeline.md) tells how. This page"
        " is written by `python -m kafka_shim.pipeline.documents docs`.\n",
        "\n## Columns of the sources\n",
        _section("kafka_shim_trace", EVENTS, ""),
        _section("kafka_offsets_log", LOG_RECORDS, ""),
        "\n## Columns of the tables\n",
        *(
            _section(name, table, " Partitioned by day and bucket." if name in PARTITIONED else "")
            for name, table in TABLES.items()
        ),
    ]
    return "".join(parts)


def _section(name: str, table: Table, more: str) -> str:
    lines = "".join(f"| `{column.name}` | `{column.type}` | {column.meaning} |\n" for column in table.columns)
    return f"\n### `{name}`\n\n{table.row}{more}\n\n| column | type | meaning |\n| --- | --- | --- |\n{lines}"


def main(folder: Path) -> None:
    """Write the page into a folder."""
    (folder / PAGE).write_text(columns())


if __name__ == "__main__":
    main(Path(sys.argv[1]))

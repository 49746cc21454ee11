"""Generator of `shim/why/page/rules.js`: texts of errors, of arrows between states, and of the rules that they cite.

Written from the tables of the rules, so that the page says the same without a server and without a network. Run
`python -m tests.why.rules` after a change; a test checks that the committed file is fresh.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.sources import cited_rules
from kafka_shim.groups.classic.states import ERRORS, MEANING, RULES, Rule
from kafka_shim.why import arrows

PATH = Path(__file__).parents[2] / "shim" / "why" / "page" / "rules.js"


def written() -> str:
    """Return the script."""
    machines = {kind: _machine(of) for kind, of in arrows.MACHINES.items()}
    cites = sorted({cite for machine in machines.values() for arrow in machine.values() for cite in arrow["cites"]})
    table = {trigger.value: {state.value: rule.value for state, rule in row.items()} for trigger, row in RULES.items()}
    rules = {rule.value: {"does": MEANING[rule], "error": int(ERRORS[rule])} for rule in Rule}
    names = {int(code): code.name for code in ErrorCode if code}
    return "\n".join(
        [
            "// @ts-check",
            "// Written by `python -m tests.why.rules` from the tables of the rules and from docs/semantics.",
            '"use strict";',
            "",
            "/** Kafka's names of errors, by their codes. */",
            f"const ERROR_NAMES = {json.dumps(names)};",
            "",
            "/** By kind of group and arrow `from>to`: its label, the rules of the table for it, and what it cites. */",
            f"const ARROWS = {json.dumps(machines, indent=1)};",
            "",
            "/** The table of the classic group: by what may happen and the state that it finds, the rule. */",
            f"const TABLE = {json.dumps(table)};",
            "",
            "/** What each of these rules does, and the error that it answers. */",
            f"const RULES = {json.dumps(rules)};",
            "",
            "/** The rules of docs/semantics that are cited: their text, and where they come from. */",
            f"const SEMANTICS = {json.dumps({cite: _semantics(cite) for cite in cites}, indent=1)};",
            "",
        ]
    )


def _machine(of: Mapping[Any, arrows.Arrow]) -> dict[str, Any]:
    return {f"{before.value}>{after.value}": _arrow(before, arrow) for (before, after), arrow in of.items()}


def _arrow(before: Any, arrow: arrows.Arrow) -> dict[str, Any]:
    rules = [
        {
            "rule": rule.value,
            "does": MEANING[rule],
            "triggers": [trigger.value for trigger, row in RULES.items() if row.get(before) is rule],
        }
        for rule in arrow.rules
    ]
    return {"label": arrow.label, "cites": list(arrow.cites), "rules": rules}


def _semantics(cite: str) -> dict[str, Any]:
    (rule,) = cited_rules(cite)
    return {"text": rule.text, "origins": list(rule.origins), "section": rule.section}


if __name__ == "__main__":
    PATH.write_text(written())

"""Generator of `docs/states.md` and `docs/trace.md` from the tables that they describe.

Run `python -m kafka_shim.groups.documents DOCS_FOLDER` after a change; a test checks that the committed pages are
fresh.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kafka_shim.groups.classic.states import COUNTED, ERRORS, GUARDS, MEANING, RULES, TRANSITIONS, Rule, State
from kafka_shim.trace.documents import page, table, trace_page


def states_page() -> str:
    """Return the page of the classic group's state machine."""
    return page(
        "# States of a classic group",
        "Generated from `shim/groups/classic/states.py` by `python -m kafka_shim.groups.documents docs`.",
        "A new group is Empty. These are the changes of state and their reasons;"
        " [the page](page.md#states-rules-and-timers) of a server draws the same, with the state that a group is in and"
        " the rules behind each arrow:",
        "![The states of a classic group, each arrow with what leads along it]"
        "(pictures/page-machine-classic-light.webp)",
        table(
            ["from", "to"],
            (
                [before.value, ", ".join(after.value for after in State if after in TRANSITIONS[before])]
                for before in State
            ),
        ),
        "The rule for a request or a timer, by the state of the group.",
        table(
            ["trigger", *(state.value for state in State)],
            ([trigger.value, *(f"`{rule.value}`" for rule in row.values())] for trigger, row in RULES.items()),
        ),
        "## Guards",
        "Checks that refuse a request in any state except Dead.",
        table(["where", "what is refused", "requests"], GUARDS),
        "The quantity that `group.max.size` limits; a member that is counted already has room.",
        table(list(COUNTED), [[counted.value for counted in COUNTED.values()]]),
        "## Rules",
        "The names are those of the field `rule` in the trace. A *round* is the join round under way in"
        " PreparingRebalance; *the initial one* is that of a group that was Empty.",
        table(
            ["rule", "error", "what it does"],
            ([f"`{rule.value}`", str(int(ERRORS[rule])), MEANING[rule]] for rule in Rule),
        ),
    )


PAGES: Final[dict[str, Callable[[], str]]] = {"states.md": states_page, "trace.md": trace_page}
"""Every generated page, by its name in the documentation's folder."""


if __name__ == "__main__":
    for page_name, write in PAGES.items():
        (Path(sys.argv[1]) / page_name).write_text(write())

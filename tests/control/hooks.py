"""Hooks of Schemathesis that shorten waits, so that many requests fit into seconds.

They shorten only valid waits, and leave invalid ones to be refused.
"""

from typing import Any

import schemathesis
from schemathesis.core import NOT_SET

SECONDS = 0.02
WAITS = {"timeout": 10.0, "seconds": 0.0, "advance": 0.0}
"""Fields that say how long to wait, with how long it is when nothing is said."""


def shorten(body: dict[str, Any], *names: str) -> None:
    for name in names:
        value = body.get(name, WAITS[name])
        if isinstance(value, int | float) and not isinstance(value, bool) and SECONDS < value <= 31 * 86_400:
            body[name] = SECONDS


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    path = case.operation.path
    if path.endswith("/await") and case.body is NOT_SET:
        case.body = {}
    if path.endswith(("/await", "/rewind")) and isinstance(case.body, dict):
        shorten(
            case.body,
            *(["timeout", "seconds"] if case.body.get("for") in ("no-rebalance", "no-commit") else ["timeout"]),
        )
    if path == "/v1/clock" and isinstance(case.body, dict):
        shorten(case.body, "advance")
    if path == "/v1/events" and isinstance(case.query, dict):
        case.query.setdefault("seconds", SECONDS)
        shorten(case.query, "seconds")

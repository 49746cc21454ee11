"""`NAME=VALUE` arguments, as fields of a body of the control API."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import click

_TEXTS: Final = (
    "api",
    "assignor",
    "client_id",
    "group",
    "instance",
    "instance_id",
    "kind",
    "member",
    "pattern",
    "process_id",
    "rack_id",
    "role",
    "state",
    "when",
)
"""Fields that are text even if they look like a number."""


def body_of(fields: Iterable[str]) -> dict[str, Any]:
    """Return a body with these fields; a value is JSON, or a text. Raises ClickException, in one sentence."""
    body: dict[str, Any] = {}
    for field in fields:
        name, equals, text = field.partition("=")
        if not equals or not name:
            raise click.ClickException(f"{field!r} is not of the form NAME=VALUE, such as group=billing.")
        body[name] = text if name in _TEXTS else _value(text)
    return body


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text

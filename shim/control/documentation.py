"""The page `/docs`: the OpenAPI document for people.

Decides how an operation reads there. The page is one file without scripts, so that it shows where there is no network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c2733 }
h2 { margin: 2.5rem 0 .5rem; text-transform: capitalize } summary { cursor: pointer; padding: .35rem 0 }
code, pre { font: 14px/1.45 ui-monospace, monospace } pre { background: #f3f5f7; padding: .75rem; overflow-x: auto }
summary code { font-weight: 600 } table { border-collapse: collapse } td { padding: .15rem 1rem .15rem 0 }
details { border-bottom: 1px solid #dfe4e8 }
"""


def documentation(document: Mapping[str, Any]) -> bytes:
    """The page of an OpenAPI document, UTF-8."""
    title = escape(document["info"]["title"])
    by_tag: dict[str, list[str]] = {}
    for path, of_path in document["paths"].items():
        for method, operation in of_path.items():
            by_tag.setdefault(operation["tags"][0], []).append(_operation(method.upper(), path, operation))
    parts = [f"<h2>{escape(tag)}</h2>{''.join(shown)}" for tag, shown in by_tag.items()]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>{escape(document['info']['description'])} Types and bounds are in"
        f' <a href="/openapi.json">/openapi.json</a>.</p>{"".join(parts)}</html>'
    ).encode()


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    body = "".join(_body(method, path, operation))
    return (
        f"<details><summary><code>{method} {escape(path)}</code> {escape(operation['summary'])}</summary>"
        f"{body}</details>"
    )


def _body(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    if "example" in content:
        yield f"<pre>{escape(json.dumps(content['example'], indent=2))}</pre>"
    rows = [(each["name"], each["in"], each["schema"].get("description", "")) for each in operation["parameters"]]
    rows += [(status, "", answer["description"]) for status, answer in operation["responses"].items()]
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    yield f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"

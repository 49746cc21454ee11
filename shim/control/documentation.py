"""The page `/docs`: the OpenAPI document for people.

The page is one file without scripts, so that it shows without a network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

STYLE: Final = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: light-dark(#1c2733, #e8eaed); background: light-dark(#fff, #14171c); overflow-wrap: anywhere }
a { color: light-dark(#1f5f9f, #7fb4ee) }
h2 { margin: 2.5rem 0 .5rem; text-transform: capitalize } summary { cursor: pointer; padding: .35rem 0 }
code, pre { font: 14px/1.45 ui-monospace, monospace }
pre { background: light-dark(#f3f5f7, #1e2329); padding: .75rem; overflow-x: auto }
summary code { font-weight: 600; margin-right: .4rem }
table { border-collapse: collapse } td { padding: .15rem 1rem .15rem 0 }
details { border-bottom: 1px solid light-dark(#dfe4e8, #363d46) }
"""


def policy(style: str) -> dict[str, str]:
    """Return the security header of a page without scripts; the page loads nothing, and its style element has this
    text."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return {
        "content-security-policy": f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    }


def documentation(document: Mapping[str, Any]) -> bytes:
    """Return the page of an OpenAPI document, UTF-8."""
    title = escape(document["info"]["title"])
    by_tag: dict[str, list[str]] = {}
    for path, of_path in document["paths"].items():
        for method, operation in of_path.items():
            by_tag.setdefault(operation["tags"][0], []).append(_operation(method.upper(), path, operation))
    parts = [f"<h2>{escape(tag)}</h2>{''.join(operations)}" for tag, operations in by_tag.items()]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{STYLE}</style>"
    )
    intro = (
        f"<h1>{title}</h1><p>{_prose(document['info']['description'])} Types and bounds are in"
        ' <a href="/openapi.json">/openapi.json</a>.</p>'
    )
    return (f'<!doctype html><html lang="en">{head}<main>{intro}{"".join(parts)}</main></html>').encode()


def _prose(text: str) -> str:
    """Return the text with Markdown's backticks as code elements."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    body = "".join(_body(method, path, operation))
    return (
        f"<details><summary><code>{method} {escape(path)}</code> {_prose(operation['summary'])}</summary>"
        f"{body}</details>"
    )


def _body(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    if "example" in content:
        yield f'<pre tabindex="0">{escape(json.dumps(content["example"], indent=2))}</pre>'
    rows = [(each["name"], each["in"], each["schema"].get("description", "")) for each in operation["parameters"]]
    rows += [(status, "", answer["description"]) for status, answer in operation["responses"].items()]
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    yield f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"

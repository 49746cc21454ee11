"""The pages `/semantics` and `/semantics/2`: the index and the chapters of docs/semantics as HTML.

The page of groups links to their rules. They have no scripts, so that they show without a network. The texts are the
package's copy for the conformance suite.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import kafka_shim
from kafka_shim.control.documentation import STYLE, policy
from kafka_shim.control.workbench import Workbench

_FOLDER: Final = Path(kafka_shim.__file__).parent / "conformance" / "semantics"
_WIDE: Final = (
    "body { max-width: 80rem } h2 { text-transform: none }"
    " td, th { padding: .15rem 1rem .15rem 0; text-align: left; vertical-align: top; overflow-wrap: normal }"
    " .table { overflow-x: auto }"
)
_STYLE: Final = STYLE + _WIDE


def semantics_routes(workbench: Workbench) -> list[Route]:
    """Return the routes of the index and the chapters."""

    async def show(request: Request) -> Response:
        # Made in a thread: a chapter takes tens of milliseconds, in which the coordinator would not serve.
        page = await workbench.elsewhere(_page, request.url.path)
        return Response(page, headers=policy(_STYLE), media_type="text/html; charset=utf-8")

    return [Route(path, show) for path in pages()]


@cache
def pages() -> dict[str, Path]:
    """Return the files of the index and the chapters by their paths on the server."""
    chapters = {f"/semantics/{page.name.partition('-')[0]}": page for page in sorted(_FOLDER.glob("[0-9]*.md"))}
    return {"/semantics": _FOLDER / "index.md"} | chapters


@cache
def _page(path: str) -> bytes:
    # Imported here because it takes long, and few clients request the page.
    from markdown_it import MarkdownIt

    text = pages()[path].read_text(encoding="utf-8")
    text = re.sub(r"^```\{toctree\}.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"\]\((\d)-[\w-]+\.md", r"](/semantics/\1", text)
    # Other pages of the documentation are not served.
    text = re.sub(r"\[([^\]]+)\]\((?!#|/semantics|https?:)[^)]+\)", r"\1", text)
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    body = body.replace("<table>", '<div class="table" tabindex="0"><table>').replace("</table>", "</table></div>")
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>Semantics</title><style>{_STYLE}</style>"
    )
    return f'<!doctype html><html lang="en">{head}<main>{body}</main></html>'.encode()

"""The page `/semantics`: docs/semantics.md for people, whose rules the page of groups links to.

Decides how the document is shown: as HTML without scripts, so that it shows where there is no network. The text is the
one that the package has for the conformance suite.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import kafka_shim
from kafka_shim.control.documentation import STYLE

_TEXT: Final = Path(kafka_shim.__file__).parent / "conformance" / "semantics.md"
_WIDE: Final = (
    "body { max-width: 80rem } h2 { text-transform: none }"
    " td, th { padding: .15rem 1rem .15rem 0; text-align: left; vertical-align: top; overflow-wrap: normal }"
)


def semantics_routes() -> list[Route]:
    """`/semantics`."""
    return [Route("/semantics", _show)]


async def _show(request: Request) -> Response:
    # It takes a tenth of a second, in which the coordinator would not serve.
    return Response(await trio.to_thread.run_sync(_page), media_type="text/html; charset=utf-8")


@cache
def _page() -> bytes:
    # Imported here because it takes long, and few ask for the page.
    from markdown_it import MarkdownIt

    text = _TEXT.read_text(encoding="utf-8")
    # Other pages of the documentation are not served.
    text = re.sub(r"\[([^\]]+)\]\((?!#|https?:)[^)]+\)", r"\1", text)
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    body = body.replace("<table>", '<div class="table" tabindex="0"><table>').replace("</table>", "</table></div>")
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>Semantics</title><style>{STYLE}{_WIDE} .table {{ overflow-x: auto }}</style>"
    )
    return f'<!doctype html><html lang="en">{head}<main>{body}</main></html>'.encode()

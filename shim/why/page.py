"""The page that draws groups: its files, and the same page as one HTML file with a trace in it.

Decides only how the parts are put together. The scripts are plain ones that share one scope, in the order of `SCRIPTS`,
so that they work inline from a file as well as from a server. What they draw is in `page/`.
"""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Final

SCRIPTS: Final = (
    *("model.js", "timeline.js", "rules.js", "page.js", "frames.js", "assignment.js", "compare.js", "lab.js"),
    *("sandbox.js", "states.js", "lessons.js"),
)
MEDIA_TYPES: Final = {"page.css": "text/css", **dict.fromkeys(SCRIPTS, "text/javascript")}
"""By name, the files beside the page itself."""

_FOLDER: Final = Path(__file__).resolve().parent / "page"


@cache
def asset(name: str) -> bytes:
    """A file of the page: `index.html`, or one of `MEDIA_TYPES`."""
    return (_FOLDER / name).read_bytes()


def standalone(trace: bytes, name: str, frames: bytes = b"", why: bytes = b"") -> bytes:
    """The page as one HTML file that needs nothing beside it and no network; `trace` is JSON Lines, not packed, and so
    are `frames`, the bytes of requests as `FramePair.shown` has them, and `why`, groups as `explanation.as_json` has
    them."""
    html = asset("index.html").decode()
    style = asset("page.css").decode()
    html = html.replace('<link rel="stylesheet" href="/page/page.css">', f"<style>\n{style}</style>")
    scripts = "".join(f"<script>\n{asset(script).decode()}</script>\n" for script in SCRIPTS)
    head, found, rest = html.partition('<script src="/page/model.js"></script>')
    assert found
    for script in SCRIPTS[1:]:
        rest = rest.replace(f'<script src="/page/{script}"></script>\n', "")
    # Text in a script element ends at "</": JSON may write the slash with a backslash.
    named = json.dumps(name).replace("</", "<\\/")
    data = f"<script>window.TRACE_NAME = {named}; window.TRACE = {_packed(trace)}; window.FRAMES = {_packed(frames)};"
    data += f" window.WHY = {_packed(why)};"
    data += "</script>\n"
    return (head + data + scripts + rest.lstrip("\n")).encode()


def _packed(lines: bytes) -> str:
    """As a script writes it: packed, in base64; nothing is an empty text."""
    return json.dumps(base64.b64encode(gzip.compress(lines, mtime=0)).decode() if lines else "")

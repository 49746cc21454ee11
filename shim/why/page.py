"""The page that draws groups: its files, and the same page as one HTML file with a trace.

The scripts share one scope, in the order of `SCRIPTS`, so that they work inline in a file as well as from a server. The
folder `page/` has them.
"""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Final

SCRIPTS: Final = (
    *("model.js", "timeline.js", "rules.js", "tables.js", "page.js", "sources.js", "groups.js", "answer.js"),
    *("frames.js", "assignment.js", "compare.js", "lab.js", "sandbox.js", "states.js", "lessons.js"),
)
MEDIA_TYPES: Final = {"page.css": "text/css", **dict.fromkeys(SCRIPTS, "text/javascript")}
"""By name, the files beside the page itself."""

_FOLDER: Final = Path(__file__).resolve().parent / "page"


@cache
def asset(name: str) -> bytes:
    """Return a file of the page: `index.html`, or one of `MEDIA_TYPES`."""
    return (_FOLDER / name).read_bytes()


def standalone(trace: bytes, name: str, frames: bytes = b"", why: bytes = b"") -> bytes:
    """Return the page as one HTML file that needs neither other files nor the network. `trace` is uncompressed JSON
    Lines, and so are `frames`, the bytes of requests from `FramePair.shown`, and `why`, the groups from
    `explanation.as_json`.
    """
    html = asset("index.html").decode()
    style = asset("page.css").decode()
    html = html.replace('<link rel="stylesheet" href="/page/page.css">', f"<style>\n{style}</style>")
    scripts = "".join(f"<script>\n{asset(script).decode()}</script>\n" for script in SCRIPTS)
    head, marker, rest = html.partition('<script src="/page/model.js"></script>')
    assert marker
    for script in SCRIPTS[1:]:
        rest = rest.replace(f'<script src="/page/{script}"></script>\n', "")
    # Text in a script element ends at "</": JSON may write the slash with a backslash.
    name_json = json.dumps(name).replace("</", "<\\/")
    data = (
        f"<script>window.TRACE_NAME = {name_json}; window.TRACE = {_packed(trace)}; window.FRAMES = {_packed(frames)};"
    )
    data += f" window.WHY = {_packed(why)};"
    data += "</script>\n"
    return (head + data + scripts + rest.lstrip("\n")).encode()


def _packed(lines: bytes) -> str:
    """Compress and encode data for a script, in base64; no data is an empty text."""
    return json.dumps(base64.b64encode(gzip.compress(lines, mtime=0)).decode() if lines else "")

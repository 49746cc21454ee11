"""The pictures of docs/: views of the page in a real browser, light and dark.

The groups are real: a recording of kafka-python's consumers on Kafka 4.2, and a lesson. `python -m tests.why.pictures`
writes them; do that after a change of the page. A test checks that each exists and is small.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kafka_shim.lab.replaying import play
from kafka_shim.testing import CoordinatorServer
from kafka_shim.trace.reading import read
from kafka_shim.why.export import page_of
from tests.browser import DRAWN, Browser

KINDS: Final = ("classic", "consumer", "share", "streams")
FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures"
TRACE: Final = Path(__file__).parents[1] / "pipeline" / "recordings" / "kafka-4.2" / "trace" / "trace.jsonl.gz"
LARGEST: Final = 150_000
"""Bytes of a picture."""
WIDE, NARROW = 1400, 420


class View(NamedTuple):
    """A picture: after `prepare` in the page, the element of the selector `of` to a depth of `height` pixels."""

    name: str
    page: str
    prepare: str
    of: str
    height: int = 1000
    width: int = WIDE


_BILLING: Final = f"select('billing'); {DRAWN}"
_OPENED: Final = f"select('billing'); open(page.model.groups.get('billing').rebalances.length - 1); {DRAWN}"
_LESSON: Final = (
    "(async () => { await beginLesson('fencing'); goTo(1, true, 1);"
    " while ($('#frame').hidden) await new Promise(requestAnimationFrame); })()"
)
_ALONE: Final = f"{_LESSON}.then(() => $('main').classList.remove('with-lesson'))"
"""The views that the lesson opens, in their usual width."""
VIEWS: Final = (
    View("timeline", "trace", _BILLING, "#group"),
    View("rebalance", "trace", _OPENED, "#group", 1200),
    View(
        "request",
        "server",
        f"{_ALONE}.then(() => document.querySelector('#frame .fields [data-piece=\"8\"]')"
        ".dispatchEvent(new PointerEvent('pointerover', { bubbles: true })))",
        "#frame",
    ),
    View(
        "assignors", "server", f"{_ALONE}.then(() => {{ $('#assignors').open = true; return divide(); }})", "#assignors"
    ),
    View(
        "states",
        "trace",
        f"{_BILLING}.then(() => {{ $('#machine').open = true; return {DRAWN}; }})"
        ".then(() => openArrow('classic', 'Stable>PreparingRebalance'))",
        "#machine",
    ),
    View("lesson", "server", _LESSON, "main", 1300),
    *(
        View(
            f"machine-{kind}",
            "trace",
            f"{_BILLING}.then(() => {{ $('#machine').open = true; return {DRAWN}; }})"
            f".then(() => $('#states').replaceChildren(machine('{kind}', '')))",
            "#states svg",
        )
        for kind in KINDS
    ),
    View("phone", "trace", _OPENED, "body", 1400, NARROW),
)


def pictures() -> Iterator[tuple[Path, View, bool]]:
    """Return each picture's file, its view, and true for a dark one."""
    for view in VIEWS:
        for dark in (False, True):
            yield FOLDER / f"page-{view.name}-{'dark' if dark else 'light'}.webp", view, dark


def take(browser: Browser, folder: Path, only: str = "", width: int | None = None) -> None:
    """Write the pictures into `folder`."""
    with tempfile.TemporaryDirectory() as scratch, CoordinatorServer(topics={"orders": 6}, control=True) as server:
        trace = Path(scratch) / "trace.html"
        trace.write_bytes(page_of(read([TRACE]), "recorded on Kafka 4.2", play))
        pages = {"trace": trace.as_uri(), "server": server.control_url + "/"}
        for path, view, dark in pictures():
            if only not in path.name:
                continue
            browser.open(pages[view.page], dark=dark, width=width or view.width)
            browser.wait("page.model.groups.size > 0" if view.page == "trace" else "page.live")
            browser.evaluate(view.prepare)
            browser.evaluate(DRAWN)
            browser.screenshot(folder / path.name, view.of, view.height)
            assert browser.errors == []


def main() -> None:
    """Write all of docs/pictures, or the pictures with a given word in their names, into a given folder."""
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER
    folder.mkdir(exist_ok=True)
    with Browser() as browser:
        take(browser, folder, *sys.argv[1:2], width=int(sys.argv[3]) if len(sys.argv) > 3 else None)


if __name__ == "__main__":
    main()

"""A page in a real browser: the system's Chromium, driven by Playwright.

The browser collects requests and errors of a page while it loads. Expressions and pictures go by the DevTools
protocol itself: the page's policy forbids `eval`, and Playwright has no WebP.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import axe_core_python
import pytest
from playwright.sync_api import CDPSession, ConsoleMessage, Page, Playwright, Request, sync_playwright

_AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--hide-scrollbars"]

DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""A promise of the page that resolves after two frames."""

PATIENCE_S = 60.0
"""How long the browser may take for one call."""
WAIT_S = 50.0
"""How long a condition in the page may take."""

_Found = TypeVar("_Found")


class Browser:
    """One Chromium with one page. Use it in a `with` block.

    It lives in a thread of its own: Playwright leaves an event loop running in the thread it was started in, and
    asyncio's tests could have none of their own there.
    """

    _playwright: Playwright
    _page: Page
    _devtools: CDPSession

    def __init__(self) -> None:
        self._chromium = shutil.which("chromium") or shutil.which("google-chrome")
        if self._chromium is None:
            pytest.skip("a browser is missing: Chromium is not installed")
        self._thread = ThreadPoolExecutor(1, "browser")
        self.requests: list[str] = []
        """The addresses that the page requested."""
        self.errors: list[str] = []
        """Exceptions, logged errors, and failed requests."""

    def __enter__(self) -> Browser:
        self._do(self._start)
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._stop)
        self._thread.shutdown()

    def _do(self, what: Callable[[], _Found]) -> _Found:
        return self._thread.submit(what).result(PATIENCE_S)

    def _start(self) -> None:
        self._playwright = sync_playwright().start()
        chromium = self._playwright.chromium.launch(executable_path=self._chromium, args=_OPTIONS)
        self._page = page = chromium.new_context(device_scale_factor=1).new_page()
        self._devtools = page.context.new_cdp_session(page)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("requestfailed", self._failed)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._logged)

    def _stop(self) -> None:
        browser = self._page.context.browser
        assert browser is not None
        browser.close()
        self._playwright.stop()

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":
            self.errors.append(f"a request failed: {request.failure}")

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def open(self, url: str, *, dark: bool = False, width: int = 1100, height: int = 900, forced: bool = False) -> None:
        """Forget earlier requests and errors, open a page, and wait until it has loaded; with `forced`, in the few
        colours that a system forces on all pages.
        """

        def load() -> None:
            self._page.emulate_media(
                color_scheme="dark" if dark else "light", forced_colors="active" if forced else "none"
            )
            self._page.set_viewport_size({"width": width, "height": height})
            # The page before may still look for its server, which has ended.
            self._page.goto("about:blank")
            self.requests.clear()
            self.errors.clear()
            self._page.goto(url)

        self._do(load)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def follow(self, selector: str) -> None:
        """Click a link, and wait until the other page has loaded: a call across the change of pages would fail."""

        def click() -> None:
            with self._page.expect_navigation(timeout=WAIT_S * 1000):
                self._devtools.send("Runtime.evaluate", {"expression": f"document.querySelector({selector!r}).click()"})

        self._do(click)

    def wait(self, condition: str) -> None:
        """Wait until a condition holds in the page, and is drawn. Raises AssertionError after `WAIT_S`.

        The page draws a change of its model with the next frame, so that a test would find the tables of before.
        """
        # The page ends the wait, before this thread would give up and leave the browser busy for all later tests.
        assert self.evaluate(
            f"new Promise((done) => {{ const end = performance.now() + {WAIT_S * 1000:.0f};"
            f" const look = () => ({condition}) ? {DRAWN}.then(() => done(true))"
            " : performance.now() > end ? done(false) : requestAnimationFrame(look); look(); })"
        ), f"not within {WAIT_S:.0f} s: {condition}"

    def screenshot(self, to: Path, of: str = "body", height: float = 20_000) -> None:
        """Save an element to a depth of `height` pixels as PNG or WebP, by the suffix of the file."""
        box = self.evaluate(
            f"(({{ x, y, width, height }}) => ({{ x: x + scrollX, y: y + scrollY, width, height }}))"
            f"(document.querySelector({of!r}).getBoundingClientRect())"
        )
        clip = box | {"height": min(box["height"], height), "scale": 1}
        quality = {"quality": 85} if to.suffix == ".webp" else {}
        picture = self.call(
            "Page.captureScreenshot", format=to.suffix[1:], clip=clip, captureBeyondViewport=True, **quality
        )
        to.write_bytes(base64.b64decode(picture["data"]))

    def violations(self, of: str = "document") -> list[str]:
        """Return the problems that axe has with the page or an element of it: for readers without sight or mouse."""
        self.evaluate(f"{_AXE.read_text()};0")
        problems: list[str] = self.evaluate(
            # A list of all passes takes axe minutes on a long page.
            f"axe.run({of}, {{resultTypes: ['violations']}}).then((all) => all.violations.map((each) =>"
            " `${each.id}: ${each.nodes.map((node) => node.target.join()).join('; ')}`))"
        )
        return problems

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Carry out a command of the DevTools protocol, and return its result."""
        result: dict[str, Any] = self._do(lambda: self._devtools.send(method, params))
        return result

"""A page in a real browser: the system's Chromium, driven by Playwright.

What a page asks for and what goes wrong in it is gathered while it loads. Expressions and pictures go by the DevTools
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
"""What a page waits for until it has drawn what is due."""

PATIENCE_S = 60.0
"""How long the browser may take for one call."""

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
        """The addresses the page has asked for."""
        self.errors: list[str] = []
        """What was thrown or logged as an error, and requests that failed."""

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

    def open(self, url: str, *, dark: bool = False, width: int = 1100, height: int = 900) -> None:
        """Show a page and wait until it has loaded; what was gathered before is forgotten."""

        def load() -> None:
            self._page.emulate_media(color_scheme="dark" if dark else "light")
            self._page.set_viewport_size({"width": width, "height": height})
            self.requests.clear()
            self.errors.clear()
            self._page.goto(url)

        self._do(load)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a condition holds in the page, looking once a frame."""
        self.evaluate(
            "new Promise((done) => {"
            f" const look = () => ({condition}) ? done() : requestAnimationFrame(look); look(); }})"
        )

    def screenshot(self, to: Path, of: str = "body", height: float = 20_000) -> None:
        """What a selector finds, from its top down to `height` pixels, as a file of PNG or WebP, as its name says."""
        box = self.evaluate(
            f"(({{ x, y, width, height }}) => ({{ x: x + scrollX, y: y + scrollY, width, height }}))"
            f"(document.querySelector({of!r}).getBoundingClientRect())"
        )
        clip = box | {"height": min(box["height"], height), "scale": 1}
        quality = {"quality": 85} if to.suffix == ".webp" else {}
        found = self.call(
            "Page.captureScreenshot", format=to.suffix[1:], clip=clip, captureBeyondViewport=True, **quality
        )
        to.write_bytes(base64.b64decode(found["data"]))

    def violations(self, of: str = "document") -> list[str]:
        """What axe finds wrong with the page, or with an element of it, for whoever cannot see it or uses no mouse."""
        self.evaluate(f"{_AXE.read_text()};0")
        found: list[str] = self.evaluate(
            # To name all that is as it should be takes axe minutes on a long page.
            f"axe.run({of}, {{resultTypes: ['violations']}}).then((all) => all.violations.map((each) =>"
            " `${each.id}: ${each.nodes.map((node) => node.target.join()).join('; ')}`))"
        )
        return found

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Carry out a command of the DevTools protocol; what it returns."""
        found: dict[str, Any] = self._do(lambda: self._devtools.send(method, params))
        return found

"""A page in a real browser: headless Chromium, spoken to over a pipe by its DevTools protocol.

It needs nothing but Chromium itself. What a page asks for and what goes wrong in it is gathered while it loads.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import axe_core_python
import pytest

_AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
_OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    *("--disable-dev-shm-usage", "--remote-debugging-pipe"),
]


DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""What a page waits for until it has drawn what is due."""


class Browser:
    """One Chromium with one page. Use it in a `with` block; `profile` is a folder of its own."""

    def __init__(self, profile: Path) -> None:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        if chromium is None:
            pytest.skip("a browser is missing: Chromium is not installed")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Chromium reads its commands from descriptor 3 and answers on 4.
        command = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", chromium, *_OPTIONS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._numbers = itertools.count(1)
        self._read = b""
        self._session: str | None = None
        self.requests: list[str] = []
        """The addresses the page has asked for."""
        self.errors: list[str] = []
        """What was thrown or logged as an error, and requests that failed."""
        self._loaded = 0

    def __enter__(self) -> Browser:
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        # As if its window were in front: else nothing in it gets the focus.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def open(self, url: str, *, dark: bool = False, width: int = 1100, height: int = 900) -> None:
        """Show a page and wait until it has loaded; what was gathered before is forgotten."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.requests.clear()
        self.errors.clear()
        before = self._loaded
        self.call("Page.navigate", url=url)
        while self._loaded == before:
            self._next()

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
            f"axe.run({of}).then((all) => all.violations.map((each) =>"
            " `${each.id}: ${each.nodes.map((node) => node.target.join()).join('; ')}`))"
        )
        return found

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Carry out a command of the protocol; what it returns."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self, patience: float = 30.0) -> dict[str, Any]:
        limit = time.monotonic() + patience
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._in], [], [], max(limit - time.monotonic(), 0))
            data = os.read(self._in, 1 << 20) if ready else b""
            assert data, "the browser says nothing"
            self._read += data
        text, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._gather(message.get("method", ""), message.get("params", {}))
        return message

    def _gather(self, event: str, params: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded += 1
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Network.loadingFailed" and not params.get("canceled"):
            self.errors.append(f"a request failed: {params['errorText']}")
        elif event == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(str(params["args"]))

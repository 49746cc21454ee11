"""The page of a laboratory starts a sandbox from the moment before a rebalance; the sandbox has its own page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import DRAWN, Browser
from tests.commands.test_replay import serving

pytestmark = pytest.mark.second_stage("a browser")

LAST = "page.model.groups.get('billing')?.rebalances.at(-1)"


def test_a_sandbox_continues_the_run_before_the_open_rebalance(browser: Browser, tmp_path: Path) -> None:
    words = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--topic", "orders:4", "--lab"]
    words += ["--config", "group.initial.rebalance.delay.ms=0", "--journal", str(tmp_path / "journal.jsonl")]
    with serving(*words) as http:
        http.post("/v1/clock", json={"frozen": True})
        puppet = {"group": "billing", "topics": ["orders"], "session_timeout": 10, "heartbeat_interval": 3}
        http.post("/v1/puppets", json=puppet | {"client_id": "one"})
        # Two that come together would share one rebalance.
        assert http.post("/v1/groups/billing/await", json={"for": "stable", "members": 1}).is_success
        http.post("/v1/puppets", json=puppet | {"client_id": "two"})
        http.post("/v1/clock", json={"advance": 10})
        http.post("/v1/puppets/1", json={"do": "crash"})
        http.post("/v1/clock", json={"advance": 20})
        browser.open(f"{http.base_url}/", width=1400)
        browser.wait(f"{LAST}?.cause === 'SESSION_EXPIRED'")
        browser.wait("document.querySelector('#lab-sandbox').hidden === false")
        browser.evaluate(
            "document.querySelector('#lab').open = true; open(page.model.groups.get('billing').rebalances.length - 1)"
        )
        browser.wait("document.querySelector('#lab-sandbox input').placeholder !== 'now'")
        moment = browser.evaluate("Date.parse(document.querySelector('#lab-sandbox input').placeholder) / 1000")
        assert browser.evaluate(f"{LAST}.started") - moment == pytest.approx(0.001, abs=0.0011)
        browser.evaluate("document.querySelector('#lab-sandbox').requestSubmit()")
        browser.wait("document.querySelector('#sandboxes a') !== null")
        sandbox = browser.evaluate("document.querySelector('#sandboxes a').href")
        assert browser.violations() == []
        assert browser.errors == []
        for width, dark in ((1400, False), (420, True)):
            browser.open(sandbox, width=width, dark=dark)
            # The sandbox has the earlier events and not the later ones.
            browser.wait("page.model.groups.get('billing')?.generation === 2")
            browser.wait("document.querySelector('#lab').hidden === false")
            assert browser.evaluate(f"{LAST}.cause") == "NEW_MEMBER"
            # Its clock shows the time of the run, not of this machine.
            assert browser.evaluate("page.wall()") == pytest.approx(moment, abs=11.0)
            browser.evaluate(f"document.querySelector('#lab').open = true; {DRAWN}")
            assert browser.evaluate("document.querySelector('#lab-sandbox').hidden")
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            assert browser.violations() == []
        # The first puppet is alive again: nothing rebalances while a minute passes.
        browser.evaluate("act('POST', '/v1/clock', { advance: 60 })")
        browser.wait("document.querySelectorAll('#lab-table tbody tr').length >= 2")
        assert browser.evaluate(f"{LAST}.cause") == "NEW_MEMBER"
        assert browser.errors == []

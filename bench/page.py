"""How smooth the page is: a trace of 511 members and 100,000 events in a real Chromium, moved, zoomed and scrolled.

The trace is of 500 members on the simulator that are joined by eleven more and rebalance again and again. Printed are
the time from opening the file to the first picture, and for each way of moving the time between frames and the script's
part of it, in milliseconds. `python -m bench.page [--members 500] [--events 100000]`; the figures are in docs/page.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any, Final

import orjson

from kafka_shim.lab.simulator import Simulation
from kafka_shim.why.page import standalone
from tests.browser import DRAWN, Browser

WALL: Final = 1_795_269_990.0
LATER: Final = 11
"""Members that come later, one by one."""
SECONDS: Final = 5.0
WAYS: Final = {
    "moved": "pan(turn % 200 < 100 ? 0.02 : -0.02)",
    "zoomed": "zoom(turn % 120 < 60 ? 0.95 : 1 / 0.95)",
    "scrolled": "($('#scene').scrollTop = (turn * 40) % 15000, redraw())",
}
MEASURE: Final = """(async () => {
  const script = [], between = [], drawn = window.render;
  let tasks = 0;
  new PerformanceObserver((list) => (tasks += list.getEntries().length)).observe({ type: "longtask" });
  window.render = () => { const from = performance.now(); drawn(); script.push(performance.now() - from); };
  const frame = () => new Promise(requestAnimationFrame), begun = performance.now();
  let last = await frame();
  for (let turn = 0; performance.now() - begun < SECONDS * 1000; turn++) {
    DO;
    const now = await frame();
    between.push(now - last);
    last = now;
  }
  window.render = drawn;
  const at = (all, part) => all.sort((a, b) => a - b)[Math.min(all.length - 1, Math.floor(all.length * part))];
  return { frames: between.length, between_p50: at(between, 0.5), between_p95: at(between, 0.95),
    script_p50: at(script, 0.5), script_p95: at(script, 0.95), script_max: at(script, 1), tasks_over_50_ms: tasks };
})()"""


def trace(members: int, events: int) -> bytes:
    """A trace of about so many events, as JSON Lines."""
    simulation = Simulation(topics={"orders": 2 * members}, config={"group.initial.rebalance.delay.ms": "1000"})
    lines = [orjson.dumps({"event": "trace", "schema": 2})]

    def take(found: list[dict[str, Any]], now: float) -> None:
        lines.extend(orjson.dumps({**each, "seq": len(lines), "mono": now, "wall": WALL + now}) for each in found)

    simulation.cluster.events.listen(take)
    everybody = [simulation.puppet("billing", ["orders"], client_id=f"m{number}") for number in range(members)]
    simulation.run(10)
    for number in range(LATER):
        everybody.append(simulation.puppet("billing", ["orders"], client_id=f"late{number}"))
        simulation.run(10)
    while len(lines) < events:
        everybody[-1].join()
        simulation.run(5)
    return b"\n".join(lines[:events]) + b"\n"


def measured(members: int, events: int) -> dict[str, Any]:
    """By way of moving, the figures; and those of opening."""
    with tempfile.TemporaryDirectory() as scratch, Browser() as browser:
        return figures(browser, Path(scratch) / "trace.html", trace(members, events), SECONDS)


def figures(browser: Browser, path: Path, made: bytes, seconds: float) -> dict[str, Any]:
    """Those of a trace, which is written to `path` as a page; each way of moving takes so many seconds."""
    path.write_bytes(standalone(made, "many"))
    browser.open(path.as_uri(), width=1400)
    browser.wait("page.model.groups.size > 0")
    found = {
        "trace_mib": len(made) / 2**20,
        "page_mib": path.stat().st_size / 2**20,
        "opened_ms": browser.evaluate(f"{DRAWN}.then(() => performance.now())"),
        "members": browser.evaluate("page.model.groups.get('billing').members.size"),
        "marks": browser.evaluate("page.model.groups.get('billing').marks.length"),
    }
    for name, does in WAYS.items():
        browser.evaluate(f"page.follow = true; redraw(); {DRAWN}.then(() => 0)")
        found[name] = browser.evaluate(MEASURE.replace("SECONDS", str(seconds)).replace("DO", does))
    found["heap_mib"] = browser.evaluate("performance.memory.usedJSHeapSize / 2 ** 20")
    assert browser.errors == []
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--events", type=int, default=100_000)
    given = parser.parse_args()
    print(json.dumps(measured(given.members, given.events), indent=1))

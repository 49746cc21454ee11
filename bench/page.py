"""Smoothness of the page: a trace of 511 members and 100,000 events in a real Chromium, moved, zoomed and scrolled.

With `--groups 1000 --storm 300` the trace has so many groups, one of them with so many rebalances; it prints the
time from opening the file to the list of groups with the storm's drawing, and that to open one of its rebalances.
With `--live` too, a server has these groups, the storm and a group of `--members` with heartbeats: it prints the time
from opening a link into the storm to its explanation, and the latency of those heartbeats before and during that. With
`--apart` these members are at a second server, which shows the browser's part of the latency.
Else the trace has 500 members on the simulator, eleven more that join, and many rebalances. Prints the time from
opening the file to the first picture; and for each kind of motion the time between frames and the script's part, in
milliseconds. `python -m bench.page [--members 500] [--events 100000]`; the figures are in docs/page.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import orjson

from bench.load import Load
from kafka_shim.conformance import processes
from kafka_shim.lab.simulator import Simulation
from kafka_shim.why.page import standalone
from tests.browser import DRAWN, Browser

WALL: Final = 1_795_269_990.0
LATER: Final = 11
"""Members that join later, one by one."""
SECONDS: Final = 5.0
LIVE_SECONDS: Final = 5.0
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
    """Return a trace of about this many events, as JSON Lines."""
    simulation = Simulation(topics={"orders": 2 * members}, config={"group.initial.rebalance.delay.ms": "1000"})
    lines = [orjson.dumps({"event": "trace", "schema": 2})]

    def take(events: list[dict[str, Any]], now: float) -> None:
        lines.extend(orjson.dumps({**each, "seq": len(lines), "mono": now, "wall": WALL + now}) for each in events)

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
    """Measure opening and each kind of motion, in a new browser."""
    with tempfile.TemporaryDirectory() as scratch, Browser() as browser:
        return figures(browser, Path(scratch) / "trace.html", trace(members, events), SECONDS)


def many_groups(groups: int, storm: int) -> dict[str, Any]:
    """Measure the page of many groups, one of them with many rebalances."""
    simulation = Simulation(topics={"orders": 6}, config={"group.initial.rebalance.delay.ms": "0"})
    lines = [orjson.dumps({"event": "trace", "schema": 2})]

    def take(events: list[dict[str, Any]], now: float) -> None:
        lines.extend(
            orjson.dumps({**each, "seq": len(lines) + number, "mono": now, "wall": WALL + now})
            for number, each in enumerate(events)
        )

    simulation.cluster.events.listen(take)
    for number in range(groups - 1):
        simulation.puppet(f"group-{number}", ["orders"], client_id="steady")
    flaky = simulation.puppet("storm", ["orders"], client_id="flaky")
    simulation.puppet("storm", ["orders"], client_id="steady")
    simulation.run(10)
    for _ in range(storm // 2):
        flaky.leave()
        simulation.run(4)
        flaky = simulation.puppet("storm", ["orders"], client_id="flaky")
        simulation.run(4)
    with tempfile.TemporaryDirectory() as scratch, Browser() as browser:
        path = Path(scratch) / "trace.html"
        path.write_bytes(standalone(b"\n".join(lines) + b"\n", "many"))
        browser.open(path.as_uri(), width=1400)
        browser.wait(f"page.model.groups.size === {groups} && page.group === 'storm'")
        result = {
            "events": len(lines),
            "page_mib": path.stat().st_size / 2**20,
            "rebalances": browser.evaluate("page.model.groups.get('storm').rebalances.length"),
            "list_ms": browser.evaluate(f"{DRAWN}.then(() => performance.now())"),
            "one_rebalance_ms": browser.evaluate(
                f"(async () => {{ const from = performance.now(); open(150); await {DRAWN};"
                " return performance.now() - from; })()"
            ),
            "heap_mib": browser.evaluate("performance.memory.usedJSHeapSize / 2 ** 20"),
        }
        assert browser.errors == []
    return result


def live(groups: int, members: int, storm: int, apart: bool) -> dict[str, Any]:
    """Measure a link into a storm, and the heartbeats of the members of another group while it opens.

    With `apart` these members are at a second server: it shares nothing with the page but the machine.
    """
    command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--lab"]
    command += ["--control", "127.0.0.1:0", "--log-level", "error", "--topic", "orders:6", "--topic", f"many:{members}"]
    command += ["--config", "group.initial.rebalance.delay.ms=0"]
    with ExitStack() as stack:
        words = serving(stack, command)
        port = int((serving(stack, command) if apart else words)["kafka"].rpartition(":")[2])
        http = stack.enter_context(httpx.Client(base_url=words["control"], timeout=60))
        load = stack.enter_context(Load("127.0.0.1", port, "many", members, f"many:{members}"))
        return opened(http, load, groups, members, storm, apart)


def serving(stack: ExitStack, command: list[str]) -> dict[str, str]:
    """Start a server that ends with `stack`; return its addresses."""
    server = stack.enter_context(processes.start(command))
    stack.callback(processes.end, server)
    assert server.stdout is not None
    return dict(word.split("=", 1) for word in server.stdout.readline().split() if "=" in word)


def opened(http: httpx.Client, load: Load, groups: int, members: int, storm: int, apart: bool) -> dict[str, Any]:
    """Make the groups and the storm, and open its link."""
    steady = {"topics": ["orders"], "client_id": "steady", "heartbeat_interval": 3}
    for number in range(groups - 2):
        http.post("/v1/puppets", json={**steady, "group": f"group-{number}"}).raise_for_status()
    storming = {"group": "storm", "topics": ["orders"], "heartbeat_interval": 0.1}
    http.post("/v1/puppets", json={**storming, "client_id": "steady"}).raise_for_status()
    flaky = http.post("/v1/puppets", json={**storming, "client_id": "flaky"}).json()["puppet"]
    for number in range(storm):
        http.post(f"/v1/puppets/{flaky}", json={"do": "join" if number % 2 else "leave"}).raise_for_status()
        http.post("/v1/clock", json={"advance": 0.2}).raise_for_status()
    # Its members join now: they would not live through the seconds that the clock was put forward.
    assert load.tell("form", 60)["formed"]
    rate = members / 3
    load.tell("heartbeat", 1, rate)
    before = load.tell("heartbeat", LIVE_SECONDS, rate)
    with Browser() as browser, ThreadPoolExecutor(1) as beside:
        # The browser has started: the page is measured, and not that.
        browser.open("about:blank", width=1400)
        explained = http.get("/v1/groups/storm/why").json()["rebalances"]
        seq = explained[len(explained) // 2]["first_seq"]
        beating = beside.submit(load.tell, "heartbeat", LIVE_SECONDS, rate)
        began = time.perf_counter()
        browser.open(f"{http.base_url}/#storm@{seq}", width=1400)
        browser.wait(
            "page.group === 'storm' && !$('#drawer').hidden && $('#drawer').textContent.includes('what to do')"
        )
        seconds = time.perf_counter() - began
        during = beating.result()
        assert browser.evaluate("page.model.groups.size") == groups - apart
        assert browser.errors == []
    return {
        "load_average": os.getloadavg()[0],
        "rebalances": len(explained),
        "link_s": seconds,
        "heartbeats_before": before,
        "heartbeats_during": during,
    }


def figures(browser: Browser, path: Path, lines: bytes, seconds: float) -> dict[str, Any]:
    """Measure the page of a trace, written to `path`; each kind of motion takes this many seconds."""
    path.write_bytes(standalone(lines, "many"))
    browser.open(path.as_uri(), width=1400)
    browser.wait("page.model.groups.size > 0")
    result = {
        "trace_mib": len(lines) / 2**20,
        "page_mib": path.stat().st_size / 2**20,
        "opened_ms": browser.evaluate(f"{DRAWN}.then(() => performance.now())"),
        "members": browser.evaluate("page.model.groups.get('billing').members.size"),
        "marks": browser.evaluate("page.model.groups.get('billing').marks.length"),
    }
    for name, does in WAYS.items():
        browser.evaluate(f"page.follow = true; redraw(); {DRAWN}.then(() => 0)")
        result[name] = browser.evaluate(MEASURE.replace("SECONDS", str(seconds)).replace("DO", does))
    result["heap_mib"] = browser.evaluate("performance.memory.usedJSHeapSize / 2 ** 20")
    assert browser.errors == []
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--groups", type=int, default=0)
    parser.add_argument("--storm", type=int, default=300)
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--apart", action="store_true")
    arguments = parser.parse_args()
    if arguments.live:
        print(json.dumps(live(arguments.groups or 1000, arguments.members, arguments.storm, arguments.apart), indent=1))
    elif arguments.groups:
        print(json.dumps(many_groups(arguments.groups, arguments.storm), indent=1))
    else:
        print(json.dumps(measured(arguments.members, arguments.events), indent=1))

// @ts-check
// The state machine of the chosen group, the present state lit, and the timers that are armed. Arrows are those of
// shim/groups/classic/states.py; a test compares them.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

/** By kind of group: places of the states, and arrows: [from, to, what brings it about, how far the arrow bends]. */
const MACHINES = {
  classic: {
    places: { Empty: [50, 130], PreparingRebalance: [265, 130], CompletingRebalance: [510, 130], Stable: [690, 130], Dead: [375, 250] },
    arrows: [
      ["Empty", "PreparingRebalance", "joins", -14],
      ["PreparingRebalance", "Empty", "nobody joined", -22],
      ["PreparingRebalance", "CompletingRebalance", "all joined, or time is up", 0],
      ["CompletingRebalance", "Stable", "leader's SyncGroup", 0],
      ["CompletingRebalance", "PreparingRebalance", "joins, leaves or is missed", 58],
      ["Stable", "PreparingRebalance", "joins, leaves or is missed", 105],
      ["Empty", "Dead", "deleted or expired", 0], ["PreparingRebalance", "Dead", "", 0],
      ["CompletingRebalance", "Dead", "", 0], ["Stable", "Dead", "moved to another broker", 0],
    ],
  },
  consumer: {
    places: { Empty: [70, 130], Assigning: [260, 130], Reconciling: [480, 130], Stable: [690, 130], Dead: [375, 250] },
    arrows: [
      ["Empty", "Assigning", "joins", 0],
      ["Assigning", "Reconciling", "target computed", 0],
      ["Reconciling", "Stable", "all have arrived", 0],
      ["Reconciling", "Assigning", "new group epoch", 58],
      ["Stable", "Assigning", "new group epoch", 105],
      ["Empty", "Dead", "deleted or expired", 0],
      ["Stable", "Dead", "moved to another broker", 0],
    ],
  },
};

/** @param {string} name @param {Record<string, string | number>} attributes */
function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

const halfWidth = (name) => 14 + name.length * 4;

/** An arrow between two boxes, bent upwards by `bend`; its label stands beside its middle. */
function arrow([x1, y1], [x2, y2], from, to, label, bend) {
  const parts = [];
  if (y1 === y2) {
    const right = x2 > x1;
    if (bend > 50) {
      const top = y1 - 17 - bend, end = x2 + (bend > 100 ? -30 : 30);
      parts.push(svg("path", { d: `M${x1} ${y1 - 17} C${x1} ${top} ${end} ${top} ${end} ${y2 - 17}`, "marker-end": "url(#tip)" }));
      parts.push(svg("text", { x: (x1 + x2) / 2, y: y1 - 17 - bend * 0.75 - 5 }, label));
    } else {
      const lift = bend < -20 ? 12 : bend < 0 ? -8 : 0;
      const a = x1 + (right ? halfWidth(from) : -halfWidth(from)), b = x2 + (right ? -halfWidth(to) - 3 : halfWidth(to) + 3);
      parts.push(svg("path", { d: `M${a} ${y1 + lift} L${b} ${y2 + lift}`, "marker-end": "url(#tip)" }));
      parts.push(svg("text", { x: (a + b) / 2, y: y1 + (lift > 0 ? lift + 18 : lift - 26) }, label));
    }
  } else {
    parts.push(svg("path", { d: `M${x1} ${y1 + 17} Q${x1} ${y2 - 8} ${x2 + Math.sign(x1 - x2) * (halfWidth(to) + 3)} ${y2}`, class: "faint", "marker-end": "url(#tip)" }));
    if (label) parts.push(svg("text", { x: (x1 + 2 * x1 + x2) / 4 , y: y2 + 12, class: "faint" }, label));
  }
  return parts;
}

/** @param {string} kind @param {string} present */
function machine(kind, present) {
  const { places, arrows } = MACHINES[kind] ?? MACHINES.classic;
  const tip = svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0 L8 4 L0 8 z" }));
  const drawn = svg("svg", { viewBox: "0 0 770 275", role: "img", "aria-label": `States of a ${kind} group; it is ${present}` }, svg("defs", {}, tip));
  for (const [from, to, label, bend] of arrows) drawn.append(...arrow(places[from], places[to], from, to, label, bend));
  for (const [name, [x, y]] of Object.entries(places)) {
    const lit = name === present;
    drawn.append(svg("g", { class: lit ? "state lit" : "state", "data-state": name },
      svg("rect", { x: x - halfWidth(name), y: y - 17, width: 2 * halfWidth(name), height: 34, rx: 6 }),
      svg("text", { x, y: y + 5 }, name)));
  }
  return drawn;
}

let shownMachine = "";
function renderStates() {
  const group = page.model.groups.get(page.group);
  $("#machine").hidden = group === undefined || !group.state;
  if (group === undefined || !group.state || !$("#machine").open) return;
  const key = `${group.kind} ${group.state}`;
  if (key !== shownMachine) {
    shownMachine = key;
    $("#states").replaceChildren(machine(group.kind, group.state));
  }
  const now = nowOf(group);
  const armed = [...page.model.timers.values()].filter((timer) => timer.group === group.name && timer.at > now).sort((a, b) => a.at - b.at);
  $("#timers").replaceChildren(...armed.slice(0, 12).map((timer) => {
    const line = document.createElement("li");
    line.textContent = `${timer.kind}${timer.member ? ` of ${group.nameOf(timer.member)}` : ""} fires in ${seconds(timer.at - now)}`;
    return line;
  }));
  $("#no-timers").textContent = armed.length > 12 ? `and ${armed.length - 12} more` : armed.length ? "" : page.live
    ? "No timer was armed since this page was opened." : "No timer is armed at the end of this trace.";
}

$("#machine").addEventListener("toggle", renderStates);
new MutationObserver(renderStates).observe($("#group-title"), { childList: true, characterData: true, subtree: true });
setInterval(() => { if (page.live) renderStates(); }, 1000);

// @ts-check
// The page: what is selected, how it is drawn, and what keys and pointers do.
"use strict";

const $ = (selector) => document.querySelector(selector);
const NOWHERE = { frames: async (event) => null, why: async (group) => null };
/**
 * What is shown. `from` and `to` are the ends of the timeline and `moment` the time that is chosen in it, seconds of Unix
 * time, or null; `source.frames` finds the bytes of an `exchange` event, and `source.why` what `kafka-shim why` says of a group, or null. `server` says whether a server has sent
 * the page, `live` whether its groups are shown,
 * `reading` the number of the last event of the past while it is read, or 0, `heard` when an event came last; if times are since a beginning and not of a clock, it is `zero`.
 */
const page = {
  model: new Model(), group: "", selected: -1, from: 0, to: 1, moment: null, follow: true, live: false, due: false, why: null,
  reading: 0, newest: 0, heard: 0, lost: false,
  zero: null, server: window.TRACE === undefined,
  source: NOWHERE,
  file: "", // The names of traces that were opened here, which nobody has explained.
  wall: () => Date.now() / 1000, // A laboratory has a time of its own.
};

function seconds(value) {
  return value < 0.9995 ? `${Math.round(value * 1000)} ms` : value < 99.5 ? `${value.toFixed(1)} s` : `${Math.round(value / 60)} min`;
}

function nowOf(group) {
  return page.live ? Math.max(group.last, page.wall()) : group.last;
}

// Drawing, at most once a frame

function redraw() {
  // Other scripts may not be there yet.
  if (page.due || document.readyState === "loading") return;
  page.due = true;
  requestAnimationFrame(() => {
    page.due = false;
    render();
  });
}

function render() {
  renderGroups();
  const group = page.model.groups.get(page.group);
  $("#group").hidden = group === undefined;
  $("#assignors").hidden = !page.server;
  if (group === undefined) return;
  const now = nowOf(group);
  if (page.follow) fit(group);
  draw($("#scene"), group, page.from, page.to, page.selected, now, page.moment);
  renderGroup(group, now);
  renderTopology(group);
  renderAnswer(group);
  renderRequests(group);
  renderBeside(group, now);
}

let shownGroup = "";
function renderGroup(group, now) {
  const newest = group.rebalances[group.rebalances.length - 1];
  const going = newest && newest.synced === null ? now : 0;
  const key = [group.name, group.rebalances.length, group.state, group.present.length, group.changes, going, page.selected, page.moment, page.why?.verdict, lagOf(group)].join();
  if (key === shownGroup) return;
  shownGroup = key;
  const epoch = `${group.hasEpochs ? "epoch" : "generation"} ${group.generation}`;
  const present = group.generation < 0 && !group.members.size ? "it has had no member" : `${group.state || "seen through a relay"}, ${epoch}`;
  const then = page.moment !== null && page.moment < group.last ? group.stateAt(page.moment) : null;
  $("#group-title").textContent = then ? `${group.name}: ${then.to} as of ${clock(page.moment)} (now ${present})` : `${group.name}: ${present}`;
  $("#verdict").textContent = page.why?.group === group.name ? page.why.verdict : "";
  const hatched = group.kind === "share" ? "several may own the same" : group.hasEpochs ? "hatched while it is to give some of it up" : "hatched while it stands still";
  $("#legend").textContent = `A bar is what a member owns; ${hatched}; a dashed frame: all wait for this member; below it requests, red if refused; a shade over all lanes is a rebalance${group.rebalances.some((each) => each.inferred) ? ", with dotted edges if it is concluded from a log or by a relay" : ""}.`;
  const worst = worstOf(group, now);
  fillRows($("#rebalances tbody"), group.rebalances.map((rebalance, index) => {
    const phases = phasesOf(rebalance, now);
    const longest = phases.reduce((a, b) => (b.seconds > a.seconds ? b : a), { name: "", seconds: 0, member: "" });
    const took = seconds(phases.reduce((sum, phase) => sum + phase.seconds, 0));
    return {
      key: rebalance.seq ?? rebalance.started, selected: index === page.selected, cells: [
        { text: clock(rebalance.started), press: () => open(index) }, `${rebalance.before < 0 ? "none" : rebalance.before} → ${rebalance.generation ?? "…"}`, { cause: rebalance.cause, inferred: rebalance.inferred },
        rebalance.trigger ? group.nameOf(rebalance.trigger) : "",
        { className: worst?.index === index ? "number worst" : "number", text: worst?.index === index ? `${took}, ${percent(worst.share)} of all` : took },
        longest.name + (longest.member ? ` (${group.nameOf(longest.member)})` : ""), rebalance.moved ?? "",
      ],
    };
  }).reverse());
  const owned = (list) => grouped(list) || "nothing";
  const consumer = group.hasEpochs, things = group.kind === "streams" ? "tasks" : "partitions";
  $("#owners th:last-child").textContent = consumer ? "target" : "before";
  $("#owners th:nth-child(3)").textContent = `${things} now`;
  $("#rebalances th:nth-child(2)").textContent = consumer ? "epoch" : "generation";
  fillRows($("#owners tbody"), group.present.map((member) => ({
    key: member.id, cells: [
      member.name + (consumer && member.epoch !== null ? `, epoch ${member.epoch === AWAY ? "-2 (away)" : member.epoch}` : ""), member.host,
      { className: "wrap", text: consumer ? standing(group, member) : owned(member.owned) },
      { className: "number", text: lagOf(group, member.owned.map((each) => each.join(" "))) },
      { className: "wrap", text: owned(consumer ? member.target ?? member.owned : member.before) },
    ],
  })));
}

let shownTopology = null;
/** The nodes of a streams application, if it has described them. */
function renderTopology(group) {
  if (group.topology === shownTopology) return;
  shownTopology = group.topology;
  $("#topology").hidden = !group.topology.length;
  fillRows($("#topology tbody"), group.topology.map((node, place) => ({
    key: place, cells: [
      node.subtopology || "global store", node.name, node.type,
      ...[node.topics, node.stores, node.next].map((names) => ({ className: "wrap", text: names.join(", ") })),
    ],
  })));
}

/** The partitions that a member of a consumer group has and must give up, and the members it waits for. */
function standing(group, member) {
  const parts = [grouped(member.owned) || "nothing"];
  if (member.revoking.length) parts.push(`must give up ${grouped(member.revoking)}`);
  if (member.waits.length) parts.push(`waits for ${member.waits.map((id) => group.nameOf(id)).join(", ")}`);
  return parts.join("; ");
}

/** Partitions as people write them: `orders 0-2, 5`. */
function grouped(list) {
  const topics = new Map();
  for (const [topic, partition] of list) topics.set(topic, [...(topics.get(topic) || []), partition]);
  return [...topics].sort().map(([topic, numbers]) => {
    const runs = [];
    for (const number of numbers.sort((a, b) => a - b)) {
      const run = runs[runs.length - 1];
      if (run && run[1] === number - 1) run[1] = number;
      else runs.push([number, number]);
    }
    return `${topic} ${runs.map(([a, b]) => (a === b ? a : `${a}-${b}`)).join(", ")}`;
  }).join("; ");
}

// What is seen

function fit(group) {
  const now = nowOf(group);
  const span = Math.max(1, now - group.first);
  page.from = group.first - span * 0.02;
  page.to = now + span * 0.02;
}

function zoom(factor, at = 0.5) {
  const middle = page.from + (page.to - page.from) * at;
  page.follow = false;
  page.from = middle - (middle - page.from) * factor;
  page.to = middle + (page.to - middle) * factor;
  redraw();
}

function pan(part) {
  const by = (page.to - page.from) * part;
  page.follow = false;
  page.from += by;
  page.to += by;
  redraw();
}

/** Choose a moment, and let all who go on from it know: they listen for `moment` on the document. */
function choose(at, inSight = false) {
  page.moment = at;
  page.follow = false;
  if (inSight && (at < page.from || at > page.to)) {
    const half = (page.to - page.from) / 2;
    page.from = at - half;
    page.to = at + half;
  }
  document.dispatchEvent(new CustomEvent("moment", { detail: { group: page.group, at } }));
  redraw();
}

function select(name) {
  closeRequest();
  Object.assign(page, { group: name, selected: -1, moment: null, follow: true, why: null });
  const group = page.model.groups.get(name);
  if (group) fit(group);
  $("#drawer").hidden = $("#division").hidden = true;
  if (!page.reading) explainNow();
  redraw();
}

// Keys, pointers, theme

const KEYS = {
  w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => pan(-0.15), d: () => pan(0.15), q: () => close(),
  f: () => { page.follow = true; redraw(); },
  ",": () => open(page.selected < 0 ? last() : Math.max(0, page.selected - 1)),
  ".": () => open(Math.min(last(), page.selected + 1)),
  "[": () => stepRequest(-1), "]": () => stepRequest(1),
};

function last() {
  return (page.model.groups.get(page.group)?.rebalances.length ?? 0) - 1;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
  const act = event.key === "Escape" ? close : $("#shortcuts").checked ? KEYS[event.key.toLowerCase()] : undefined;
  if (act && !$("#group").hidden) {
    event.preventDefault();
    act();
  }
});

const canvas = $("#timeline");
let dragged = null;
canvas.addEventListener("pointerdown", (event) => {
  dragged = { x: event.clientX, from: page.from, to: page.to, moved: false };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (dragged === null) return;
  const by = ((dragged.x - event.clientX) * (dragged.to - dragged.from)) / canvas.clientWidth;
  dragged.moved ||= Math.abs(event.clientX - dragged.x) > 3;
  if (!dragged.moved) return;
  page.follow = false;
  page.from = dragged.from + by;
  page.to = dragged.to + by;
  redraw();
});
canvas.addEventListener("pointerup", (event) => {
  const click = dragged !== null && !dragged.moved;
  dragged = null;
  const group = page.model.groups.get(page.group);
  if (!click || !group) return;
  const box = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top + $("#scene").scrollTop];
  const plan = layout(group, page.from, page.to, canvas.clientWidth, nowOf(group));
  const at = page.from + ((x - plan.name) * (page.to - page.from)) / (canvas.clientWidth - plan.name);
  const mark = nearest(plan.marks, 6, (each) => Math.abs(each.left - x), (each) => y > each.top - 4 && y < each.top + MARK + GAP);
  if (mark) {
    openRequest(group.marks[mark.index]);
    return;
  }
  const hit = nearest(plan.chips, 12, (each) => (x < each.left ? each.left - x : Math.max(0, x - each.right)));
  if (hit) open(hit.index);
  if (x >= plan.name) choose(at);
});
/** The nearest of those that are less than `within` pixels away. */
function nearest(all, within, far, fits = (each) => true) {
  return all.reduce((best, each) => (fits(each) && far(each) < (best ? far(best) : within) ? each : best), null);
}

canvas.addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, (event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth);
}, { passive: false });

/** The same file may be chosen again. */
function chosen(input) {
  const files = [...input.files];
  input.value = "";
  return files;
}

$("#open").addEventListener("click", () => $("#file").click());
$("#compare").addEventListener("click", () => $("#beside-file").click());
$("#skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("#group-title").focus();
});
$("#shortcuts").addEventListener("change", (event) => {
  try { localStorage.setItem("shortcuts", event.target.checked ? "on" : "off"); } catch { /* a file has no storage */ }
});
$("#file").addEventListener("change", (event) => openFiles(chosen(event.target)));
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  if (event.dataTransfer.files.length) openFiles(event.dataTransfer.files);
});
$("#theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* a file has no storage */ }
  redraw();
});
try {
  $("#shortcuts").checked = localStorage.getItem("shortcuts") !== "off";
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* a file has no storage */ }
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new ResizeObserver(redraw).observe($("#view"));
$("#scene").addEventListener("scroll", redraw);
setInterval(() => { if (page.live && page.follow && page.group) redraw(); }, 1000);

$("#api").hidden = !page.server;
// Not before the other scripts are there, which what comes calls.
document.addEventListener("DOMContentLoaded", () => (page.server ? connect() : openOwn()));

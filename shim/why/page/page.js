// @ts-check
// The page: where events come from, what is selected, and what keys and pointers do.
"use strict";

const $ = (selector) => document.querySelector(selector);
const NOWHERE = { frames: async (event) => null, why: async (group) => null };
/**
 * What is shown. `from` and `to` are the ends of the timeline and `moment` the time that is chosen in it, seconds of Unix
 * time, or null; `source.frames` finds the bytes of an `exchange` event, and `source.why` what `kafka-shim why` says of a group, or null. `server` says whether a server has sent
 * the page, `live` whether its groups are shown; if times are since a beginning and not of a clock, it is `zero`.
 */
const page = {
  model: new Model(), group: "", selected: -1, from: 0, to: 1, moment: null, follow: true, live: false, due: false, why: null,
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
  if (page.due) return;
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
  renderRequests(group);
  renderBeside(group, now);
}

function row(cells) {
  const tr = document.createElement("tr");
  for (const cell of cells) {
    const td = document.createElement("td");
    if (cell instanceof Node) td.append(cell);
    else if (typeof cell === "number") {
      td.className = "number";
      td.textContent = String(cell);
    } else if (cell && typeof cell === "object") {
      td.className = cell.className;
      td.textContent = cell.text;
    } else td.textContent = cell;
    tr.append(td);
  }
  return tr;
}

function button(text, press) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.onclick = press;
  return made;
}

function chip(cause) {
  const made = document.createElement("span");
  made.className = cause === "NEW_MEMBER" || cause === "MEMBER_LEFT" || cause === "COOPERATIVE_FOLLOWUP" ? "chip" : "chip bad";
  made.textContent = cause;
  return made;
}

let shownGroups = "";
function renderGroups() {
  const groups = [...page.model.groups.values()];
  $("#none").hidden = groups.length > 0;
  const key = groups.map((g) => [g.name, g.state, g.protocol, g.present.length, g.rebalances.length, g.name === page.group, lagOf(g)]).join();
  if (key === shownGroups) return;
  shownGroups = key;
  $("#groups tbody").replaceChildren(...groups.map((group) => {
    const last = group.rebalances[group.rebalances.length - 1];
    const tr = row([
      button(group.name, () => select(group.name)), group.kind, group.state || "unknown", group.protocol, group.present.length,
      { className: "number", text: lagOf(group) }, group.rebalances.length, last ? chip(last.cause) : "",
    ]);
    tr.setAttribute("aria-selected", String(group.name === page.group));
    return tr;
  }));
}

// How far groups are behind: of a trace by its events, of a live coordinator as it says when it is asked

/** By group, what the server said last: by partition, how many records it is behind. */
const lags = new Map();
const ASKED_GROUPS = 20, NOTHING = new Map();

function lagsOf(group) {
  return page.live ? lags.get(group.name) ?? NOTHING : page.model.lagsOf(group);
}

/** The lag of a group, or of these partitions of it, as text; empty if it is not known. */
function lagOf(group, keys = null) {
  const found = lagsOf(group);
  if (keys === null && sums.has(found)) return sums.get(found);
  const known = keys?.filter((key) => found.has(key)) ?? [...found.keys()];
  const text = known.length ? String(known.reduce((sum, key) => sum + found.get(key), 0)) : "";
  if (keys === null) sums.set(found, text);
  return text;
}
/** The lag of a whole group as text, by what it was summed up from. */
const sums = new WeakMap();

async function askLags() {
  if (!page.live || document.hidden) return;
  for (const name of [page.group, ...page.model.groups.keys()].slice(0, ASKED_GROUPS)) {
    if (!name) continue;
    const answer = await fetch(`/v1/groups/${encodeURIComponent(name)}`);
    if (!answer.ok) continue;
    const { offsets } = await answer.json();
    lags.set(name, new Map(offsets.filter((each) => each.lag !== null).map((each) => [`${each.topic} ${each.partition}`, each.lag])));
  }
  redraw();
}

setInterval(askLags, 3000);

let shownGroup = "";
function renderGroup(group, now) {
  const newest = group.rebalances[group.rebalances.length - 1];
  const going = newest && newest.synced === null ? now : 0;
  const key = [group.name, group.rebalances.length, group.state, group.present.length, group.changes, going, page.selected, page.why?.verdict, lagOf(group)].join();
  if (key === shownGroup) return;
  shownGroup = key;
  $("#group-title").textContent = `${group.name}: ${group.state || "seen through a relay"}, ${group.hasEpochs ? "epoch" : "generation"} ${group.generation}`;
  $("#verdict").textContent = page.why?.group === group.name ? page.why.verdict : "";
  const hatched = group.kind === "share" ? "several may own the same" : group.hasEpochs ? "hatched while it is to give some of it up" : "hatched while it stands still";
  $("#legend").textContent = `A bar is what a member owns; ${hatched}; below it requests, red if refused; a shade over all lanes is a rebalance.`;
  $("#rebalances tbody").replaceChildren(...group.rebalances.map((rebalance, index) => {
    const phases = phasesOf(rebalance, now);
    const longest = phases.reduce((a, b) => (b.seconds > a.seconds ? b : a), { name: "", seconds: 0, member: "" });
    const tr = row([
      button(clock(rebalance.started), () => open(index)), `${rebalance.before < 0 ? "none" : rebalance.before} → ${rebalance.generation ?? "…"}`, chip(rebalance.cause),
      rebalance.trigger ? group.nameOf(rebalance.trigger) : "",
      { className: "number", text: seconds(phases.reduce((sum, phase) => sum + phase.seconds, 0)) },
      longest.name + (longest.member ? ` (${group.nameOf(longest.member)})` : ""), rebalance.moved ?? "",
    ]);
    tr.setAttribute("aria-selected", String(index === page.selected));
    return tr;
  }).reverse());
  const owned = (list) => grouped(list) || "nothing";
  const consumer = group.hasEpochs, things = group.kind === "streams" ? "tasks" : "partitions";
  $("#owners th:last-child").textContent = consumer ? "target" : "before";
  $("#owners th:nth-child(3)").textContent = `${things} now`;
  $("#rebalances th:nth-child(2)").textContent = consumer ? "epoch" : "generation";
  $("#owners tbody").replaceChildren(...group.present.map((member) => row([
    member.name + (consumer && member.epoch !== null ? `, epoch ${member.epoch === AWAY ? "-2 (away)" : member.epoch}` : ""), member.host,
    { className: "wrap", text: consumer ? standing(group, member) : owned(member.owned) },
    { className: "number", text: lagOf(group, member.owned.map((each) => each.join(" "))) },
    { className: "wrap", text: owned(consumer ? member.target ?? member.owned : member.before) },
  ])));
}

/** What a member of a consumer group has, what it is to give up, and whom it waits for. */
function standing(group, member) {
  const parts = [grouped(member.owned) || "nothing"];
  if (member.revoking.length) parts.push(`is to give up ${grouped(member.revoking)}`);
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

// The drawer

function open(index) {
  const group = page.model.groups.get(page.group);
  const rebalance = group?.rebalances[index];
  if (!group || !rebalance) return;
  Object.assign(page, { selected: index, follow: false, moment: null });
  const end = rebalance.assigned ?? rebalance.ended ?? nowOf(group);
  const middle = (rebalance.started + end) / 2;
  const wide = Math.max(end - rebalance.started, 0.05) * 4;
  if (rebalance.started < page.from || end > page.to || page.to - page.from > wide * 8) {
    page.from = middle - wide;
    page.to = middle + wide;
  }
  fillDrawer(group, rebalance);
  linked = "";
  location.hash = `${encodeURIComponent(group.name)}@${rebalance.seq ?? index}`;
  redraw();
}

function fillDrawer(group, rebalance) {
  const drawer = $("#drawer");
  const why = page.why?.group === group.name ? page.why : null;
  const detail = nearest(why?.rebalances ?? [], Infinity, (each) => Math.abs(each.started - rebalance.started), (each) => each.generation === rebalance.generation);
  // It knows whom a sync was waited for; of a rebalance that goes on it knows how far it was when it was asked.
  const phases = detail?.over ? detail.phases : phasesOf(rebalance, nowOf(group)).map((phase) => ({ ...phase, members: phase.member ? [phase.member] : [] }));
  const total = phases.reduce((sum, phase) => sum + phase.seconds, 0) || 1;
  const title = document.createElement("h3");
  title.textContent = `${rebalance.epoch ? "Epoch" : "Generation"} ${rebalance.before < 0 ? "none" : rebalance.before} → ${rebalance.generation ?? "not reached"}, ${clock(rebalance.started)}`;
  const facts = document.createElement("dl");
  const fact = (name, value) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    if (value instanceof Node) dd.append(value);
    else dd.textContent = value;
    facts.append(dt, dd);
  };
  fact("cause", chip(rebalance.cause));
  fact("because", detail ? detail.reason : rebalance.trigger ? group.nameOf(rebalance.trigger) : "it is not known");
  for (const phase of phases) {
    const line = document.createElement("div"), bar = document.createElement("i"), name = document.createElement("span"), text = document.createElement("span");
    line.className = "phase";
    bar.style.width = `${(100 * phase.seconds) / total}%`;
    name.textContent = phase.members.slice(0, 3).map((id) => group.nameOf(id)).join(", ") || "nobody is waited for";
    text.textContent = `${seconds(phase.seconds)}, ${Math.round((100 * phase.seconds) / total)} %`;
    line.append(name, bar, text);
    fact(phase.name, line);
  }
  for (const [who, whom] of rebalance.waited ?? []) fact("waited", `${group.nameOf(who)} for ${group.nameOf(whom)}`);
  if (rebalance.dropped.length) fact("dropped", rebalance.dropped.map((id) => group.nameOf(id)).join(", "));
  if (rebalance.moved !== null) fact("moved", `${rebalance.moved} ${group.kind === "streams" ? "tasks" : "partitions"}${detail?.moved ? `, ${detail.moved.needed} had to` : ""}`);
  if (detail) fact("cost", `${rebalance.epoch ? "" : `${detail.member_seconds.toFixed(1)} member-seconds, `}${detail.partition_seconds.toFixed(1)} partition-seconds`);
  if (why) {
    const remedies = element("ol", "", ...why.remedies.map((remedy) => element("li", "", ...remedyOf(remedy))));
    fact("what to do", why.remedies.length ? remedies : "Nothing: these rebalances are what joining and leaving cost.");
    if (why.remedies.length && why.would_not_help.length) fact("would not help", why.would_not_help.join("; "));
  }
  if (page.live && why?.remedies.length) fact("played", `${commandLine("kafka-shim why", group.name, "--control", location.origin)} tries each on a simulation.`);
  if (page.file) fact("more", `${commandLine("kafka-shim why", group.name, page.file)} says what it cost and what to do.`);
  drawer.replaceChildren(title, facts, button("Close", close));
  drawer.hidden = false;
  fillDivision(group, rebalance);
}

/** As `kafka-shim why` prints it: who changes what, why, and what came of it when the past was played with and without. */
function remedyOf({ who, side, setting, seen, proposed, why, price, grade, before, after }) {
  const change = element("strong", "", `${who}, ${side}: ${setting}, ${seen} → ${proposed}`);
  const names = { rebalances: "rebalances", moved: "partitions moved", partition_seconds: "partition-seconds stopped" };
  const short = (value) => (Number.isInteger(value) ? value : value.toFixed(1));
  const played = before && after ? Object.keys(names).filter((name) => before[name] !== after[name])
    .map((name) => `${short(before[name])} → ${short(after[name])} ${names[name]}`).join(", ") : "";
  const sure = played ? `replayed: ${played}` : grade === "likely" ? "likely, not replayed" : `${grade} from here`;
  return [change, element("br", ""), `${why}${price ? `; ${price}` : ""}`, element("br", ""), element("span", "faint", sure)];
}

let linked = location.hash;
/** Open the rebalance that the address names, as `open` writes it, once its group and it are there. */
function followLink() {
  const [, name, seq] = linked.match(/^#([^@=]+)@(\d+)$/) ?? [];
  const group = name && [...page.model.groups.values()].find((each) => encodeURIComponent(each.name) === name);
  if (!group) return;
  const index = group.rebalances.findIndex((each) => each.seq >= Number(seq));
  if (index < 0) return;
  select(group.name);
  open(index);
}

function close() {
  page.selected = -1;
  closeRequest();
  $("#drawer").hidden = $("#division").hidden = true;
  $("#scene").focus();
  redraw();
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
  explain();
  redraw();
}

/** What `why` says of the group; a trace that was dropped has nobody to say it. */
async function explain() {
  if (!page.group) return;
  const why = await page.source.why(page.group);
  if (why === null || why.group !== page.group) return;
  page.why = why;
  const group = page.model.groups.get(page.group);
  if (group?.rebalances[page.selected]) fillDrawer(group, group.rebalances[page.selected]);
  redraw();
}

async function whyOnServer(group) {
  const answer = await fetch(`/v1/groups/${encodeURIComponent(group)}/why`);
  return answer.ok ? answer.json() : null;
}

// Where events come from

function take(line) {
  const event = JSON.parse(line);
  const group = page.model.hear(event, line);
  labChanged();
  if (group === null) return;
  if (!page.group) select(group.name);
  followLink();
  const settled = event.event === "assignment" || (event.event === "state" && event.to === "Stable");
  if (settled && group.name === page.group) explain();
  redraw();
}

function connect() {
  const stream = new EventSource("/v1/events?since=0&frames=true");
  page.live = true;
  page.source = { frames: framesOnServer, why: whyOnServer };
  stream.onopen = () => {
    // It begins with all that is kept, also after an interruption.
    page.model = new Model();
    $("#source").textContent = `live from ${location.host}`;
  };
  stream.onmessage = (message) => take(message.data);
  stream.onerror = () => ($("#source").textContent = "not connected; trying again");
  page.stream = stream;
}

async function framesOnServer(event) {
  const numbers = new URLSearchParams({ connection: event.conn, correlation_id: event.correlation_id, arrived: event.arrived });
  const answer = await fetch(`/v1/frames?${numbers}`);
  return answer.ok ? answer.json() : null;
}

async function unpacked(file) {
  const magic = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  if (magic.join() === "40,181,47,253") throw new Error(`is packed by zstd, which browsers do not unpack: ${commandFor("trace export", file.name, "trace.html")}.`);
  if (magic[0] !== 0x1f || magic[1] !== 0x8b) return file.text();
  return new Response(file.stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

/** A command with arguments, as it is typed into a shell. */
function commandLine(command, ...words) {
  return [command, ...words.map((word) => (/^[\w.+:\/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`))].join(" ");
}

const commandFor = (command, name, html) => `${commandLine(`kafka-shim ${command}`, name, "--html", html)} writes this page with it`;

const isJournal = (text) => /^\{"journal":/.test(text);

/** What there is in traces. Throws a sentence that names the file which is none. */
async function modelOf(files) {
  const model = new Model();
  for (const file of files) {
    try {
      const head = await file.slice(0, 64).text();
      const text = isJournal(head) ? head : await unpacked(file);
      // Its answers and events are made by the rules again, and those are in Python.
      if (isJournal(text)) throw new Error(`is a journal, which is replayed outside a browser: ${commandFor("replay", file.name, "run.html")}.`);
      const first = JSON.parse(text.slice(0, text.indexOf("\n") + 1) || text || "{}");
      if (typeof first?.event !== "string") throw new Error("is no trace: its first line is no event.");
      // What is being written may end in half a line.
      model.read(text.slice(0, text.lastIndexOf("\n") + 1) || text);
    } catch (error) {
      throw new Error(`${file.name} ${error instanceof SyntaxError ? "is no trace: a line of it is no JSON." : error.message}`);
    }
  }
  return model;
}

/** Hand what is in traces to `use`, with their names; or say why not, and leave all as it is. */
async function openFiles(files, use = openModel) {
  $("#refused").textContent = "";
  try {
    use(await modelOf(files), [...files].map((file) => file.name).join(", "));
  } catch (error) {
    $("#refused").textContent = error.message;
  }
}

function openModel(model, name) {
  disconnect();
  closeLesson();
  page.file = name;
  show(model, name);
}

/** Let go of the server: what is shown is from elsewhere. */
function disconnect() {
  page.stream?.close();
  page.live = false;
  page.source = NOWHERE;
  page.file = "";
}

function show(model, name) {
  closeRequest();
  Object.assign(page, { model, group: "", selected: -1, moment: null, follow: true, why: null });
  shownGroups = shownGroup = "";
  $("#source").textContent = page.zero === null ? `${name}: ${model.events} events, ${model.groups.size} group${model.groups.size === 1 ? "" : "s"}` : name;
  const first = [...model.groups.keys()][0];
  if (first !== undefined) select(first);
  else redraw();
}

// Keys, pointers, theme

const KEYS = {
  w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => pan(-0.15), d: () => pan(0.15), q: close,
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
  const act = event.key === "Escape" ? close : KEYS[event.key.toLowerCase()];
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
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* a file has no storage */ }
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new ResizeObserver(redraw).observe($("#view"));
$("#scene").addEventListener("scroll", redraw);
setInterval(() => { if (page.live && page.follow && page.group) redraw(); }, 1000);

/** A trace that came with the page, and bytes of its requests. */
async function openOwn() {
  const text = (base64) => unpacked(new Blob([Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))]));
  const model = new Model();
  model.read(await text(window.TRACE));
  const parsed = async (base64) => (base64 ? (await text(base64)).split("\n").filter((line) => line).map((line) => JSON.parse(line)) : []);
  const frames = new Map((await parsed(window.FRAMES)).map((each) => [numberOf(each), each]));
  const why = new Map((await parsed(window.WHY)).map((each) => [each.group, each]));
  page.source = { frames: async (event) => frames.get(numberOf(event)) ?? null, why: async (group) => why.get(group) ?? null };
  show(model, window.TRACE_NAME);
  followLink();
}

/** What a request is known by: on virtual time two may have come at the same moment, by the same number. */
const numberOf = (each) => `${each.connection ?? each.conn} ${each.correlation_id} ${each.arrived} ${each.api}`;

$("#api").hidden = !page.server;
// Not before the other scripts are there, which what comes calls.
document.addEventListener("DOMContentLoaded", () => (page.server ? connect() : openOwn()));

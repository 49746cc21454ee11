// @ts-check
// The list of groups: those in trouble first, a search, a choice of state and kind, and how far each is behind.
"use strict";

/** As `kafka_shim.why` counts a storm. */
const STORM_REBALANCES = 6, STORM_GAP = 120, TURNS = 2;
/** Seconds of a rebalance that are worth a word beyond its heartbeats; and seconds in which members shut down together. */
const LONG = 1, CLOSING = 5;
/** The most rows that are drawn at once. */
const MOST_ROWS_OF_GROUPS = 200;

/** The rebalances of a group without those of its end, if it shut down. */
function livingOf(group) {
  const all = group.rebalances;
  if (group.present.length || !all.length) return all;
  const end = all[all.length - 1].started;
  return all.filter((each) => each.cause !== "MEMBER_LEFT" || end - each.started > CLOSING);
}

/** Seconds of a rebalance beyond its heartbeats; with epochs each phase may take a heartbeat interval. */
function beyondHeartbeats(group, rebalance, phases) {
  if (!rebalance.epoch) return phases.reduce((sum, phase) => sum + phase.seconds, 0) - HEARTBEAT;
  return phases.reduce((sum, phase) => sum + (phase.name === INTERVAL ? 0 : Math.max(0, phase.seconds - group.heartbeat)), 0);
}

/** A sign of trouble in a group, `{rank, text}`: the larger, the worse. `why` says more once the group is open. */
function troubleOf(group) {
  if (group.trouble?.changes === group.changes && group.trouble.marks === group.refused) return group.trouble;
  const own = livingOf(group).filter((each) => !each.initial);
  let together = [], isStorm = false, longest = 0;
  for (const each of own) {
    const phases = phasesOf(each, group.last), total = phases.reduce((sum, phase) => sum + phase.seconds, 0);
    if (beyondHeartbeats(group, each, phases) > LONG) longest = Math.max(longest, total);
    if (each.cause === "COOPERATIVE_FOLLOWUP") continue;
    const last = together[together.length - 1];
    if (last && each.started - (last.assigned ?? last.ended ?? last.started) > STORM_GAP) together = [];
    together.push(each);
    const joins = together.filter((one) => one.cause === "NEW_MEMBER").length;
    isStorm ||= together.length >= STORM_REBALANCES && joins <= together.length - TURNS && together.filter((one) => one.cause === "MEMBER_LEFT" || one.cause === "SESSION_EXPIRED").length <= together.length - TURNS;
  }
  const died = own.filter((each) => each.cause === "SESSION_EXPIRED" && !each.byTest).length;
  const late = own.filter((each) => each.cause === "POLL_TIMEOUT_REASON").length;
  const words = [];
  if (isStorm) words.push("storm");
  if (group.refused) words.push(`${group.refused} refused`);
  if (longest) words.push(`waited ${seconds(longest)}`);
  if (died) words.push(`${died} died`);
  if (late) words.push(`${late} missed ${late === 1 ? "poll" : "polls"}`);
  const rank = (isStorm ? 1e6 : 0) + group.refused * 100 + longest * 10 + died + late;
  group.trouble = { changes: group.changes, marks: group.refused, rank, text: words.join(", ") };
  return group.trouble;
}

/** The group that most needs a look. */
function sickest() {
  const groups = [...page.model.groups.values()];
  return groups.reduce((best, each) => (best === null || troubleOf(each).rank > troubleOf(best).rank ? each : best), null)?.name;
}

const ORDERS = {
  trouble: (a, b) => troubleOf(b).rank - troubleOf(a).rank || b.rebalances.length - a.rebalances.length,
  name: (a, b) => a.name.localeCompare(b.name),
  lag: (a, b) => Number(lagOf(b) || 0) - Number(lagOf(a) || 0),
  rebalances: (a, b) => b.rebalances.length - a.rebalances.length,
  members: (a, b) => b.present.length - a.present.length,
};

let shownGroups = "";
function renderGroups() {
  const all = [...page.model.groups.values()];
  $("#groups").hidden = !all.length && lesson.data !== null;
  $("#none").hidden = all.length > 0;
  $("#groups form").hidden = all.length < 2;
  offer($("#group-state"), "every state", all.map((each) => each.state || "unknown"));
  offer($("#group-kind"), "every kind", all.map((each) => each.kind));
  const [word, state, kind, order] = ["search", "state", "kind", "order"].map((name) => $(`#group-${name}`).value);
  const fits = all.filter((each) => (!word || each.name.toLowerCase().includes(word.toLowerCase()))
    && (!state || (each.state || "unknown") === state) && (!kind || each.kind === kind)).sort(ORDERS[order] ?? ORDERS.trouble);
  const lines = fits.slice(0, MOST_ROWS_OF_GROUPS);
  const key = lines.map((g) => [g.name, g.state, g.protocol, g.changes, g.refused, g.name === page.group, lagOf(g)]).join() + fits.length;
  if (key === shownGroups) return;
  shownGroups = key;
  $("#group-count").textContent = fits.length === all.length && fits.length === lines.length ? `${all.length} groups`
    : `${lines.length} of ${all.length} groups${fits.length > lines.length ? "; search for the others" : ""}`;
  fillRows($("#groups tbody"), lines.map((group) => {
    const last = group.rebalances[group.rebalances.length - 1];
    return {
      key: group.name, selected: group.name === page.group, cells: [
        { text: group.name, press: () => { select(group.name); goToGroup(); } }, { className: "trouble", text: troubleOf(group).text },
        group.state || "unknown", group.kind, group.protocol, group.present.length,
        { className: "number", text: lagOf(group) }, group.rebalances.length, last ? { cause: last.cause } : "",
      ],
    };
  }));
}

/** The choices of a list are those that groups have. */
function offer(choice, every, values) {
  const names = [...new Set(values)].sort();
  if (choice.dataset.names === names.join()) return;
  choice.dataset.names = names.join();
  const before = choice.value;
  choice.replaceChildren(new Option(every, ""), ...names.map((name) => new Option(name, name)));
  choice.value = names.includes(before) ? before : "";
}

/** Scroll to the group that was chosen, unless all of it is in sight. */
function goToGroup() {
  requestAnimationFrame(() => {
    const box = $("#group").getBoundingClientRect();
    if (box.top < 0 || box.top > window.innerHeight * 0.4) $("#group").scrollIntoView({ block: "start" });
  });
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
  if (!page.live || page.reading || document.hidden) return;
  for (const name of [page.group, ...page.model.groups.keys()].slice(0, ASKED_GROUPS)) {
    if (!name) continue;
    const answer = await fetch(`/v1/groups/${encodeURIComponent(name)}`).catch(() => null);
    // A server that is gone is said by the stream of events.
    if (!answer?.ok) continue;
    const { offsets } = await answer.json();
    lags.set(name, new Map(offsets.filter((each) => each.lag !== null).map((each) => [`${each.topic} ${each.partition}`, each.lag])));
  }
  redraw();
}

setInterval(askLags, 3000);

for (const name of ["search", "state", "kind", "order"]) $(`#group-${name}`).addEventListener("input", redraw);
$("#groups form").addEventListener("submit", (event) => event.preventDefault());

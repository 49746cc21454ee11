// @ts-check
// The answer, docked under the drawing: who, why, what to do, of the group or of the open rebalance; and its details.
"use strict";

/** The seconds between two heartbeats, by default of the clients. */
const HEARTBEAT_S = 3;

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
  writeAddress(`${encodeURIComponent(group.name)}@${rebalance.seq ?? index}`);
  goToGroup();
  redraw();
}

/** What `why` says of a rebalance, or undefined. */
function detailOf(why, rebalance) {
  return nearest(why?.rebalances ?? [], Infinity, (each) => Math.abs(each.started - rebalance.started), (each) => each.generation === rebalance.generation) ?? undefined;
}

/** A list of facts, `[name, value]`; a value is text or an element. */
function facts(className, pairs) {
  return element("dl", className, ...pairs.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]));
}

/** The first remedy in sight, the others on request: the answer leaves room for the drawing above it. */
function whatToDo({ remedies, advice }) {
  if (!remedies?.length) return advice || "nothing";
  const [first, ...others] = remedies.map((remedy) => element("li", "", ...remedyOf(remedy)));
  if (!others.length) return element("ol", "", first);
  const list = element("ol", "", ...others);
  list.start = 2;
  return element("div", "", element("ol", "", first), element("details", "", element("summary", "", `${others.length} more`), list));
}

/** Those that findings name, the costliest first. */
function whoOf(findings) {
  const troubles = findings.filter((each) => each.trouble);
  const names = [...new Set((troubles.length ? troubles : findings).map((each) => each.client).filter((name) => name))].slice(0, 3).join(", ");
  return names || (troubles.length ? "it is not known" : "");
}

/** The answer about the whole group, as long as no rebalance is open. */
function renderAnswer(group) {
  const panel = $("#answer"), why = page.why?.group === group.name ? page.why : null;
  panel.hidden = page.selected >= 0 || !why;
  if (panel.hidden) return;
  const missing = why.missing ?? [];
  const key = JSON.stringify([group.name, why.verdict, why.remedies, why.advice, missing]);
  if (panel.dataset.key === key) return;
  panel.dataset.key = key;
  const worst = worstOf(group, nowOf(group));
  const buttons = worst ? [button(`Open the worst rebalance, ${percent(worst.share)} of the waiting`, () => open(worst.index))] : [];
  panel.replaceChildren(
    facts("answer", [["who", whoOf(why.findings ?? []) || "no member in particular"], ["why", why.verdict], ["what to do", whatToDo(why)],
      ...missing.map((sentence) => ["not complete", sentence])]),
    ...(buttons.length ? [element("p", "buttons", ...buttons)] : []),
  );
}

const percent = (share) => `${Math.round(100 * share)} %`;

/** Where a rebalance is concluded from, if no coordinator told it: lines of a log with their place, or a relay. */
function originOf({ lines }) {
  return lines.length ? `from lines of a log: ${[...new Set(lines)].join(" to ")}` : "from requests and answers that passed a relay";
}

/** The rebalance in which members waited longest, with its share of all waiting; null if none stands out. */
function worstOf(group, now) {
  if (group.worst?.changes === group.changes && group.worst.count === group.rebalances.length) return group.worst.found;
  const times = group.rebalances.map((each) => (each.initial ? 0 : phasesOf(each, now).reduce((sum, phase) => sum + phase.seconds, 0)));
  const total = times.reduce((sum, each) => sum + each, 0);
  const index = times.reduce((best, each, place) => (each > times[best] ? place : best), 0);
  const some = times.filter((each) => each > 0).length;
  const found = total > 1 && some > 1 && times[index] > (1.5 * total) / some ? { index, share: times[index] / total } : null;
  group.worst = { changes: group.changes, count: group.rebalances.length, found };
  return found;
}

function fillDrawer(group, rebalance) {
  const drawer = $("#drawer");
  const why = page.why?.group === group.name ? page.why : null;
  const detail = detailOf(why, rebalance);
  // It knows whom a sync was waited for; of a rebalance that goes on it knows how far it was when it was asked.
  const phases = detail?.over ? detail.phases : phasesOf(rebalance, nowOf(group)).map((phase) => ({ ...phase, members: phase.member ? [phase.member] : [] }));
  const total = phases.reduce((sum, phase) => sum + phase.seconds, 0) || 1;
  const worst = worstOf(group, nowOf(group));
  const title = element("h3", "", `${rebalance.epoch ? "Epoch" : "Generation"} ${rebalance.before < 0 ? "none" : rebalance.before} → ${rebalance.generation ?? "not reached"}, ${clock(rebalance.started)} `,
    chip(rebalance.cause, rebalance.inferred), ...(worst && group.rebalances[worst.index] === rebalance ? [" ", element("b", "badge", `the worst: ${percent(worst.share)} of the waiting`)] : []));
  const longest = phases.filter((phase) => phase.members.length && phase.name !== "initial delay").reduce((best, phase) => (phase.seconds > (best?.seconds ?? 0.05) ? phase : best), null);
  // A wait for a heartbeat is nobody's: then the member that began the rebalance is named.
  const isLong = longest && (longest.seconds > HEARTBEAT_S || !rebalance.trigger);
  const who = whoOf(detail?.findings ?? []) || (isLong ? longest.members.slice(0, 3).map((id) => group.nameOf(id)).join(", ") : rebalance.trigger ? group.nameOf(rebalance.trigger) : "no member in particular");
  const clauses = (detail?.findings ?? []).filter((each) => each.code !== rebalance.cause).map((each) => each.text);
  const reason = detail ? detail.reason : rebalance.trigger ? `${rebalance.cause}, ${group.nameOf(rebalance.trigger)}` : "it is not known";
  const answer = [["who", who], ["why", [reason, ...clauses].join("; ")]];
  // An opened rebalance has its own remedies; the verdict beside the name is the group's.
  if (detail) answer.push(["what to do", whatToDo(detail)]);
  else if (why) answer.push(["what to do", "why explains only the newest rebalances; open one of those"]);
  if (detail?.remedies.length && why.would_not_help.length) answer.push(["would not help", why.would_not_help.join("; ")]);
  if (page.live && detail?.remedies.length) answer.push(["played", `${commandLine("kafka-shim why", group.name, "--control", location.origin)} tries each on a simulation.`]);
  if (page.file) answer.push(["what to do", `${commandLine("kafka-shim why", group.name, page.file)} says what it cost and what to do.`]);
  const more = [];
  for (const phase of phases) {
    const name = element("span", "", phase.members.slice(0, 3).map((id) => group.nameOf(id)).join(", ") || "no member");
    const bar = element("i", ""), line = element("div", "phase", name, bar, element("span", "", `${seconds(phase.seconds)}, ${percent(phase.seconds / total)}`));
    bar.style.width = `${(100 * phase.seconds) / total}%`;
    more.push([phase.name, line]);
  }
  for (const [waits, whom] of rebalance.waited ?? []) more.push(["waited", `${group.nameOf(waits)} for ${group.nameOf(whom)}`]);
  if (rebalance.dropped.length) more.push(["dropped", rebalance.dropped.map((id) => group.nameOf(id)).join(", ")]);
  if (rebalance.moved !== null) more.push(["moved", `${rebalance.moved} ${group.kind === "streams" ? "task" : "partition"}${rebalance.moved === 1 ? "" : "s"}${detail?.moved ? `, ${detail.moved.needed} had to` : ""}`]);
  if (detail) more.push(["cost", `${rebalance.epoch ? "" : `${detail.member_seconds === null ? "unknown" : detail.member_seconds.toFixed(1)} member-seconds, `}${detail.partition_seconds === null ? "a log does not show partition-seconds" : `${detail.partition_seconds.toFixed(1)} partition-seconds`}`]);
  if (rebalance.inferred) more.push(["inferred", originOf(rebalance)]);
  const closing = button("Close", close);
  closing.className = "close";
  drawer.replaceChildren(closing, title, element("div", "columns", facts("answer", answer), facts("more", more)));
  drawer.hidden = false;
  fillDivision(group, rebalance);
}

/** As `kafka-shim why` prints it: who changes what, why, and what came of it when the past was played with and without. */
function remedyOf({ who, side, setting, seen, proposed, why, price, grade, before, after, sources, lines }) {
  const change = element("strong", "", `${who}, ${side}: ${setting}, ${seen} → ${proposed}`);
  const names = { rebalances: "rebalances", moved: "partitions moved", partition_seconds: "partition-seconds stopped" };
  const short = (value) => (Number.isInteger(value) ? value : value.toFixed(1));
  const played = before && after ? Object.keys(names).filter((name) => before[name] !== after[name])
    .map((name) => `${short(before[name])} → ${short(after[name])} ${names[name]}`).join(", ") : "";
  const sure = played ? `replayed: ${played}` : grade === "likely" ? "likely, not replayed" : "the requests do not show why";
  const places = lines?.length ? [element("br", ""), element("span", "faint", `see ${lines.join(", ")}`)] : [];
  const links = (sources ?? []).flatMap((address, place) => {
    const link = element("a", "", address);
    link.href = address;
    return [place ? ", " : "known: ", link];
  });
  const end = links.length ? element("span", "", ...links) : element("span", "faint", sure);
  return [change, element("br", ""), `${why}${price ? `; ${price}` : ""}`, element("br", ""), end, ...places];
}

let linked = location.hash;
/** Open the group or the rebalance that the address names, as `open` writes it. Says so if there is none. */
function followLink() {
  const [, name, seq] = linked.match(/^#([^@=]+)(?:@(\d+))?$/) ?? [];
  linked = "";
  if (!name) return false;
  const group = [...page.model.groups.values()].find((each) => encodeURIComponent(each.name) === name);
  if (!group) {
    $("#refused").textContent = `The address names the group ${decodeURIComponent(name)}, which is not here.`;
    return false;
  }
  if (group.name !== page.group) select(group.name);
  const index = seq === undefined ? -1 : group.rebalances.findIndex((each) => each.seq >= Number(seq));
  if (index >= 0) open(index);
  else if (seq !== undefined) $("#refused").textContent = `The address names a rebalance of ${group.name} that is forgotten.`;
  else goToGroup();
  return true;
}

let written = location.hash;
/** Write what is open into the address, after `#`. */
function writeAddress(fragment) {
  location.hash = fragment;
  written = location.hash;
}

// The reader has changed the address, or gone back.
addEventListener("hashchange", () => {
  if (location.hash === written || !location.hash) return;
  written = linked = location.hash;
  $("#refused").textContent = "";
  const [, name] = linked.match(LESSON_LINK) ?? [];
  if (name && page.server) beginLesson(name);
  else if (lesson.data) leaveLesson();
  else followLink();
});

function close() {
  page.selected = -1;
  closeRequest();
  $("#drawer").hidden = $("#division").hidden = true;
  $("#scene").focus();
  redraw();
}

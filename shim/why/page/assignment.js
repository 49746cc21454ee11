// @ts-check
// What a rebalance moved, as a matrix of members and partitions; and the same group divided by every assignor.
"use strict";

const MOST_COLUMNS = 64, MOST_ROWS = 40;
const KEEPS = "=", GETS = "+", GIVES = "−";

/**
 * What moved, and the least that had to so that nobody has two partitions more than another. As `kafka_shim.trace.moves`.
 * @param {[string, string | undefined, string][]} rows partition, its owner before if it had one, its owner after
 * @param {string[]} members those that are there after
 */
function moves(rows, members) {
  const staying = new Set(members), kept = new Map(members.map((id) => [id, 0]));
  let orphans = 0, between = 0;
  for (const [, before, after] of rows) {
    if (before === undefined) continue;
    if (!staying.has(before)) orphans++;
    else kept.set(before, kept.get(before) + 1);
    if (staying.has(before) && before !== after) between++;
  }
  const share = members.length ? Math.floor(rows.length / members.length) : 0;
  const more = members.length ? rows.length % members.length : 0;
  const sizes = [...kept.values()].sort((a, b) => b - a);
  const excess = sizes.reduce((sum, size, place) => sum + Math.max(0, size - share - (place < more ? 1 : 0)), 0);
  return { moved: orphans + between, orphans, between, needed: members.length ? orphans + excess : 0 };
}

/** How it reads in a sentence. */
function movement({ moved, orphans, between, needed }, total) {
  if (!moved) return `None of ${total} partitions moved.`;
  const needless = moved - needed;
  const parts = [orphans ? `${orphans} because the owner is gone` : "", needed > orphans ? `${needed - orphans} to make it even` : ""].filter(Boolean);
  return `${moved} of ${total} partitions moved. ${needed} had to${parts.length ? `: ${parts.join(", ")}` : ""}.${needless > 0 ? ` ${needless} moved without need.` : ""}`;
}

/** A matrix: a line for each member, a column for each partition; in the last line whether what moved had to. */
function matrix(rows, members, nameOf) {
  const found = moves(rows, members);
  const inOrder = [...rows].sort(([a], [b]) => byPartition(a, b));
  const shown = inOrder.length <= MOST_COLUMNS ? inOrder : inOrder.filter(([, before, after]) => before !== undefined && before !== after).slice(0, MOST_COLUMNS);
  const ids = [...new Set([...rows.flatMap(([, before, after]) => [before, after]), ...members])].filter((id) => id !== undefined);
  const seen = ids.length <= MOST_ROWS ? ids : ids.filter((id) => shown.some(([, before, after]) => id === before || id === after)).slice(0, MOST_ROWS);
  const heads = element("tr", "", element("th", "", "")), topics = element("tr", "", element("th", "", ""));
  let last = "", span = null;
  for (const [key] of shown) {
    const [topic, number] = key.split(" ");
    if (topic !== last) {
      last = topic;
      span = element("th", "", topic);
      span.colSpan = 0;
      span.scope = "colgroup";
      topics.append(span);
    }
    span.colSpan++;
    const head = element("th", "", number);
    head.scope = "col";
    heads.append(head);
  }
  const lines = seen.map((id) => {
    const head = element("th", "", nameOf(id) + (members.includes(id) ? "" : " (gone)"));
    head.scope = "row";
    return element("tr", "", head, ...shown.map(([, before, after]) => {
      if (id === after) return before === after ? element("td", "keeps", KEEPS) : element("td", "gets", GETS);
      return id === before ? element("td", "gives", GIVES) : element("td", "", "");
    }));
  });
  // Of those that moved from one to another that both stay, all had to, or none, or nobody can say which.
  const even = found.needed - found.orphans;
  const between = found.between <= even ? "yes" : even > 0 ? "?" : "no";
  const had = shown.map(([, before, after]) => {
    if (before === undefined || before === after) return element("td", "", "");
    return element("td", "had", members.includes(before) ? between : "yes");
  });
  const foot = element("th", "", "had to");
  foot.scope = "row";
  const table = element("table", "matrix", element("thead", "", topics, heads), element("tbody", "", ...lines, ...(found.moved ? [element("tr", "", foot, ...had)] : [])));
  const left = rows.length - shown.length;
  return { table, found, unsure: between === "?", note: left > 0 ? `${left} partitions that stayed are not shown.` : "" };
}

function byPartition(a, b) {
  const [[topicA, a1], [topicB, b1]] = [a.split(" "), b.split(" ")];
  return topicA === topicB ? Number(a1) - Number(b1) : topicA < topicB ? -1 : 1;
}

function scrolled(table, label) {
  const box = element("div", "scroll", table);
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", label);
  return box;
}

/** The division whose topics and members the form of the assignors has. */
let offered = null;

/** Shows what a rebalance made of the assignment. */
function fillDivision(group, rebalance) {
  const panel = $("#division");
  const division = rebalance?.division;
  panel.hidden = !division || !division.rows.length;
  if (panel.hidden) return;
  const { table, found, note, unsure } = matrix(division.rows, division.members, (id) => group.nameOf(id));
  panel.replaceChildren(
    element("h3", "", "The assignment before and after"),
    element("p", "", movement(found, division.rows.length)),
    scrolled(table, "The assignment before and after"),
    element("p", "faint", `${KEEPS} keeps it, ${GETS} gets it, ${GIVES} gives it up.${unsure ? " Of those with ? some had to move." : ""} ${note}`),
  );
  // What the reader has typed stays when the answer about the rebalance comes.
  if (offered === division) return;
  offered = division;
  const topics = new Map();
  for (const [key] of division.rows) {
    const [topic, number] = key.split(" ");
    topics.set(topic, Math.max(topics.get(topic) ?? 0, Number(number) + 1));
  }
  const before = [...new Set(division.rows.map(([, owner]) => owner).filter((id) => id !== undefined))];
  const fields = $("#assignors form").elements;
  fields.topics.value = [...topics].map(([topic, count]) => `${topic}:${count}`).join(", ");
  fields.before.value = (before.length ? before : division.members).map((id) => group.nameOf(id)).join(", ");
  fields.after.value = division.members.map((id) => group.nameOf(id)).join(", ");
  if ($("#assignors").open) divide();
}

// The same group by every assignor: the server knows them

let divided = 0;

async function divide() {
  const turn = ++divided;
  const fields = $("#assignors form").elements;
  const names = (text) => text.split(",").map((each) => each.trim()).filter(Boolean);
  const topics = Object.fromEntries(names(fields.topics.value).map((each) => [each.replace(/:[^:]*$/, ""), Number(each.split(":").pop())]));
  const body = { topics, before: names(fields.before.value), after: names(fields.after.value) };
  const answer = await fetch("/v1/assignments", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const found = await answer.json();
  // Of several that are under way the newest is shown, whichever is answered last.
  if (turn !== divided) return;
  $("#assignors-refused").textContent = answer.ok ? "" : found.message;
  if (answer.ok) fillAssignors(found.divisions, body);
}

function fillAssignors(divisions, { before, after }) {
  $("#assignors-table tbody").replaceChildren(...divisions.map((each) => {
    const line = row([each.assignor, each.style, { className: "number", text: each.fewest === each.most ? String(each.most) : `${each.fewest} to ${each.most}` },
      each.moved, each.needed, each.stopped]);
    line.dataset.assignor = each.assignor;
    return line;
  }));
  $("#assignors-matrices").replaceChildren(...divisions.map((each) => {
    const owner = (division, key) => Object.keys(division).find((member) => division[member][key[0]]?.includes(key[1]));
    const keys = Object.values(each.after).flatMap((topics) => Object.entries(topics).flatMap(([topic, numbers]) => numbers.map((number) => [topic, number])));
    const rows = keys.map((key) => [key.join(" "), owner(each.before, key), owner(each.after, key)]);
    const { table } = matrix(rows, after, (name) => name);
    return element("figure", "", element("figcaption", "", each.assignor), scrolled(table, `By ${each.assignor}`));
  }));
}

$("#assignors form").addEventListener("submit", (event) => {
  event.preventDefault();
  divide();
});
$("#assignors").addEventListener("toggle", () => { if ($("#assignors").open) divide(); });

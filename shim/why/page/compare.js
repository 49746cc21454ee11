// @ts-check
// A second trace below the first: its timeline aligned with that of the first by cause, and the bill of both.
"use strict";

const beside = { model: null, name: "", group: "" };

/** The rebalance of `other` that is to stand below one of `group`: of the same cause, and as many of that cause before it. */
function counterpart(group, index, other) {
  const cause = group.rebalances[index]?.cause;
  const before = group.rebalances.slice(0, index).filter((each) => each.cause === cause).length;
  const alike = other.rebalances.filter((each) => each.cause === cause);
  return alike[Math.min(before, alike.length - 1)] ?? other.rebalances[Math.min(index, other.rebalances.length - 1)];
}

/** What the rebalances of a group cost; times are seconds. */
function bill(group, now) {
  const causes = new Map();
  let time = 0, stopped = 0, moved = 0;
  for (const rebalance of group.rebalances) {
    causes.set(rebalance.cause, (causes.get(rebalance.cause) || 0) + 1);
    time += phasesOf(rebalance, now).reduce((sum, phase) => sum + phase.seconds, 0);
    moved += rebalance.moved ?? 0;
  }
  for (const member of group.members.values()) for (const pause of member.pauses) stopped += (pause.to ?? now) - pause.from;
  return { rebalances: group.rebalances.length, time, stopped, moved, causes };
}

/** Show a trace below the one that is open. */
function compareWith(model, name) {
  Object.assign(beside, { model, name, group: "" });
  redraw();
}

function renderBeside(group, now) {
  $("#beside").hidden = beside.model === null;
  if (beside.model === null) return;
  if (!beside.model.groups.has(beside.group)) beside.group = beside.model.groups.has(group.name) ? group.name : [...beside.model.groups.keys()][0] ?? "";
  const other = beside.model.groups.get(beside.group);
  const choice = $("#beside-group");
  if (choice.options.length !== beside.model.groups.size) {
    choice.replaceChildren(...[...beside.model.groups.keys()].map((name) => new Option(name, name)));
  }
  choice.value = beside.group;
  $("#beside-title").textContent = other ? `Beside it: ${beside.name}` : `${beside.name} has no group`;
  if (!other) return;
  const visible = group.rebalances.findIndex((each) => each.started >= page.from);
  const index = page.selected >= 0 ? page.selected : Math.max(0, visible);
  const below = counterpart(group, index, other);
  const shift = below && group.rebalances[index] ? below.started - group.rebalances[index].started : other.first - group.first;
  draw($("#beside-scene"), other, page.from + shift, page.to + shift, page.selected >= 0 ? other.rebalances.indexOf(below) : -1, other.last);
  const [here, there] = [bill(group, now), bill(other, other.last)];
  const line = (name, value) => row([name, { className: "number", text: value(here) }, { className: "number", text: value(there) }]);
  $("#bill thead").replaceChildren(row(["what it cost", { className: "number", text: "above" }, { className: "number", text: "beside it" }]));
  $("#bill tbody").replaceChildren(
    line("rebalances", (each) => String(each.rebalances)),
    line("time in rebalances", (each) => seconds(each.time)),
    line("member-seconds standing still", (each) => each.stopped.toFixed(1)),
    line("partitions moved", (each) => String(each.moved)),
    ...[...new Set([...here.causes.keys(), ...there.causes.keys()])].map((cause) => line(cause, (each) => String(each.causes.get(cause) || 0))),
  );
}

$("#beside-file").addEventListener("change", (event) => openFiles(chosen(event.target), compareWith));
$("#beside-group").addEventListener("change", (event) => {
  beside.group = event.target.value;
  redraw();
});
$("#beside-close").addEventListener("click", () => compareWith(null, ""));
$("#beside-scene").addEventListener("scroll", redraw);

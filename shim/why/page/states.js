// @ts-check
// The state machine of the chosen group, the present state lit, each arrow with the rules that lead along it; and the
// timers that are armed. What arrows there are and what they say is in rules.js, which is written from the rules.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

/** By kind of group: where its states stand, and how far an arrow between two of them bends. */
const MACHINES = {
  classic: {
    places: { Empty: [50, 130], PreparingRebalance: [265, 130], CompletingRebalance: [510, 130], Stable: [690, 130], Dead: [375, 250] },
    bends: {
      "Empty>PreparingRebalance": -14, "PreparingRebalance>Empty": -22,
      "CompletingRebalance>PreparingRebalance": 58, "Stable>PreparingRebalance": 105,
    },
    /** Arrows without a label of their own, since the one beside them says the same. */
    silent: ["PreparingRebalance>Dead", "CompletingRebalance>Dead"],
  },
  consumer: {
    places: { Empty: [70, 130], Assigning: [260, 130], Reconciling: [480, 130], Stable: [690, 130], Dead: [375, 250] },
    bends: { "Reconciling>Assigning": 58, "Stable>Assigning": 105 },
    silent: [],
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
  const line = (d, className = "") => {
    // A wide one beneath, that nobody sees, is easier to hit.
    parts.push(svg("path", { d, class: "hit" }), svg("path", { d, class: `line ${className}`, "marker-end": "url(#tip)" }));
  };
  if (y1 === y2) {
    const right = x2 > x1;
    if (bend > 50) {
      const top = y1 - 17 - bend, end = x2 + (bend > 100 ? -30 : 30);
      line(`M${x1} ${y1 - 17} C${x1} ${top} ${end} ${top} ${end} ${y2 - 17}`);
      parts.push(svg("text", { x: (x1 + x2) / 2, y: y1 - 17 - bend * 0.75 - 5 }, label));
    } else {
      const lift = bend < -20 ? 12 : bend < 0 ? -8 : 0;
      const a = x1 + (right ? halfWidth(from) : -halfWidth(from)), b = x2 + (right ? -halfWidth(to) - 3 : halfWidth(to) + 3);
      line(`M${a} ${y1 + lift} L${b} ${y2 + lift}`);
      parts.push(svg("text", { x: (a + b) / 2, y: y1 + (lift > 0 ? lift + 18 : lift - 26) }, label));
    }
  } else {
    line(`M${x1} ${y1 + 17} Q${x1} ${y2 - 8} ${x2 + Math.sign(x1 - x2) * (halfWidth(to) + 3)} ${y2}`, "faint");
    if (label) parts.push(svg("text", { x: (x1 + 2 * x1 + x2) / 4 , y: y2 + 12, class: "faint" }, label));
  }
  return parts;
}

/** @param {string} kind @param {string} present */
function machine(kind, present) {
  const { places, bends, silent } = MACHINES[kind];
  const tip = svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse" }, svg("path", { d: "M0 0 L8 4 L0 8 z" }));
  const drawn = svg("svg", { viewBox: "0 0 770 275", role: "group", "aria-label": `States of a ${kind} group; it is ${present}` }, svg("defs", {}, tip));
  for (const [name, { label }] of Object.entries(ARROWS[kind])) {
    const [from, to] = name.split(">");
    const link = svg("a", { href: "#rule", "data-arrow": name, "aria-label": `From ${from} to ${to}: ${label}` });
    link.append(...arrow(places[from], places[to], from, to, silent.includes(name) ? "" : label, bends[name] ?? 0));
    link.onclick = (event) => {
      event.preventDefault();
      openArrow(kind, name);
    };
    drawn.append(link);
  }
  for (const [name, [x, y]] of Object.entries(places)) {
    const lit = name === present;
    drawn.append(svg("g", { class: lit ? "state lit" : "state", "data-state": name },
      svg("rect", { x: x - halfWidth(name), y: y - 17, width: 2 * halfWidth(name), height: 34, rx: 6 }),
      svg("text", { x, y: y + 5 }, name)));
  }
  return drawn;
}

/** What leads along an arrow: the rules of the table, and those of docs/semantics.md. */
function openArrow(kind, name) {
  const { label, rules, cites } = ARROWS[kind][name];
  const panel = $("#rule");
  const parts = [element("h3", "", `${name.replace(">", " → ")}: ${label}`)];
  if (rules.length) {
    parts.push(element("ul", "", ...rules.map((each) => element("li", "",
      element("code", "", each.rule), `: ${each.does}`, ...(each.triggers.length ? [element("span", "faint", ` ${each.triggers.join("; ")}.`)] : [])))));
  }
  const terms = element("dl", "");
  for (const cite of cites) {
    const { text, origins, section } = SEMANTICS[cite];
    const where = page.server ? element("a", "", `semantics ${cite}`) : element("span", "", `semantics ${cite}`);
    if (page.server) where.href = `/semantics#${section}`;
    terms.append(element("dt", "", where), element("dd", "", text, " ", element("span", "faint", origins.join(", "))));
  }
  parts.push(terms);
  panel.replaceChildren(...parts);
  panel.hidden = false;
  for (const each of document.querySelectorAll("#states a")) each.classList.toggle("on", each.dataset.arrow === name);
  panel.focus();
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
    $("#rule").hidden = true;
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

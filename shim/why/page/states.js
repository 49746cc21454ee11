// @ts-check
// The state machine of the chosen group, the present state lit, each arrow with the rules that lead along it; and the
// timers that are armed. What arrows there are and what they say is in rules.js, which is written from the rules.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

/**
 * By kind of group: where its states stand, and how far an arrow between two of them bends. `frame` is around the states of a
 * group with members, from where one arrow for all of them leads to Empty: its left, top, right and bottom.
 */
const MACHINES = {
  classic: {
    size: [770, 275],
    places: { Empty: [50, 130], PreparingRebalance: [265, 130], CompletingRebalance: [510, 130], Stable: [690, 130], Dead: [375, 250] },
    bends: {
      "Empty>PreparingRebalance": -14, "PreparingRebalance>Empty": -22,
      "CompletingRebalance>PreparingRebalance": 58, "Stable>PreparingRebalance": 105,
    },
    /** Arrows without a label of their own, since the one beside them says the same. */
    silent: ["PreparingRebalance>Dead", "CompletingRebalance>Dead"],
  },
  consumer: {
    size: [770, 205],
    places: { Empty: [55, 130], Assigning: [300, 130], Reconciling: [490, 130], Stable: [690, 130], Dead: [55, 30] },
    bends: { "Empty>Assigning": -14, "Reconciling>Assigning": 58, "Stable>Assigning": 105, "Reconciling>Stable": -14, "Stable>Reconciling": -22 },
    silent: [],
    frame: [195, 12, 760, 195],
  },
  share: {
    size: [400, 205],
    places: { Empty: [55, 130], Stable: [300, 130], Dead: [55, 30] },
    bends: { "Empty>Stable": -14 },
    silent: [],
    frame: [195, 70, 385, 195],
  },
  streams: {
    size: [770, 295],
    places: { Empty: [55, 130], NotReady: [300, 235], Assigning: [300, 130], Reconciling: [490, 130], Stable: [690, 130], Dead: [55, 30] },
    bends: { "Empty>Assigning": -14, "Reconciling>Assigning": 58, "Stable>Assigning": 105, "Reconciling>NotReady": -7, "Stable>NotReady": 7 },
    silent: ["Assigning>NotReady", "Reconciling>NotReady"],
    frame: [195, 12, 760, 285],
  },
};

/** @param {string} name @param {Record<string, string | number>} attributes */
function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** How wide a letter of a label is, in the mean. */
const LETTER = 6.2;
const halfWidth = (name) => 14 + name.length * 4;

/** A line with a wide one beneath, that nobody sees, which is easier to hit. */
const line = (d, className = "") => [svg("path", { d, class: "hit" }), svg("path", { d, class: `line ${className}`, "marker-end": "url(#tip)" })];

/** An arrow between two boxes, bent by `bend`; its label stands beside its middle. */
function arrow([x1, y1], [x2, y2], from, to, label, bend) {
  const text = (x, y, className = "") => (label ? [svg("text", { x, y, class: className }, label)] : []);
  if (x1 === x2) {
    // Two that lead both ways stand side by side.
    const up = y2 < y1, x = to === "Dead" ? x1 : x1 + (up ? -10 : 10), tip = y2 + (up ? 20 : -20);
    const dead = to === "Dead" ? "faint" : "";
    return [...line(`M${x} ${y1 + (up ? -17 : 17)} L${x} ${tip}`, dead), ...text(x + (dead ? 8 + (label.length * LETTER) / 2 : -24), (y1 + y2) / 2 + 4, dead)];
  }
  if (y1 === y2 && bend > 50) {
    const top = y1 - 17 - bend, end = x2 + (bend > 100 ? -30 : 30), begin = x1 + (bend > 100 ? 18 : 0);
    return [...line(`M${begin} ${y1 - 17} C${begin} ${top} ${end} ${top} ${end} ${y2 - 17}`), ...text((x1 + x2) / 2, y1 - 17 - bend * 0.75 - 5)];
  }
  if (y1 === y2) {
    const right = x2 > x1, lift = bend < -20 ? 12 : bend < 0 ? -8 : 0;
    const a = x1 + (right ? halfWidth(from) : -halfWidth(from)), b = x2 + (right ? -halfWidth(to) - 3 : halfWidth(to) + 3);
    // Close to its line if it is no longer than that, else above or below the boxes.
    const fits = label.length * LETTER < Math.abs(b - a) - 8;
    const away = fits ? (lift > 0 ? 15 : -7) : lift > 0 ? 18 : -26 - lift;
    return [...line(`M${a} ${y1 + lift} L${b} ${y2 + lift}`), ...text((a + b) / 2, y1 + lift + away)];
  }
  const dead = to === "Dead" ? "faint" : "", x = dead ? x1 : x1 + (x2 > x1 ? -20 : 0), end = y2 + bend;
  const tip = x2 + Math.sign(x1 - x2) * (halfWidth(to) + 3);
  return [...line(`M${x} ${y1 + 17} Q${x} ${end - 8} ${tip} ${end}`, dead), ...text((3 * x1 + x2) / 4, end + (dead ? 6 : x2 > x1 ? 24 : 12), dead)];
}

/** The arrow from the frame around all states of a group with members. */
function arrowOfFrame(left, [x, y], to, label) {
  return [...line(`M${left} ${y + 12} L${x + halfWidth(to) + 3} ${y + 12}`), svg("text", { x: (left + x + halfWidth(to)) / 2, y: y + 30 }, label)];
}

/** @param {string} kind @param {string} present */
function machine(kind, present) {
  const { size, places, bends, silent, frame } = MACHINES[kind];
  const tip = svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse" }, svg("path", { d: "M0 0 L8 4 L0 8 z" }));
  const drawn = svg("svg", { viewBox: `0 0 ${size.join(" ")}`, role: "group", "aria-label": `States of a ${kind} group; it is ${present}` }, svg("defs", {}, tip));
  // Its text is to be read on a phone too, where it scrolls.
  Object.assign(drawn.style, { minWidth: `${size[0] / 17.5}rem`, maxWidth: `${size[0] / 13.3}rem` });
  if (frame) drawn.append(svg("rect", { x: frame[0], y: frame[1], width: frame[2] - frame[0], height: frame[3] - frame[1], rx: 10, class: "frame" }));
  let framed = false;
  for (const [name, { label }] of Object.entries(ARROWS[kind])) {
    const [from, to] = name.split(">");
    const ofFrame = frame !== undefined && to === "Empty";
    if (ofFrame && framed) continue;
    framed ||= ofFrame;
    const said = ofFrame ? `From every state of a group with members to ${to}: ${label}` : `From ${from} to ${to}: ${label}`;
    const link = svg("a", { href: "#rule", "data-arrow": name, "aria-label": said });
    if (ofFrame) link.append(...arrowOfFrame(frame[0], places[to], to, label));
    else link.append(...arrow(places[from], places[to], from, to, silent.includes(name) ? "" : label, bends[name] ?? 0));
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

/** What leads along an arrow: the rules of the table, and those of docs/semantics. */
function openArrow(kind, name) {
  const { label, rules, cites } = ARROWS[kind][name];
  const panel = $("#rule");
  const [from, to] = name.split(">");
  const parts = [element("h3", "", `${to === "Empty" && MACHINES[kind].frame ? "With members" : from} → ${to}: ${label}`)];
  if (rules.length) {
    parts.push(element("ul", "", ...rules.map((each) => element("li", "",
      element("code", "", each.rule), `: ${each.does}`, ...(each.triggers.length ? [element("span", "faint", ` ${each.triggers.join("; ")}.`)] : [])))));
  }
  const terms = element("dl", "");
  for (const cite of cites) {
    const { text, origins, section } = SEMANTICS[cite];
    const where = page.server ? element("a", "", `semantics ${cite}`) : element("span", "", `semantics ${cite}`);
    if (page.server) where.href = `/semantics/${section[0]}#${section}`;
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
  const machined = group !== undefined && group.state in (MACHINES[group.kind]?.places ?? {});
  $("#machine").hidden = !machined;
  if (!machined || !$("#machine").open) return;
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

// @ts-check
// The timeline of a group: a lane for each client, bars for what it owns, hatching while it stands still.
"use strict";

// Petroff's six colours (arxiv.org/abs/2107.02270); beyond six members a lane is known by its name.
const COLOURS = ["#5790fc", "#f89c20", "#e42536", "#964a8b", "#9c9ca1", "#7a21dd"];
/** Accepted heartbeats are drawn where no more seconds than these are seen. */
const QUIET_SPAN = 60;
const HEAD = 30, LANE = 26, GAP = 6, NAME = 150, MARK = 3, FOOT = 20;
const FONT = "12px system-ui, sans-serif", BOLD = "600 11px system-ui, sans-serif";
const DARK = new Set(["#7a21dd", "#964a8b", "#e42536"]);

/**
 * What is to be drawn of `group` between two times, in pixels: the same for the canvas and for tests. Lanes that are not
 * between `above` and `below` have a name and a place, and nothing else.
 */
function layout(group, from, to, width, now, above = -Infinity, below = Infinity) {
  const name = Math.min(NAME, width / 3);
  const scale = (width - name) / (to - from);
  const x = (at) => name + (at - from) * scale;
  const seen = new Map();
  const lanes = [], bars = [], pauses = [], marks = [], chips = [], awaited = [];
  const { rows, of: rowOf } = lanesOf(group);
  rows.forEach((first, row) => lanes.push({ member: first.id, name: first.name, top: HEAD + row * (LANE + GAP), colour: COLOURS[row % COLOURS.length] }));
  for (const member of group.members.values()) {
    const { top, colour } = lanes[rowOf.get(member.id)];
    if (top + LANE < above || top > below) continue;
    seen.set(member.id, top);
    for (const segment of member.segments) {
      const end = segment.to ?? now;
      if (segment.from > to || end < from) continue;
      const left = Math.max(name, x(segment.from)), right = Math.min(width, x(end));
      bars.push({ member: member.id, from: segment.from, to: end, top, colour, partitions: segment.keys, left, right });
    }
    for (const pause of member.pauses) {
      const end = pause.to ?? now;
      if (pause.from <= to && end >= from) pauses.push({ member: member.id, top, left: Math.max(name, x(pause.from)), right: Math.min(width, x(end)) });
    }
  }
  const taken = new Set();
  for (let i = firstAfter(group.marks, from); i < group.marks.length && group.marks[i].at <= to; i++) {
    const mark = group.marks[i];
    if (mark.quiet && to - from > QUIET_SPAN) continue;
    const top = seen.get(mark.member);
    const left = Math.round(x(mark.at));
    // One mark a pixel and lane: more would not be seen.
    if (top === undefined || taken.has(left * 4096 + top)) continue;
    taken.add(left * 4096 + top);
    marks.push({ member: mark.member, api: mark.api, error: mark.error, left, top: top + LANE - MARK, index: i });
  }
  const worst = worstOf(group, now);
  group.rebalances.forEach((rebalance, index) => {
    const end = rebalance.assigned ?? rebalance.ended ?? now;
    if (rebalance.started <= to && end >= from) {
      const share = worst?.index === index ? ` · ${percent(worst.share)}` : "";
      for (const wait of waitsOf(rebalance, now, group.heartbeat)) {
        const top = seen.get(wait.member);
        if (top !== undefined) awaited.push({ member: wait.member, top, seconds: wait.to - wait.from, left: Math.max(name, x(wait.from)), right: Math.min(width, x(wait.to)) });
      }
      chips.push({ index, cause: rebalance.cause, inferred: rebalance.inferred, label: rebalance.cause + share, left: Math.max(name, x(rebalance.started)), right: Math.min(width, Math.max(x(end), x(rebalance.started) + 2)) });
    }
  });
  return { name, things: group.kind === "streams" ? "tasks" : "partitions", lanes, seen, bars, pauses, awaited, marks, chips, x };
}

/**
 * The lanes of a group: a client that leaves and comes back under another member id stays in its lane. `rows` has the first
 * member of each, `of` the row of every member by id.
 */
function lanesOf(group) {
  if (group.lanes?.changes === group.changes && group.lanes.size === group.members.size) return group.lanes;
  const rows = [], of = new Map(), free = new Map();
  for (const member of group.members.values()) {
    const base = member.name.replace(/#\d+$/, "");
    const same = free.get(base) ?? [];
    // Members of one client id that are there at the same time are several processes.
    const lane = same.find((each) => each.last.left !== null && each.last.left <= member.joined + 1e-3 && each.last.host === member.host);
    if (lane) lane.last = member;
    else {
      same.push({ row: rows.length, last: member });
      free.set(base, same);
      rows.push(member);
    }
    of.set(member.id, (lane ?? same[same.length - 1]).row);
  }
  group.lanes = { changes: group.changes, size: group.members.size, rows, of };
  return group.lanes;
}

/** What a member must take longer than the others for a rebalance to wait for it alone, in seconds. */
const STANDS_OUT = 0.5;
/** The member that a rebalance waited for while others were ready, in each phase: `{member, from, to}`. */
function waitsOf(rebalance, now, heartbeat) {
  const waits = [];
  let at = rebalance.started;
  for (const phase of phasesOf(rebalance, now)) {
    const others = phase.name === "waiting for members" ? rebalance.waits[1]?.seconds ?? 0 : phase.name === "waiting for heartbeats" ? heartbeat : 0;
    if (phase.member && phase.name !== "initial delay" && phase.seconds - others > STANDS_OUT) waits.push({ member: phase.member, from: at + others, to: at + phase.seconds });
    at += phase.seconds;
  }
  return waits;
}

/** The place of the first mark at or after `at`. */
function firstAfter(marks, at) {
  let low = 0, high = marks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (marks[middle].at < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Draws the part of a group that its scene shows: the canvas is as high as the scene, and stays while the lanes scroll below
 * it, so that a group of a thousand members costs no more than one of ten. `selected` is the number of a rebalance or -1,
 * `moment` the time that is chosen, or null.
 */
function draw(scene, group, from, to, selected, now, moment = null) {
  const canvas = scene.querySelector("canvas");
  const width = scene.clientWidth;
  const rows = lanesOf(group).rows.length;
  const whole = HEAD + Math.max(1, rows) * (LANE + GAP) + FOOT;
  // On a narrow window the answer needs more lines below the drawing, and the list above it more too.
  const part = window.innerWidth > 960 ? 0.32 : 0.22;
  const height = Math.min(whole, Math.max(HEAD + FOOT + 4 * (LANE + GAP), Math.round(window.innerHeight * part)));
  scene.style.height = `${height}px`;
  scene.querySelector("i").style.height = `${whole - height}px`;
  const scrolled = Math.min(scene.scrollTop, whole - height);
  const bottom = height - FOOT;
  const plan = layout(group, from, to, width, now, scrolled, scrolled + height);
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  const sizes = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== sizes[0] || canvas.height !== sizes[1]) [canvas.width, canvas.height] = sizes;
  const colours = tokens(canvas);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = FONT;
  pen.textBaseline = "middle";
  // The colours of lines and of text are one if the system sets them: a shade would hide the text.
  const outlined = matchMedia("(forced-colors: active)").matches;
  for (const chip of plan.chips) {
    const colour = chip.index === selected ? colours.accent : colours.line;
    if (outlined) {
      pen.strokeStyle = colour;
      pen.lineWidth = chip.index === selected ? 3 : 1;
      pen.strokeRect(chip.left + 1.5, HEAD - 7.5, Math.max(0, chip.right - chip.left - 3), bottom - HEAD + 6);
      continue;
    }
    pen.fillStyle = colour;
    pen.globalAlpha = chip.index === selected ? 0.35 : 0.6;
    pen.fillRect(chip.left, 0, chip.right - chip.left, bottom);
    pen.globalAlpha = 1;
    if (chip.inferred) dotted(pen, chip, bottom, colours);
  }
  axis(pen, plan, from, to, width, height, colours);
  pen.save();
  pen.beginPath();
  pen.rect(0, HEAD - 6, width, bottom - HEAD + 6);
  pen.clip();
  pen.translate(0, -scrolled);
  drawLanes(pen, plan, colours);
  pen.restore();
  for (const { chip, text, left } of captions(plan.chips, width, selected, (each) => measured(pen, each))) {
    pen.fillStyle = chip.index === selected ? colours.accent : colours.ink;
    pen.fillText(text, left, 12);
  }
  if (moment !== null && moment >= from && moment <= to) {
    pen.fillStyle = colours.accent;
    pen.fillRect(Math.round(plan.x(moment)) - 1, HEAD - 6, 2, bottom - HEAD + 6);
  }
  return plan;
}

/** Where causes are written: that of the chosen rebalance, and of the others those for which there is room. */
function captions(chips, width, selected, wide) {
  const found = [];
  for (const chip of [...chips.filter((each) => each.index === selected), ...chips.filter((each) => each.index !== selected)]) {
    const text = width < 600 ? chip.cause : chip.label, size = wide(text), left = Math.min(chip.left, width - size - 4);
    if (found.every((other) => left + size + 12 <= other.left || other.left + other.size + 12 <= left)) found.push({ chip, text, left, size });
  }
  return found;
}

function drawLanes(pen, plan, colours) {
  const visible = new Set(plan.seen.values());
  for (const lane of plan.lanes) {
    if (!visible.has(lane.top)) continue;
    pen.fillStyle = colours.ink;
    pen.fillText(clipped(pen, lane.name, plan.name - 16), 8, lane.top + LANE / 2);
  }
  for (const bar of plan.bars) {
    const wide = Math.max(1, bar.right - bar.left);
    pen.fillStyle = bar.colour;
    pen.fillRect(bar.left, bar.top, wide, LANE - 8);
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 1;
    if (wide > 3) pen.strokeRect(bar.left + 0.5, bar.top + 0.5, wide - 1, LANE - 9);
  }
  pen.font = BOLD;
  for (const bar of plan.bars) {
    const wide = bar.right - bar.left;
    if (wide <= 24) continue;
    const text = bar.partitions.length === 1 ? bar.partitions[0] : `${bar.partitions.length} ${plan.things}`;
    pen.fillStyle = DARK.has(bar.colour) ? "#fff" : "#14171c";
    const label = measured(pen, text) < wide - 8 ? text : String(bar.partitions.length);
    pen.fillText(label, bar.left + 4, bar.top + (LANE - 8) / 2 + 0.5);
  }
  pen.font = FONT;
  pen.strokeStyle = colours.ink;
  for (const pause of plan.pauses) hatch(pen, pause.left, pause.top, Math.max(2, pause.right - pause.left), LANE - 8);
  for (const wait of plan.awaited) frame(pen, wait, colours);
  for (const mark of plan.marks) {
    pen.fillStyle = mark.error ? colours.bad : colours.faint;
    pen.fillRect(mark.left, mark.top, 2, MARK);
  }
}

/** Dotted edges of a rebalance that no coordinator told: it is concluded from a log or by a relay. */
function dotted(pen, chip, bottom, colours) {
  pen.strokeStyle = colours.faint;
  pen.lineWidth = 1;
  pen.setLineDash([1, 3]);
  for (const edge of [chip.left, chip.right]) {
    pen.beginPath();
    pen.moveTo(Math.round(edge) + 0.5, HEAD - 8);
    pen.lineTo(Math.round(edge) + 0.5, bottom);
    pen.stroke();
  }
  pen.setLineDash([]);
}

/** A dashed frame around the time in which all wait for a member, with words where there is room. */
function frame(pen, wait, colours) {
  const wide = Math.max(3, wait.right - wait.left);
  pen.strokeStyle = pen.fillStyle = colours.bad;
  pen.lineWidth = 2;
  pen.setLineDash([6, 3]);
  pen.strokeRect(wait.left + 1, wait.top - 2, wide - 2, LANE - 4);
  pen.setLineDash([]);
  pen.lineWidth = 1;
  const text = `all wait for it, ${seconds(wait.seconds)}`, size = measured(pen, text);
  if (size > wide - 60) return;
  pen.fillStyle = colours.paper;
  pen.fillRect(wait.right - size - 10, wait.top + 1, size + 6, LANE - 10);
  pen.fillStyle = colours.bad;
  pen.fillText(text, wait.right - size - 7, wait.top + (LANE - 8) / 2 + 0.5);
}

const widths = new Map();
/** The width of a text in the pen's font; the same texts are drawn every frame. */
function measured(pen, text) {
  const key = pen.font + text;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size > 20000) widths.clear();
    widths.set(key, (width = pen.measureText(text).width));
  }
  return width;
}

function tokens(element) {
  // A canvas knows no CSS variables: each colour is read where a browser has worked it out.
  const probe = document.createElement("i");
  element.parentElement.append(probe);
  const found = {};
  for (const name of ["ink", "faint", "line", "accent", "bad", "paper"]) {
    probe.style.color = `var(--${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

function hatch(pen, left, top, width, height) {
  pen.save();
  pen.beginPath();
  pen.rect(left, top, width, height);
  pen.clip();
  pen.lineWidth = 1;
  pen.beginPath();
  for (let x = left - height; x < left + width; x += 5) {
    pen.moveTo(x, top + height);
    pen.lineTo(x + height, top);
  }
  pen.stroke();
  pen.restore();
}

function clipped(pen, text, width) {
  if (measured(pen, text) <= width) return text;
  // Members of one group differ at the end of their names.
  let start = 1;
  while (start < text.length - 1 && measured(pen, `…${text.slice(start)}`) > width) start++;
  return `…${text.slice(start)}`;
}

function axis(pen, plan, from, to, width, height, colours) {
  const wish = ((to - from) * 110) / Math.max(1, width - plan.name);
  const steps = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];
  const step = steps.find((each) => each >= wish) ?? 86400;
  pen.fillStyle = colours.faint;
  pen.strokeStyle = colours.line;
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const x = plan.x(at);
    pen.beginPath();
    pen.moveTo(x, HEAD - 6);
    pen.lineTo(x, height - FOOT);
    pen.stroke();
    const text = clock(at, step);
    if (x + measured(pen, text) < width) pen.fillText(text, x + 2, height - FOOT / 2);
  }
}

/** A wall-clock time, with milliseconds where `step` is below a second; or seconds since the beginning. */
function clock(at, step = 0.001) {
  if (page.zero !== null) return `${(at - page.zero).toFixed(step < 1 ? 3 : 0)} s`;
  const date = new Date(Math.round(at * 1000));
  const text = date.toLocaleTimeString([], { hour12: false });
  return step < 1 ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
}

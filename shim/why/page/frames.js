// @ts-check
// One request and its answer: their bytes beside the fields that they are, beside the row of the table that answered.
// And the requests around the chosen moment, as a table.
"use strict";

const AROUND = 6;
/** The mark whose request is open, or null. */
let openMark = null;

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** Open the request of a mark, and choose its moment. */
async function openRequest(mark) {
  const group = page.model.groups.get(page.group);
  if (!group || !mark) return;
  openMark = mark;
  choose(mark.at, true);
  const event = mark.line ? JSON.parse(mark.line) : null;
  const frames = event && (await page.source.frames(event));
  // Another one may have been opened meanwhile.
  if (openMark !== mark) return;
  const name = `${mark.api}${event ? ` v${event.version}` : ""} of ${group.nameOf(mark.member)}, ${clock(mark.at)}: ${outcome(mark.error)}`;
  fillFrame(name, event, frames);
}

function closeRequest() {
  openMark = null;
  $("#frame").hidden = true;
}

/** The next request after the open one, or after the chosen moment; with -1 the one before. */
function stepRequest(by) {
  const group = page.model.groups.get(page.group);
  if (!group || !group.marks.length) return;
  const here = openMark ? group.marks.indexOf(openMark) : -1;
  const after = firstAfter(group.marks, page.moment ?? group.last);
  const place = here >= 0 ? here + by : by > 0 ? after : after - 1;
  openRequest(group.marks[Math.min(group.marks.length - 1, Math.max(0, place))]);
}

/** The error of an answer: the first that a field has. */
function errorOf(frames) {
  const codes = (frames.answer?.pieces ?? []).filter((each) => each.path.endsWith("error_code")).map((each) => parseInt(each.text, 10));
  return codes.find((code) => code !== 0) ?? 0;
}

/** What became of it, by Kafka's name. */
function outcome(error) {
  return error ? `${error}${ERROR_NAMES[error] ? ` ${ERROR_NAMES[error]}` : ""}` : "accepted";
}

/** Show a request: its `exchange` event, or null, and its frames, or null. */
function fillFrame(name, event, frames) {
  const panel = $("#frame");
  const title = element("h3", "", name);
  const parts = element("div", "frames");
  if (frames) {
    parts.append(frameOf("Request", frames.request));
    parts.append(frames.answer ? frameOf("Answer", frames.answer) : element("p", "", "It has no answer yet."));
  } else if (event) {
    parts.append(fieldsOf("Request", event.request), fieldsOf("Answer", event.answer));
  }
  const row = element("div", "row", ...(frames ? rowOf(frames) : event ? rowsOf(event) : []));
  const note = frames ? "" : !event ? "It is too long ago: only the newest requests are kept whole."
    : page.live || lesson.data || window.FRAMES ? "Its bytes are not kept."
    : "A trace has the fields of a request, not its bytes. A live server, a lesson, and kafka-shim replay JOURNAL --html FILE show them.";
  const buttons = element("p", "", button("Request before", () => stepRequest(-1)), " ", button("Next request", () => stepRequest(1)), " ",
    button("Close", () => { closeRequest(); $("#scene").focus(); }));
  panel.replaceChildren(title, ...(note ? [element("p", "faint", note)] : []), element("div", "beside", parts, row), buttons);
  panel.hidden = false;
}

/** A frame: its bytes and its fields; what is pointed at in one is lit in the other. */
function frameOf(name, frame) {
  const size = frame.hex.length / 2, wide = matchMedia("(max-width: 40rem)").matches ? 8 : 16;
  const bytes = element("div", "hex");
  let piece = 0;
  for (let start = 0; start < size; start += wide) {
    const line = element("div", "", element("span", "offset", start.toString(16).padStart(4, "0")));
    let at = start;
    while (at < Math.min(size, start + wide)) {
      while (frame.pieces[piece].end <= at) piece++;
      const end = Math.min(frame.pieces[piece].end, start + wide, size);
      const run = element("span", piece % 2 ? "odd" : "", frame.hex.slice(2 * at, 2 * end).match(/../g).join(" "));
      run.dataset.piece = String(piece);
      line.append(run);
      at = end;
    }
    bytes.append(line);
  }
  const fields = element("ol", "fields", ...frame.pieces.map((each, index) => {
    const field = element("button", "", element("span", "name", each.path.split(".").pop() || each.path), " ", element("span", "", each.text));
    field.type = "button";
    field.title = `${each.path}, bytes ${each.start} to ${each.end - 1}`;
    field.dataset.piece = String(index);
    // One stop for the tabulator; arrows go on from there.
    field.tabIndex = index ? -1 : 0;
    field.style.paddingLeft = `${0.4 + each.depth * 0.9}rem`;
    return element("li", "", field);
  }));
  const box = element("section", "frame", element("h4", "", `${name}, ${size} bytes`), element("div", "pair", bytes, fields));
  const light = (index) => {
    for (const each of box.querySelectorAll(".on")) each.classList.remove("on");
    for (const each of box.querySelectorAll(`[data-piece="${index}"]`)) each.classList.add("on");
  };
  const pointed = (event) => event.target.closest?.("[data-piece]")?.dataset.piece;
  box.addEventListener("pointerover", (event) => { if (pointed(event) !== undefined) light(pointed(event)); });
  box.addEventListener("focusin", (event) => { if (pointed(event) !== undefined) light(pointed(event)); });
  bytes.addEventListener("click", (event) => { fields.querySelector(`[data-piece="${pointed(event)}"]`)?.focus(); });
  fields.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const next = by && fields.querySelector(`[data-piece="${Number(pointed(event)) + by}"]`);
    if (!next) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  return box;
}

/** The fields of a message alone, as a trace has them. */
function fieldsOf(name, message) {
  const items = [];
  const walk = (value, path, depth) => {
    const nested = value !== null && typeof value === "object";
    const text = !nested ? String(value === "" ? "''" : value) : Array.isArray(value) ? `count ${value.length}` : "";
    if (path) {
      const line = element("span", "", element("span", "name", path), " ", text);
      line.style.paddingLeft = `${0.4 + depth * 0.9}rem`;
      items.push(element("li", "", line));
    }
    if (nested) for (const [key, each] of Object.entries(value)) walk(each, Array.isArray(value) ? `[${key}]` : key, depth + (path ? 1 : 0));
  };
  walk(message, "", 0);
  return element("section", "frame", element("h4", "", name), element("ol", "fields", ...items));
}

/** The row of the table that the request met, and what a client must be allowed. */
function rowOf(frames) {
  const made = [element("h4", "", "What answered it")];
  const row = frames.row;
  if (row === null) made.push(element("p", "", "No table of states decides what this request is answered."));
  else {
    made.push(element("p", "", `The table of ${row.table} has a row for it: ${row.name}.`));
    const lines = row.cells.map((cell) => {
      const head = element("th", "", cell.column), line = element("tr", cell.here ? "here" : "", head, element("td", "", cell.does));
      head.scope = "row";
      if (cell.here) line.setAttribute("aria-current", "true");
      return line;
    });
    made.push(element("table", "", element("tbody", "", ...lines)));
    if (row.does) {
      const guarded = frames.answer !== null && row.error !== errorOf(frames);
      made.push(element("p", "", row.does), ...(guarded ? [element("p", "faint", `A guard comes before the table: the answer is ${outcome(errorOf(frames))}, whatever the state.`)] : []));
    }
  }
  if (frames.concerns.length) made.push(element("p", "faint", `A client must be allowed: ${frames.concerns.join("; ")}.`));
  return made;
}

/** The rows that a request of a trace may have met, by its fields, its error and the state that it found. */
function rowsOf(event) {
  const group = page.model.groups.get(event.group), made = [element("h4", "", "What answered it")];
  const found = group?.stateAt(event.arrived + event.wall - event.mono) ?? null;
  if (found === null) return [...made, element("p", "faint", "The trace does not say in which state it found the group.")];
  if (found.kind !== "classic") return [...made, element("p", "", `It found the group ${found.to}.`)];
  const rules = new Map();
  for (const [trigger, row] of Object.entries(TABLE)) {
    const rule = row[found.to];
    if (!rule || RULES[rule].error !== event.error || !mayBe(trigger, event)) continue;
    rules.set(rule, [...(rules.get(rule) ?? []), trigger]);
  }
  if (!rules.size) return [...made, element("p", "", `It found the group ${found.to}. No row of the table answers ${outcome(event.error)} there: a guard before it did.`)];
  made.push(element("p", "", `It found the group ${found.to}. ${rules.size > 1 ? "A trace does not show by which of these rows it was answered:" : "This row of the table answered it:"}`));
  const lines = [...rules].map(([rule, triggers]) => {
    const head = element("th", "", triggers.join("; "));
    head.scope = "row";
    return element("tr", "", head, element("td", "", element("code", "", rule), `: ${RULES[rule].does}`));
  });
  return [...made, element("table", "", element("tbody", "", ...lines))];
}

/** Whether a request may be what a row of the table is about. */
function mayBe(trigger, { api, version, request }) {
  if (!trigger.startsWith(`${api} `) && trigger !== api) return false;
  if (api === "JoinGroup") {
    const [named, isStatic] = [request.member_id !== "", Boolean(request.group_instance_id)];
    if (named ? /without an id|takes a static/.test(trigger) : /with an id|of a follower|of the leader|protocols changed/.test(trigger)) return false;
    if (isStatic ? /dynamic/.test(trigger) : /with an instance|and an instance|and the instance|a static member/.test(trigger)) return false;
    return !(version < 4 ? /v4 and later/ : /before v4/).test(trigger);
  }
  if (api === "SyncGroup") return trigger.includes("follower") !== (request.assignments?.length > 0);
  if (api === "OffsetCommit" || api === "TxnOffsetCommit") {
    const without = (request.generation_id_or_member_epoch ?? request.generation_id) < 0;
    return trigger.includes("without a generation") === without || trigger.includes("says nothing");
  }
  return true;
}

let shownRequests = "";
/** The table of the requests around the chosen moment. */
function renderRequests(group) {
  if (!$("#requests").open) return;
  const at = page.moment ?? group.last;
  const middle = firstAfter(group.marks, at);
  const marks = group.marks.slice(Math.max(0, middle - AROUND), middle + AROUND);
  const key = [group.name, marks.length, marks[0]?.at, marks[marks.length - 1]?.at, openMark?.at, at].join();
  if (key === shownRequests) return;
  shownRequests = key;
  $("#requests-where").textContent = marks.length ? `Around ${clock(at)}. Click on the timeline for another moment.` : "No request is known: they are from the moment on at which somebody listens.";
  $("#request-list tbody").replaceChildren(...marks.map((mark) => {
    const line = row([button(clock(mark.at), () => openRequest(mark)), group.nameOf(mark.member), mark.api, outcome(mark.error)]);
    line.setAttribute("aria-selected", String(mark === openMark));
    return line;
  }));
}

$("#requests").addEventListener("toggle", redraw);

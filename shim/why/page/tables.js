// @ts-check
// Tables that are filled again and again: rows stay where their key stays, so that the focus in them survives.
"use strict";

/** Text, a number, an element, `{text, className}`, a button `{text, press}` or a cause `{cause, inferred}`. */
function fillCell(td, cell) {
  if (typeof cell === "number" || cell?.className) td.className = cell.className ?? "number";
  if (cell instanceof Node) {
    if (td.firstChild !== cell) td.replaceChildren(cell);
  } else if (cell?.press) {
    if (td.firstChild?.nodeName !== "BUTTON") td.replaceChildren(button("", null));
    td.firstChild.onclick = cell.press;
    if (td.textContent !== cell.text) td.firstChild.textContent = td.title = cell.text;
  } else if (cell?.cause) {
    if (td.textContent !== cell.cause) td.replaceChildren(chip(cell.cause, cell.inferred));
  } else {
    const text = String(cell?.text ?? cell);
    if (td.textContent !== text) td.textContent = text;
  }
}

function row(cells) {
  const tr = document.createElement("tr");
  for (const cell of cells) {
    const td = document.createElement("td");
    fillCell(td, cell);
    tr.append(td);
  }
  return tr;
}

/**
 * Fill a table with lines of `{key, cells, selected}`: the row of a key stays, and only what differs in it is written.
 */
function fillRows(tbody, lines) {
  const old = new Map([...tbody.rows].map((tr) => [tr.dataset.key, tr]));
  const focused = tbody.contains(document.activeElement) ? document.activeElement : null;
  lines.forEach((line, place) => {
    const key = String(line.key);
    let tr = old.get(key);
    old.delete(key);
    if (tr === undefined) {
      tr = row(line.cells);
      tr.dataset.key = key;
    } else line.cells.forEach((cell, number) => fillCell(tr.cells[number], cell));
    tr.setAttribute("aria-selected", String(line.selected === true));
    const there = tbody.rows[place] ?? null;
    if (there !== tr) tbody.insertBefore(tr, there);
  });
  for (const tr of old.values()) tr.remove();
  if (focused && focused !== document.activeElement && tbody.contains(focused)) focused.focus({ preventScroll: true });
}

function button(text, press) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.onclick = press;
  return made;
}

const CALM_CAUSES = new Set(["NEW_MEMBER", "MEMBER_LEFT", "COOPERATIVE_FOLLOWUP"]);

/** A cause; with a dotted edge if no coordinator told it. */
function chip(cause, inferred = false) {
  const made = document.createElement("span");
  made.className = CALM_CAUSES.has(cause) ? "chip" : "chip bad";
  if (inferred) {
    made.classList.add("inferred");
    made.title = "concluded from a log or by a relay";
  }
  made.textContent = cause;
  return made;
}

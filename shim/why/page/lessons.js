// @ts-check
// Lessons: each step asks what will happen, then shows it on the timeline and in the bytes. The server has played it.
"use strict";

/** The lesson that is open, how far it is, and which answer was taken; `revealed` once the step has happened. */
const lesson = { data: null, step: 0, revealed: false, answer: -1 };

/** The steps that the reader has seen, by lesson; a page in a file has no storage. */
function progress() {
  try { return JSON.parse(localStorage.getItem("lessons") ?? "{}"); } catch { return {}; }
}

/** Note that a step of the open lesson has been seen. */
function keepProgress() {
  const kept = progress(), { lesson: name, steps } = lesson.data;
  kept[name] = { seen: Math.max(kept[name]?.seen ?? 0, lesson.step + 1), of: steps.length };
  try { localStorage.setItem("lessons", JSON.stringify(kept)); } catch { return; }
  for (const each of $("#lesson-list").options) each.textContent = each.dataset.title + seenOf(each.value);
}

/** Return how far a lesson has been read, as an addition to its title. */
function seenOf(name) {
  const { seen, of } = progress()[name] ?? {};
  return !seen ? "" : seen >= of ? " – done" : ` – ${seen} of ${of} steps`;
}

function html(className, text) {
  const made = element("div", className);
  // The server renders it, and lets no markup through but that of Markdown.
  made.innerHTML = text;
  return made;
}

/** An address that begins a lesson. */
const LESSON_LINK = /^#lesson=([\w-]+)$/;

async function listLessons() {
  const answer = await fetch("/v1/lessons");
  if (!answer.ok) return;
  const { lessons } = await answer.json();
  $("#lesson-list").replaceChildren(...lessons.map((each) => {
    const title = `${each.number}  ${each.title} (${each.minutes} minutes)`, made = new Option(title + seenOf(each.lesson), each.lesson);
    made.dataset.title = title;
    return made;
  }));
  $("#lessons").hidden = false;
  const [, name] = location.hash.match(LESSON_LINK) ?? [];
  if (name) beginLesson(name);
}

async function beginLesson(name) {
  const answer = await fetch(`/v1/lessons/${encodeURIComponent(name)}`);
  if (!answer.ok) {
    $("#refused").textContent = `There is no lesson ${name}.`;
    return;
  }
  lesson.data = await answer.json();
  const frames = new Map(lesson.data.frames.map((each) => [numberOf(each), each]));
  disconnect();
  page.zero = 0;
  page.source = { ...NOWHERE, frames: async (event) => frames.get(numberOf(event)) ?? null };
  lesson.frames = frames;
  $("#lesson-list").value = name;
  writeAddress(`lesson=${name}`);
  // A lesson that was left goes on; one that is done begins again.
  const { seen = 0, of } = progress()[name] ?? {};
  goTo(seen < of && of === lesson.data.steps.length ? seen : 0, false);
}

/** Show the lesson at a step, before it happened or after. */
function goTo(step, revealed, answer = -1) {
  Object.assign(lesson, { step, revealed, answer });
  const { steps, title } = lesson.data;
  const model = new Model();
  // A lesson may go on to another group: the one that is shown is one of the newest step's.
  let groups = [];
  for (const each of steps.slice(0, step + (revealed ? 1 : 0))) {
    const heard = each.events.map((event) => model.hear(event, JSON.stringify(event))?.name).filter((name) => name);
    if (heard.length) groups = heard;
  }
  const chosen = page.group;
  show(model, `Lesson: ${title}`);
  if (groups.length) select(groups.includes(chosen) ? chosen : groups[groups.length - 1]);
  renderLesson();
  const [first] = revealed ? steps[step].bytes : [];
  if (first) openNumber(first);
}

/** Open the bytes of a request that the lesson is about. */
function openNumber(number) {
  const frames = lesson.frames.get(numberOf(number));
  if (!frames) return;
  for (const group of page.model.groups.values()) {
    const mark = group.marks.find((each) => each.line && numberOf(JSON.parse(each.line)) === numberOf(number));
    if (!mark) continue;
    if (group.name !== page.group) select(group.name);
    openRequest(mark);
    return;
  }
  fillFrame(`${frames.api} v${frames.version} of ${frames.client_id}: ${outcome(errorOf(frames))}`, null, frames);
}

function renderLesson() {
  const { data, step, revealed, answer } = lesson;
  const now = data.steps[step];
  const parts = [element("p", "faint", `Lesson ${data.number}, step ${step + 1} of ${data.steps.length}`), element("h2", "", data.title)];
  if (step === 0) parts.push(html("prose", data.intro));
  parts.push(element("h3", "", now.title), html("prose", now.before));
  if (now.ask) parts.push(question(now, revealed, answer));
  if (revealed) parts.push(...happened(now, answer));
  const buttons = [];
  if (step > 0 || revealed) buttons.push(button("Back", () => (revealed ? goTo(step, false) : goTo(step - 1, true))));
  if (!revealed) buttons.push(button(now.ask ? "See what happens" : "Let it happen", reveal));
  else if (step + 1 < data.steps.length) buttons.push(button("Next step", () => goTo(step + 1, false)));
  buttons.push(button("Leave the lesson", leaveLesson));
  if (revealed && step + 1 === data.steps.length) parts.push(sourcesOf(data));
  parts.push(element("p", "buttons", ...buttons));
  $("#lesson").replaceChildren(...parts);
  $("#lesson").hidden = false;
  $("main").classList.add("with-lesson");
  $("#lesson h3").tabIndex = -1;
  $("#lesson h3").focus();
}

function question(step, revealed, answer) {
  const options = step.options.map((option, number) => {
    const input = document.createElement("input");
    Object.assign(input, { type: "radio", name: "answer", value: String(number), disabled: revealed, checked: number === answer });
    const made = element("label", revealed && option.right ? "option right" : "option", input, " ", option.text);
    if (revealed && option.right) made.append(element("b", "", " (so it is)"));
    return made;
  });
  return element("fieldset", "", element("legend", "", step.ask), ...options);
}

function reveal() {
  const taken = $("#lesson input:checked");
  goTo(lesson.step, true, taken ? Number(taken.value) : -1);
  keepProgress();
}

function happened(step, answer) {
  const parts = [], right = step.options.find((option) => option.right);
  if (step.ask) {
    const taken = step.options[answer];
    const text = taken === right ? `Right: ${right.text}.` : taken ? `Not so. ${taken.reply}` : `What happens: ${right.text}.`;
    parts.push(element("p", "verdict", text));
  }
  parts.push(html("prose", step.after));
  if (step.story.length) parts.push(lines("What happened", step.story));
  if (step.requests.length) parts.push(lines("Requests", step.requests));
  if (step.bytes.length) {
    parts.push(element("p", "buttons", ...step.bytes.map((each) => {
      const { api, client_id } = lesson.frames.get(numberOf(each));
      return button(`Bytes of the ${api} of ${client_id}`, () => openNumber(each));
    })));
  }
  return parts;
}

function lines(title, all) {
  const made = element("pre", "", all.join("\n"));
  made.tabIndex = 0;
  return element("details", "", element("summary", "", `${title}, in lines`), made);
}

function sourcesOf(data) {
  const links = data.sources.map((source) => {
    const section = source.match(/^semantics (\d[\d.]*)$/)?.[1];
    if (!source.startsWith("https://") && !section) return element("li", "", source);
    const link = element("a", "", source);
    link.href = section ? `/semantics/${section[0]}#${section}` : source;
    return element("li", "", link);
  });
  return element("div", "sources", element("h4", "", "Sources"), element("ul", "", ...links));
}

function closeLesson() {
  lesson.data = null;
  page.zero = null;
  $("#lesson").hidden = true;
  $("main").classList.remove("with-lesson");
}

function leaveLesson() {
  closeLesson();
  history.replaceState(null, "", location.pathname);
  show(new Model(), "");
  connect();
  $("#lesson-list").focus();
}

$("#lessons form").addEventListener("submit", (event) => {
  event.preventDefault();
  beginLesson($("#lesson-list").value);
});
if (page.server) listLessons();

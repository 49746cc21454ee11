// @ts-check
// Where events come from: a server, traces that were dropped, or a trace that came with the page.
"use strict";

let explaining = false, asksAgain = false;
/** Ask `why` about the chosen group: once, and then once in two seconds at most while it goes on rebalancing. */
function explain() {
  if (!page.group || page.reading) return;
  asksAgain = explaining;
  if (explaining) return;
  explaining = true;
  setTimeout(() => {
    explaining = false;
    if (asksAgain) explain();
  }, 2000);
  explainNow();
}

/** What `why` says of the group; a trace that was dropped has nobody to say it. */
async function explainNow() {
  const why = await page.source.why(page.group);
  if (why === null || why.group !== page.group) return;
  page.why = why;
  const group = page.model.groups.get(page.group);
  if (group?.rebalances[page.selected]) fillDrawer(group, group.rebalances[page.selected]);
  redraw();
}

async function whyOnServer(group) {
  const answer = await fetch(`/v1/groups/${encodeURIComponent(group)}/why`).catch(() => null);
  return answer?.ok ? answer.json() : null;
}

// Where events come from

function take(line) {
  const event = JSON.parse(line);
  const group = page.model.hear(event, line);
  page.heard = Date.now();
  page.newest = event.seq;
  if (page.reading && event.seq >= page.reading) caughtUp();
  if (page.reading) {
    if (page.model.events % 5000 === 0) $("#source").textContent = `reading ${event.seq.toLocaleString()} of ${page.reading.toLocaleString()} events`;
    return;
  }
  labChanged();
  if (group === null) return;
  if (!page.group) select(group.name);
  const settled = event.event === "assignment" || (event.event === "state" && event.to === "Stable");
  if (settled && group.name === page.group) explain();
  redraw();
}

/** The past has been read: show the group that the address names, or else the one that was chosen, or the sickest. */
function caughtUp() {
  page.reading = 0;
  sayLive();
  if (!page.model.groups.has(page.group)) page.group = "";
  const before = page.group;
  if (!followLink() && !page.group && page.model.groups.size) select(sickest());
  // A choice asks by itself.
  if (page.group === before) explain();
  redraw();
}

let forgotten = "";
function sayLive() {
  $("#source").textContent = `live from ${location.host}${forgotten}`;
}

async function connect() {
  page.live = true;
  page.source = { frames: framesOnServer, why: whyOnServer };
  const known = await fetch("/v1/server").then((answer) => (answer.ok ? answer.json() : null), () => null);
  if (!page.live) return;
  if (known) sayServer(known);
  page.reading = known?.newest ?? 0;
  const stream = new EventSource("/v1/events?since=0&frames=true&form=batches");
  stream.onopen = async () => {
    // It begins with all that is kept, also after an interruption.
    page.model = new Model();
    page.newest = 0;
    if (page.lost) {
      page.reading = Infinity;
      const again = await fetch("/v1/server").then((answer) => answer.json(), () => null);
      if (again) sayServer(again);
      page.reading = again?.newest ?? 0;
    }
    lost(false);
    if (page.newest >= page.reading) caughtUp();
  };
  stream.onmessage = (message) => message.data.split("\n").forEach(take);
  stream.onerror = () => lost(true);
  page.stream = stream;
}

/** Say what the server has forgotten, and how a client finds it. */
function sayServer({ bootstrap, forgotten: ofGroups, forgotten_requests: ofRequests }) {
  const parts = [ofGroups ? `${ofGroups.toLocaleString()} old events` : "", ofRequests ? `${ofRequests.toLocaleString()} old requests` : ""].filter(Boolean);
  forgotten = parts.length ? `; it has forgotten ${parts.join(" and ")}` : "";
  const servers = bootstrap.split(",")[0];
  $("#none").replaceChildren("No group yet. Point a client at ", element("code", "", bootstrap), ", or drop a trace on this page. For example:",
    element("pre", "", `pip install kafka-python\npython -c "from kafka import KafkaConsumer; [print(m) for m in KafkaConsumer('orders', group_id='billing', bootstrap_servers='${servers}')]"`));
}

/** Whether the server is gone: what is shown is then old, and looks so. */
function lost(isLost) {
  page.lost = isLost;
  document.body.classList.toggle("stale", isLost);
  document.title = isLost ? "not connected: kafka-shim" : "kafka-shim";
  if (!isLost) sayLive();
  else $("#source").textContent = `not connected; ${page.heard ? `last heard at ${new Date(page.heard).toLocaleTimeString([], { hour12: false })}; ` : ""}trying again`;
}

async function framesOnServer(event) {
  const numbers = new URLSearchParams({ connection: event.conn, correlation_id: event.correlation_id, arrived: event.arrived });
  const answer = await fetch(`/v1/frames?${numbers}`).catch(() => null);
  return answer?.ok ? answer.json() : null;
}

async function unpacked(file) {
  const magic = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  if (magic.join() === "40,181,47,253") throw new Error(`is packed by zstd, which browsers do not unpack: ${commandFor("trace export", file.name, "trace.html")}.`);
  if (magic[0] !== 0x1f || magic[1] !== 0x8b) return file.text();
  return new Response(file.stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

/** A command with arguments, as it is typed into a shell. */
function commandLine(command, ...words) {
  return [command, ...words.map((word) => (/^[\w.+:\/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`))].join(" ");
}

const commandFor = (command, name, html) => `${commandLine(`kafka-shim ${command}`, name, "--html", html)} writes this page with it`;

const isJournal = (text) => /^\{"journal":/.test(text);

/** What there is in traces. Throws a sentence that names the file which is none. */
async function modelOf(files) {
  const model = new Model();
  for (const file of files) {
    try {
      const head = await file.slice(0, 64).text();
      const text = isJournal(head) ? head : await unpacked(file);
      // Its answers and events are made by the rules again, and those are in Python.
      if (isJournal(text)) throw new Error(`is a journal, which is replayed outside a browser: ${commandFor("replay", file.name, "run.html")}.`);
      const first = JSON.parse(text.slice(0, text.indexOf("\n") + 1) || text || "{}");
      if (typeof first?.event !== "string") throw new Error("is no trace: its first line is no event.");
      // What is being written may end in half a line.
      model.read(text.slice(0, text.lastIndexOf("\n") + 1) || text);
    } catch (error) {
      throw new Error(`${file.name} ${error instanceof SyntaxError ? "is no trace: a line of it is no JSON." : error.message}`);
    }
  }
  return model;
}

/** Hand what is in traces to `use`, with their names; or say why not, and leave all as it is. */
async function openFiles(files, use = openModel) {
  $("#refused").textContent = "";
  try {
    use(await modelOf(files), [...files].map((file) => file.name).join(", "));
  } catch (error) {
    $("#refused").textContent = error.message;
  }
}

function openModel(model, name) {
  disconnect();
  closeLesson();
  page.file = name;
  show(model, name);
}

/** Let go of the server: what is shown is from elsewhere. */
function disconnect() {
  page.stream?.close();
  page.live = false;
  page.reading = 0;
  lost(false);
  page.source = NOWHERE;
  page.file = "";
}

function show(model, name) {
  closeRequest();
  Object.assign(page, { model, group: "", selected: -1, moment: null, follow: true, why: null });
  shownGroups = shownGroup = "";
  $("#source").textContent = page.zero === null ? `${name}: ${model.events} events, ${model.groups.size} group${model.groups.size === 1 ? "" : "s"}` : name;
  const first = sickest();
  if (first !== undefined) select(first);
  else redraw();
}

/** A trace that came with the page, and bytes of its requests. */
async function openOwn() {
  const text = (base64) => unpacked(new Blob([Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))]));
  const model = new Model();
  model.read(await text(window.TRACE));
  const parsed = async (base64) => (base64 ? (await text(base64)).split("\n").filter((line) => line).map((line) => JSON.parse(line)) : []);
  const frames = new Map((await parsed(window.FRAMES)).map((each) => [numberOf(each), each]));
  const why = new Map((await parsed(window.WHY)).map((each) => [each.group, each]));
  page.source = { frames: async (event) => frames.get(numberOf(event)) ?? null, why: async (group) => why.get(group) ?? null };
  show(model, window.TRACE_NAME);
  followLink();
}

/** What a request is known by: on virtual time two may have come at the same moment, by the same number. */
const numberOf = (each) => `${each.connection ?? each.conn} ${each.correlation_id} ${each.arrived} ${each.api}`;

// @ts-check
// The laboratory of a server that runs with `--lab`: its clock, puppets, faults, barriers and brokers, by the control API.
"use strict";

/** The requests of consumers and producers. Any other name of an API can be typed too. */
const FAULTY_APIS = [
  "AddOffsetsToTxn", "ApiVersions", "ConsumerGroupHeartbeat", "EndTxn", "Fetch", "FindCoordinator", "Heartbeat", "InitProducerId", "JoinGroup", "LeaveGroup", "ListOffsets",
  "Metadata", "OffsetCommit", "OffsetFetch", "Produce", "ShareAcknowledge", "ShareFetch", "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "SyncGroup", "TxnOffsetCommit",
];

/** The answer of the control API; what it refuses is shown, and is null. */
async function ask(method, path, body) {
  const options = { method, headers: body ? { "Content-Type": "application/json" } : {}, body: body && JSON.stringify(body) };
  const answer = await fetch(path, options).catch(() => null);
  const found = answer === null ? { message: "The server does not answer." } : await answer.json();
  // A refusal stays until the next deed: what is only read must not wipe it away.
  if (!answer?.ok || method !== "GET") $("#lab-refused").textContent = answer?.ok ? "" : found.message;
  return answer?.ok ? found : null;
}

// Deeds reach the server in their order: two requests at once may overtake each other.
let deeds = Promise.resolve();

/** Do something, then show the laboratory as it is now. */
async function act(method, path, body) {
  const deed = () => ask(method, path, body);
  await (deeds = deeds.then(deed, deed));
  await renderLab();
}

function acts(...buttons) {
  const cell = document.createElement("span");
  cell.append(...buttons);
  return cell;
}

let renders = 0;

async function renderLab() {
  const render = ++renders;
  const parts = await Promise.all(["clock", "puppets", "faults", "barriers", "brokers"].map((name) => ask("GET", `/v1/${name}`)));
  // An older answer may come after a newer one.
  if (parts.includes(null) || render !== renders) return;
  const [clock, puppets, faults, barriers, brokers] = parts;
  const ahead = clock.wall - Date.now() / 1000;
  page.wall = clock.frozen ? () => clock.wall : () => Date.now() / 1000 + ahead;
  const due = clock.due === null ? "no timer is armed" : `the next timer fires in ${seconds(Math.max(0, clock.due - clock.now))}`;
  $("#clock").textContent = `${clock.frozen ? "Time stands still" : "Time runs"}; ${due}.`;
  $("#freeze").textContent = clock.frozen ? "Let time run" : "Freeze time";
  $("#freeze").onclick = () => act("POST", "/v1/clock", { frozen: !clock.frozen });
  $("#next-timer").disabled = clock.due === null;
  const lines = [];
  for (const each of puppets.puppets) {
    const path = `/v1/puppets/${each.puppet}`;
    lines.push([each.kind === "classic" ? "puppet" : `puppet (${each.kind})`, `${each.client_id} in ${each.group}`, acts(...["join", "leave", "crash", "silence"].map((deed) => button(deed, () => act("POST", path, { do: deed }))))]);
  }
  for (const each of faults.faults) {
    lines.push(["fault", `${each.action} ${each.api ?? "any request"}, happened: ${each.fired}`, acts(button("remove", () => act("DELETE", `/v1/faults/${each.fault}`)))]);
  }
  for (const each of barriers.barriers) {
    const path = `/v1/barriers/${each.barrier}`;
    lines.push(["barrier", `${each.point}, holds ${each.held.length}`, acts(
      button("let one go", () => act("POST", `${path}/release`, { requests: 1 })), button("remove", () => act("DELETE", path)))]);
  }
  for (const each of brokers.brokers) {
    const path = `/v1/brokers/${each.broker}`;
    lines.push(["broker", `${each.broker} at ${each.host}:${each.port}, ${each.up ? "up" : "down"}`, acts(
      ...(each.up ? ["stop", "kill"] : ["restart"]).map((deed) => button(deed, () => act("POST", path, { do: deed }))))]);
  }
  const focused = document.activeElement, place = [...document.querySelectorAll("#lab-table button")].indexOf(focused);
  $("#lab-table tbody").replaceChildren(...lines.map((line) => row(line)));
  if (place >= 0) document.querySelectorAll("#lab-table button")[place]?.focus();
  renderSandboxes();
}

/** Say what a barrier or a fault stops, before it does. */
function warnOf(group, deed) {
  const groups = group ? [page.model.groups.get(group)].filter(Boolean) : [...page.model.groups.values()];
  const members = groups.reduce((sum, each) => sum + each.present.length, 0);
  $("#lab-warning").textContent = members ? `${deed} ${group ? `the group ${group}` : `${groups.length} group${groups.length === 1 ? "" : "s"}`}, for ${members} member${members === 1 ? "" : "s"}.` : "";
}

function warn() {
  const barrier = $("#lab-barrier").elements, fault = $("#lab-fault").elements;
  if (document.activeElement?.form === $("#lab-barrier")) warnOf(barrier.group.value, "Hold requests stops");
  else if (document.activeElement?.form === $("#lab-fault")) warnOf(fault.group.value, `Add a fault disturbs ${fault.api.value || "every request"} of`);
  else $("#lab-warning").textContent = "";
}

/** Fills a choice with these values, the first or `chosen` selected. */
function fill(id, values, chosen) {
  $(id).replaceChildren(...values.map((value) => new Option(value, value, value === chosen, value === chosen)));
}

/** Offers the actions of faults and the points of barriers that the server describes. */
function offerDescribed({ components: { schemas }, paths }) {
  const { mapping } = paths["/v1/faults"].post.requestBody.content["application/json"].schema.discriminator;
  const bodyOf = (action) => schemas[mapping[action].split("/").at(-1)];
  const own = [...document.querySelectorAll("#lab-fault .own")];
  fill("#lab-action", Object.keys(mapping));
  const { enum: moments, default: moment } = bodyOf("close").properties.when;
  fill("#lab-when", moments, moment);
  // Every action takes the error of the answers that it is for; only where it must be given is it asked for.
  const show = () => {
    const { required, properties } = bodyOf($("#lab-action").value);
    for (const input of own) {
      const { name } = input;
      input.disabled = input.parentElement.hidden = !(required.includes(name) || (name !== "error" && name in properties));
    }
  };
  $("#lab-action").addEventListener("change", show);
  show();
  const { api, point } = schemas.CreateBarrier.properties;
  fill("#lab-point", point.enum.filter((each) => !api.enum.includes(each)));
}

function form(id, send) {
  $(id).addEventListener("submit", (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    send(Object.fromEntries(Object.entries(given).filter(([, value]) => value !== "")));
  });
}

/** Shows the laboratory, where the server has one. */
async function openLab() {
  if (!page.server || !("lab" in document.documentElement.dataset)) return;
  const described = await ask("GET", "/v1/openapi.json");
  if (described === null) return;
  offerDescribed(described);
  const topics = (await ask("GET", "/v1/topics"))?.topics ?? [];
  fill("#lab-apis", FAULTY_APIS);
  fill("#lab-errors", Object.values(ERROR_NAMES).filter((name) => name !== "NONE"));
  for (const id of ["#lab-barrier", "#lab-fault"]) for (const kind of ["focusin", "input", "focusout"]) $(id).addEventListener(kind, () => setTimeout(warn));
  $("#lab-topics").value = topics.length ? topics[0].topic : "";
  $("#next-timer").onclick = () => act("POST", "/v1/clock", { next_timer: true });
  form("#lab-advance", (given) => act("POST", "/v1/clock", { advance: Number(given.seconds) }));
  // Members of other kinds of groups do not assign.
  $("#lab-kind").addEventListener("change", () => ($("#lab-puppet [name=protocols]").disabled = $("#lab-kind").value !== "classic"));
  form("#lab-puppet", (given) => {
    const protocols = given.protocols ? { protocols: [given.protocols] } : {};
    act("POST", "/v1/puppets", { ...given, topics: given.topics.split(/[ ,]+/), ...protocols });
  });
  form("#lab-fault", (given) => {
    for (const name of ["seconds", "bytes_per_second"]) if (name in given) given[name] = Number(given[name]);
    if ("applied" in given) given.applied = true;
    // A fault that never happens fails a test; here nobody claims that it will.
    act("POST", "/v1/faults", { ...given, optional: true });
  });
  form("#lab-barrier", (given) => act("POST", "/v1/barriers", given));
  $("#lab").addEventListener("toggle", renderLab);
  await renderLab();
  $("#lab").hidden = false;
}

// What events change shows without being asked for, twice a second at most.
let labDue = false;
function labChanged() {
  if (labDue || !$("#lab").open) return;
  labDue = true;
  setTimeout(() => {
    labDue = false;
    renderLab();
  }, 500);
}

openLab();

// @ts-check
// What the events of docs/trace.md amount to: groups, lanes of members, rebalances. It draws nothing.
"use strict";

const UUID_LENGTH = 36, SHORT_UUID_LENGTH = 22;
/** Marks of one live group whose events are kept whole, and marks of accepted heartbeats. */
const KEPT_LINES = 5000, KEPT_QUIET = 2000;
/** INCONSISTENT_GROUP_PROTOCOL, INVALID_SESSION_TIMEOUT, GROUP_AUTHORIZATION_FAILED, GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID. */
const REFUSALS = new Set([23, 26, 30, 81, 82]);
/** Partitions of all rebalances of a group whose owners before and after are kept. */
const KEPT_CELLS = 200000;
/** The member epochs of a static member that is away, and of one that leaves. */
const AWAY = -2, LEAVES = -1;
const UNKNOWN_MEMBER_ID = 25;
/** The heartbeat interval of classic members by default, in seconds; and a phase that no member brings about. */
const HEARTBEAT = 3, INTERVAL = "waiting for the assignment interval";
/** The kinds of groups that have epochs, and members with a target; an event's `rule` names them. A streams group has tasks. */
const WITH_EPOCHS = new Set(["consumer", "share", "streams"]);
/** Events about a rebalance: a log has a place for each. */
const OF_REBALANCES = new Set(["state", "round", "assignment", "epoch", "target"]);

/** A group as its events tell it. Times are seconds of Unix time. */
class Group {
  /** @param {string} name */
  constructor(name) {
    this.name = name;
    this.state = "";
    /** @type {{at: number, to: string, kind: string, made?: boolean}[]} the states it has been in */
    this.states = [];
    this.protocol = "";
    this.generation = -1;
    /** "classic", "registered", or one of WITH_EPOCHS */
    this.kind = "classic";
    /** @type {Map<string, any>} members by id, in the order in which they came */
    this.members = new Map();
    /** @type {any[]} rebalances, oldest first */
    this.rebalances = [];
    /** @type {any[]} marks: {member, at, api, error, line, quiet} in order of time; `line` is the event as JSON, or "" */
    this.marks = [];
    this.quiet = 0;
    /** The heartbeat interval of a group with epochs, in seconds. */
    this.heartbeat = 5;
    /** Counts requests to join that were refused. */
    this.refused = 0;
    this.cells = 0;
    /** @type {Map<string, string>} who owned each partition last */
    this.owners = new Map();
    /** @type {Map<string, number>} committed offsets, by partition */
    this.committed = new Map();
    /** @type {any[]} the nodes of a streams application, if it has described them */
    this.topology = [];
    this.first = Infinity;
    this.last = -Infinity;
    this.names = new Map();
    /** @type {Map<string, number>} how many members have a name, before its number */
    this.counts = new Map();
    /** @type {Set<string>} ids of members with a session that a test ended */
    this.endedByTest = new Set();
    /** Counts what the tables show. */
    this.changes = 0;
  }

  /** @param {string} id @param {string} client its client id or group instance id, if its own id is a UUID alone */
  nameOf(id, client = "") {
    let name = this.names.get(id);
    if (name === undefined) {
      const bare = client && (id.length === UUID_LENGTH || id.length === SHORT_UUID_LENGTH);
      const base = bare ? client : id.length > UUID_LENGTH + 1 ? id.slice(0, -UUID_LENGTH - 1) : id;
      const count = (this.counts.get(base) || 0) + 1;
      this.counts.set(base, count);
      name = count > 1 ? `${base}#${count}` : base;
      this.names.set(id, name);
    }
    return name;
  }

  /** The state that a request found, as far as the trace has it: that of before it came, or of a group that it made. */
  stateAt(at) {
    const found = this.states.findLast((each) => each.at < at - 1e-6);
    return found ?? (this.states[0]?.made ? this.states[0] : null);
  }

  get hasEpochs() {
    return WITH_EPOCHS.has(this.kind);
  }

  get present() {
    return [...this.members.values()].filter((member) => member.left === null);
  }

  /** @param {string} id @param {number} at @param {string} client */
  member(id, at, client = "") {
    let member = this.members.get(id);
    if (member === undefined) {
      member = {
        id, name: this.nameOf(id, client), host: "", instance: null, joined: at, left: null, how: "", pauses: [], segments: [], owned: [], before: [],
        epoch: null, state: "", revoking: [], target: null, waits: [],
      };
      this.members.set(id, member);
    }
    return member;
  }

  /** @param {any} event @param {string} line the same as JSON */
  add(event, line = "") {
    const at = event.wall;
    const shift = event.wall - event.mono;
    this.first = Math.min(this.first, at);
    this.last = Math.max(this.last, at);
    if (event.event !== "exchange" || event.api === "SyncGroup") this.changes++;
    if (event.event === "state" || event.event === "member") {
      this.kind = WITH_EPOCHS.has(event.rule) || event.rule === "registered" ? event.rule : "classic";
    }
    switch (event.event) {
      case "group":
        this.state = event.state;
        this.states.push({ at, to: event.state, kind: this.kind, made: event.change === "created" });
        this.generation = event.generation;
        if (event.change === "deleted" || event.change === "expired") Object.assign(this, { kind: "classic", topology: [] });
        break;
      case "state":
        this.state = event.to;
        this.states.push({ at, to: event.to, kind: this.kind });
        this.generation = event.generation;
        if (event.to === "PreparingRebalance") this.begin(event, at, event.from === "Empty");
        if (event.to === "Stable") this.settle(at);
        if (event.to === "Empty") this.emptied(event, at);
        if (event.to === "Empty") for (const member of this.members.values()) this.own(member, [], at);
        break;
      case "member":
        this.changed(event, at);
        break;
      case "intervention":
        if (event.change === "expired") this.endedByTest.add(event.member_id);
        break;
      case "epoch":
        this.epoch(event, at);
        break;
      case "target":
        this.targeted(event, at);
        break;
      case "reconciliation":
        this.reconciled(event, at);
        break;
      case "round":
        this.round(event, shift);
        break;
      case "assignment":
        this.assigned(event, at);
        break;
      case "exchange":
        this.exchanged(event, at, line);
        break;
    }
    const current = this.rebalances[this.rebalances.length - 1];
    if (current && event.where !== undefined && OF_REBALANCES.has(event.event)) current.lines = [current.lines[0] ?? event.where, event.where];
  }

  /** Nobody is left who could join. */
  emptied(event, at) {
    const current = this.rebalances[this.rebalances.length - 1];
    if (current && !current.epoch && current.generation === null) Object.assign(current, { generation: event.generation, ended: at });
  }

  begin(event, at, initial) {
    this.rebalances.push({
      cause: event.cause || "unknown", byTest: event.cause === "SESSION_EXPIRED" && this.endedByTest.has(event.trigger), trigger: event.trigger, started: at, ended: null, assigned: null, synced: null, initial,
      before: this.generation, generation: null, leader: "", waits: [], dropped: [], members: [], moved: null, division: null, resumed: new Set(), seq: event.seq,
      inferred: Boolean(event.inferred), lines: event.where === undefined ? [] : [event.where],
    });
    return this.rebalances[this.rebalances.length - 1];
  }

  changed(event, at) {
    if (event.change === "pending" || event.change === "refused") return;
    const member = this.member(event.member_id, at, event.instance_id || event.client_id);
    member.host = (event.client_host || "").replace("/", "") || member.host;
    member.instance = event.instance_id;
    if (["added", "replaced", "loaded"].includes(event.change)) {
      this.endedByTest.delete(member.id);
      const stayed = member.how === "left" && member.interval > 0 && member.left - (member.since ?? member.joined) >= 0.9 * member.interval;
      if (member.leavesLate || stayed) this.missedPoll(member);
      member.since = at;
      member.left = null;
      const place = event.change === "replaced" && [...this.members.values()].find((each) => each.how === "fenced" && each.instance === event.instance_id);
      if (place) member.target = place.target;
    } else {
      member.left = at;
      const current = this.rebalances[this.rebalances.length - 1];
      if (current?.epoch && current.assigned === null && member.revoking.length) current.released = { member: member.id, at };
      member.revoking = [];
      member.how = event.change;
      this.own(member, [], at);
      // A relay writes no `state` event of a classic group.
      if (!this.states.length && !this.hasEpochs && !this.present.length) this.state = "Empty";
    }
  }

  /** As `kafka_shim.why` has it: a member that comes back under its id had not polled in time. */
  missedPoll(member) {
    member.leavesLate = false;
    const rebalance = this.rebalances.findLast((each) => each.trigger === member.id && ["SESSION_EXPIRED", "MEMBER_LEFT"].includes(each.cause));
    if (rebalance) rebalance.cause = "POLL_TIMEOUT_REASON";
  }

  // A consumer group (KIP-848): a rebalance is from a new epoch until all members are stable at it

  epoch(event, at) {
    if (!this.hasEpochs) this.kind = "consumer";
    const before = this.rebalances[this.rebalances.length - 1];
    if (before && before.assigned === null) {
      const holder = this.present.find((member) => member.revoking.length);
      if (before.epoch && holder) before.released = { member: holder.id, at };
      before.ended ??= at;
    }
    const current = this.begin(event, at, this.present.length === 1 && this.present[0].id === event.trigger);
    Object.assign(current, { epoch: true, generation: event.generation, before: event.generation - 1, due: at + (event.waits_ms ?? 0) / 1000, targeted: null, released: null, settled: new Map(), waited: [] });
    current.members = this.present.map((member) => member.id);
    this.generation = event.generation;
    if (!current.members.length) current.assigned = current.ended = at;
  }

  targeted(event, at) {
    const current = this.rebalances[this.rebalances.length - 1];
    this.protocol = event.assignor;
    for (const [id, topics] of Object.entries(event.assignments)) this.member(id, at).target = partitionsOf(topics);
    if (!current?.epoch || current.targeted !== null) return;
    current.targeted = at;
    // A log does not have the assignments.
    if (event.where !== undefined && !event.where.startsWith("__consumer_offsets-")) return;
    current.moved = 0;
    const rows = [];
    for (const member of this.present) {
      for (const [topic, partition] of member.target ?? []) {
        const key = `${topic} ${partition}`, last = this.owners.get(key);
        rows.push([key, last, member.id]);
        if (last !== undefined && last !== member.id) current.moved++;
      }
    }
    this.divided(current, rows, this.present.map((member) => member.id));
  }

  reconciled(event, at) {
    const member = this.member(event.member_id, at);
    const current = this.rebalances[this.rebalances.length - 1];
    const gaveUp = member.revoking.length > 0 && !Object.keys(event.revoking).length;
    Object.assign(member, { epoch: event.generation, state: event.state, revoking: partitionsOf(event.revoking), owned: partitionsOf(event.assigned), waits: event.waits_for });
    const keys = [...member.owned, ...member.revoking].map(([topic, partition]) => `${topic} ${partition}`).sort();
    this.own(member, keys, at);
    for (const [topic, partition] of member.owned) this.owners.set(`${topic} ${partition}`, member.id);
    const pause = member.pauses[member.pauses.length - 1];
    if (member.revoking.length && !(pause && pause.to === null)) member.pauses.push({ from: at, to: null });
    if (!member.revoking.length && pause && pause.to === null) pause.to = at;
    if (!current?.epoch || current.assigned !== null || event.generation === AWAY) return;
    if (gaveUp) current.released = { member: member.id, at };
    for (const holder of event.waits_for) {
      if (!current.waited.some(([who, whom]) => who === member.id && whom === holder)) current.waited.push([member.id, holder]);
    }
    if (event.state === "STABLE" && event.generation === current.generation) current.settled.set(member.id, at);
    if (this.present.every((each) => current.settled.has(each.id))) this.settle(at);
  }

  settle(at) {
    const current = this.rebalances[this.rebalances.length - 1];
    if (current?.epoch && current.assigned === null) current.assigned = current.ended = at;
  }

  round(event, shift) {
    let current = this.rebalances[this.rebalances.length - 1];
    if (current === undefined || current.ended !== null) {
      // A relay writes no `state` event: the round is the first that is known of the rebalance.
      current = this.begin(event, event.started + shift, this.generation === -1);
    }
    Object.assign(current, {
      ended: event.ended + shift, generation: event.generation, leader: event.leader, dropped: event.dropped,
      members: event.members, waits: event.waited_for.map((each) => ({ member: each.member_id, seconds: each.ms / 1000 })),
    });
    this.generation = event.generation;
    this.protocol = event.protocol || "";
    if (!this.protocol.includes("cooperative")) {
      for (const wait of current.waits) {
        const stop = current.started + wait.seconds;
        const member = this.member(wait.member, stop);
        if (member.segments.length) member.pauses.push({ from: stop, to: null });
        this.own(member, [], stop);
      }
    }
    for (const member of this.members.values()) if (!event.members.includes(member.id)) this.own(member, [], current.ended);
  }

  assigned(event, at) {
    const current = this.rebalances[this.rebalances.length - 1];
    const rows = [];
    let moved = 0;
    for (const [id, topics] of Object.entries(event.assignments)) {
      const member = this.member(id, at);
      member.before = member.owned;
      member.owned = [];
      if (typeof topics !== "number") {
        for (const [topic, partitions] of Object.entries(topics)) for (const partition of partitions) member.owned.push([topic, partition]);
      }
      const keys = member.owned.map(([topic, partition]) => `${topic} ${partition}`).sort();
      for (const key of keys) {
        const last = this.owners.get(key);
        rows.push([key, last, id]);
        if (last !== undefined && last !== id) moved++;
        this.owners.set(key, id);
      }
      this.own(member, keys, at);
      const pause = member.pauses[member.pauses.length - 1];
      if (pause && pause.to === null) pause.to = at;
    }
    if (current && current.generation === event.generation) {
      current.assigned = at;
      // A log does not have the assignments.
      const isThere = event.where === undefined || Object.keys(event.assignments).length > 0;
      current.moved = isThere ? moved : null;
      if (isThere) this.divided(current, rows, current.members.length ? current.members : Object.keys(event.assignments));
    }
    this.state = "Stable";
  }

  /** Keep what a rebalance made of the assignment; of the oldest ones no more than the numbers, once there is much. */
  divided(rebalance, rows, members) {
    rebalance.division = { rows, members };
    this.cells += rows.length;
    for (const each of this.rebalances) {
      if (this.cells <= KEPT_CELLS || each === rebalance) break;
      if (each.division) this.cells -= each.division.rows.length;
      each.division = null;
    }
  }

  /** From `at` on a member owns these partitions: a segment of its lane. */
  own(member, keys, at) {
    const last = member.segments[member.segments.length - 1];
    const open = last !== undefined && last.to === null;
    if (open && last.keys.join() === keys.join()) return;
    if (open) last.to = Math.max(at, last.from);
    if (keys.length) member.segments.push({ from: at, to: null, keys });
  }

  exchanged(event, at, line) {
    // The first join of a member is answered MEMBER_ID_REQUIRED, and a commit may be late: neither is trouble.
    if (REFUSALS.has(event.error) && event.api !== "OffsetCommit") this.refused += 1;
    if (event.api === "StreamsGroupTopologyDescriptionUpdate" && !event.error) this.topology = nodesOf(event.request.topology_description);
    if (!event.member) return;
    if (event.api === "ConsumerGroupHeartbeat") {
      if (!event.error && event.answer) this.heartbeat = event.answer.heartbeat_interval_ms / 1000 || this.heartbeat;
      const sender = this.members.get(event.member);
      if (sender && event.request.rebalance_timeout_ms >= 0) sender.interval = event.request.rebalance_timeout_ms / 1000;
      if (event.error === UNKNOWN_MEMBER_ID && sender?.how === "expired" && event.request.member_epoch === LEAVES) sender.leavesLate = true;
    }
    if (event.api.endsWith("Heartbeat")) this.waits(event, at);
    const quiet = isQuiet(event);
    this.marks.push({ member: event.member, at, api: event.api, error: event.error, line, quiet });
    if (quiet && ++this.quiet > 2 * KEPT_QUIET) this.forgetQuiet();
    const current = this.rebalances[this.rebalances.length - 1];
    const synced = event.api === "SyncGroup" && !event.error && current && event.request.generation_id === current.generation;
    // A member that syncs again, or came after the round, delayed nobody.
    if (synced && current.members.includes(event.member) && !current.resumed.has(event.member)) {
      current.resumed.add(event.member);
      current.synced = at;
    }
  }

  /** An answer that a relay has seen, with an older epoch and no assignment: the target still waits for the interval. */
  waits({ member, error, request, answer }, at) {
    const current = this.rebalances[this.rebalances.length - 1];
    if (error || !current?.inferred || current.targeted !== null || !(request.member_epoch > 0)) return;
    const assignment = answer.assignment ?? answer.active_tasks ?? null;
    const older = answer.member_epoch > 0 && answer.member_epoch < current.generation;
    if (older && assignment === null && !this.members.get(member)?.revoking.length) current.due = at;
  }

  forgetQuiet() {
    let over = this.quiet - KEPT_QUIET;
    this.quiet = KEPT_QUIET;
    this.marks = this.marks.filter((mark) => !mark.quiet || over-- <= 0);
  }
}

const NODE_TYPES = ["", "source", "processor", "sink"];

/** The nodes of a topology as a streams application described it (KIP-1331); those of global stores have no subtopology. */
function nodesOf({ subtopologies, global_stores }) {
  const all = subtopologies.flatMap((each) => each.nodes.map((node) => [each.subtopology_id, node]))
    .concat(global_stores.flatMap((each) => [["", each.source], ["", each.processor]]));
  return all.map(([subtopology, node]) => ({
    subtopology, name: node.name, type: NODE_TYPES[node.node_type] ?? "", stores: node.stores, next: node.successors,
    topics: node.sink_topic == null ? node.source_topics : [...node.source_topics, node.sink_topic],
  }));
}

/** Whether an `exchange` is a heartbeat that was accepted and said nothing new, either way. */
function isQuiet({ api, error, request, answer }) {
  if (error || !api.endsWith("Heartbeat")) return false;
  const said = request.topic_partitions ?? request.active_tasks ?? request.subscribed_topic_names ?? answer.assignment ?? answer.active_tasks;
  return api === "Heartbeat" || (request.member_epoch > 0 && (said ?? null) === null);
}

/** The phases of a rebalance, disjoint; they add up to its time. As `kafka_shim.why` has them. */
function phasesOf(rebalance, now) {
  if (rebalance.epoch) return phasesOfEpoch(rebalance, now);
  const over = rebalance.assigned === null ? rebalance.ended ?? now : Math.max(rebalance.assigned, rebalance.synced ?? 0);
  const ended = Math.min(rebalance.ended ?? over, over);
  const assigned = Math.min(rebalance.assigned ?? over, over);
  const last = rebalance.waits[0];
  const waited = Math.min(last ? last.seconds : 0, ended - rebalance.started);
  const phases = [];
  if (rebalance.initial) {
    phases.push({ name: "initial delay", seconds: ended - rebalance.started, member: "" });
  } else if (rebalance.dropped.length && ended - rebalance.started - waited > 0.2) {
    phases.push({ name: "waiting for members", seconds: waited, member: last ? last.member : "" });
    phases.push({ name: "waiting in vain", seconds: ended - rebalance.started - waited, member: rebalance.dropped[0] });
  } else {
    phases.push({ name: "waiting for members", seconds: ended - rebalance.started, member: last ? last.member : "" });
  }
  phases.push({ name: "leader thinks", seconds: assigned - ended, member: rebalance.leader });
  phases.push({ name: "waiting for syncs", seconds: over - assigned, member: "" });
  return phases.filter((phase) => phase.seconds > 0);
}

/** The phases of a rebalance of a consumer group. */
function phasesOfEpoch(rebalance, now) {
  const over = rebalance.assigned ?? rebalance.ended ?? now;
  const targeted = Math.min(rebalance.targeted ?? over, over);
  const due = Math.min(rebalance.due, targeted);
  const phases = [
    { name: INTERVAL, seconds: due - rebalance.started, member: "" },
    { name: "waiting for any heartbeat", seconds: targeted - due, member: "" },
  ];
  let given = targeted;
  if (rebalance.released !== null) {
    given = Math.min(Math.max(rebalance.released.at, targeted), over);
    phases.push({ name: "waiting for revocation", seconds: given - targeted, member: rebalance.released.member });
  }
  const late = [...rebalance.settled].reduce((a, b) => (b[1] >= a[1] ? b : a), ["", 0]);
  phases.push({ name: "waiting for heartbeats", seconds: over - given, member: late[0] });
  return phases.filter((phase) => phase.seconds > 0);
}

/** Pairs of topic and partition. */
function partitionsOf(topics) {
  return Object.entries(topics).flatMap(([topic, partitions]) => partitions.map((partition) => [topic, partition]));
}

/** All groups of a trace or of a running coordinator. */
class Model {
  constructor() {
    /** @type {Map<string, Group>} */
    this.groups = new Map();
    this.events = 0;
    /** @type {Map<string, any>} armed timers: {group, member, kind, at} */
    this.timers = new Map();
    /** @type {Map<string, number>} where partitions end */
    this.ends = new Map();
  }

  /** By partition, how many records a group is behind, as far as events say it. */
  lagsOf(group) {
    // Every frame asks.
    if (group.lags?.events !== this.events) {
      // An end may be older than a commit, so a trace cannot tell an offset beyond the end.
      const known = [...group.committed].filter(([key]) => this.ends.has(key));
      group.lags = { events: this.events, of: new Map(known.map(([key, offset]) => [key, Math.max(0, this.ends.get(key) - offset)])) };
    }
    return group.lags.of;
  }

  timed(event) {
    const key = `${event.kind} ${event.group} ${event.member_id}`;
    if (event.change !== "armed") this.timers.delete(key);
    else this.timers.set(key, { group: event.group, member: event.member_id, kind: event.kind, at: event.deadline + event.wall - event.mono });
  }

  /** @param {any} event @param {string} line the same as JSON */
  add(event, line = "") {
    this.events++;
    if (event.event === "timer") this.timed(event);
    if (event.event === "end_offsets") for (const each of event.offsets) this.ends.set(`${each.topic} ${each.partition}`, each.offset);
    if (!event.group || event.event === "timer" || event.event === "parked") return null;
    if (event.event === "commit") {
      const committed = this.groups.get(event.group)?.committed;
      for (const each of event.offsets) committed?.set(`${each.topic} ${each.partition}`, each.offset);
      return null;
    }
    let group = this.groups.get(event.group);
    if (group === undefined) this.groups.set(event.group, (group = new Group(event.group)));
    group.add(event, line);
    return group;
  }

  /** An event of a running coordinator. */
  hear(event, line) {
    const group = this.add(event, line);
    const old = group && group.marks[group.marks.length - 1 - KEPT_LINES];
    if (old) old.line = "";
    return group;
  }

  /** @param {string} text lines of a trace */
  read(text) {
    let from = 0;
    while (from < text.length) {
      let to = text.indexOf("\n", from);
      if (to < 0) to = text.length;
      const line = text.slice(from, to);
      from = to + 1;
      // Accepted heartbeats are most of a trace, and none is drawn.
      const accepted = line.includes('"api":"Heartbeat"') && line.includes('"error":0');
      if (line && !accepted) this.add(JSON.parse(line), line);
    }
  }
}

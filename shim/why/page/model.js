// @ts-check
// What the events of docs/trace.md amount to: groups, lanes of members, rebalances. It draws nothing.
"use strict";

const UUID_LENGTH = 36;

/** A group as its events tell it. Times are seconds of Unix time. */
class Group {
  /** @param {string} name */
  constructor(name) {
    this.name = name;
    this.state = "";
    this.protocol = "";
    this.generation = -1;
    /** @type {Map<string, any>} members by id, in the order in which they came */
    this.members = new Map();
    /** @type {any[]} rebalances, oldest first */
    this.rebalances = [];
    /** @type {any[]} marks: {member, at, api, error} in order of time */
    this.marks = [];
    /** @type {Map<string, string>} who owned each partition last */
    this.owners = new Map();
    this.first = Infinity;
    this.last = -Infinity;
    this.names = new Map();
    /** @type {Map<string, number>} how many members have a name, before its number */
    this.counts = new Map();
    /** Counts what the tables show. */
    this.changes = 0;
  }

  /** @param {string} id */
  nameOf(id) {
    let name = this.names.get(id);
    if (name === undefined) {
      const base = id.length > UUID_LENGTH + 1 ? id.slice(0, -UUID_LENGTH - 1) : id;
      const count = (this.counts.get(base) || 0) + 1;
      this.counts.set(base, count);
      name = count > 1 ? `${base}#${count}` : base;
      this.names.set(id, name);
    }
    return name;
  }

  get present() {
    return [...this.members.values()].filter((member) => member.left === null);
  }

  /** @param {string} id @param {number} at */
  member(id, at) {
    let member = this.members.get(id);
    if (member === undefined) {
      member = { id, name: this.nameOf(id), host: "", instance: null, joined: at, left: null, how: "", pauses: [], segments: [], owned: [], before: [] };
      this.members.set(id, member);
    }
    return member;
  }

  /** @param {any} event */
  add(event) {
    const at = event.wall;
    const shift = event.wall - event.mono;
    this.first = Math.min(this.first, at);
    this.last = Math.max(this.last, at);
    if (event.event !== "exchange" || event.api === "SyncGroup") this.changes++;
    switch (event.event) {
      case "group":
        this.state = event.state;
        this.generation = event.generation;
        break;
      case "state":
        this.state = event.to;
        this.generation = event.generation;
        if (event.to === "PreparingRebalance") this.begin(event, at, event.from === "Empty");
        if (event.to === "Empty") for (const member of this.members.values()) this.own(member, [], at);
        break;
      case "member":
        this.changed(event, at);
        break;
      case "round":
        this.round(event, shift);
        break;
      case "assignment":
        this.assigned(event, at);
        break;
      case "exchange":
        this.exchanged(event, at, shift);
        break;
    }
  }

  begin(event, at, initial) {
    this.rebalances.push({
      cause: event.cause || "unknown", trigger: event.trigger, started: at, ended: null, assigned: null, synced: null, initial,
      before: this.generation, generation: null, leader: "", waits: [], dropped: [], members: [], moved: null, resumed: new Set(), seq: event.seq,
    });
    return this.rebalances[this.rebalances.length - 1];
  }

  changed(event, at) {
    if (event.change === "pending") return;
    const member = this.member(event.member_id, at);
    member.host = (event.client_host || "").replace("/", "") || member.host;
    member.instance = event.instance_id;
    if (event.change === "added" || event.change === "replaced") {
      member.left = null;
    } else {
      member.left = at;
      member.how = event.change;
      this.own(member, [], at);
    }
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
        if (last !== undefined && last !== id) moved++;
        this.owners.set(key, id);
      }
      this.own(member, keys, at);
      const pause = member.pauses[member.pauses.length - 1];
      if (pause && pause.to === null) pause.to = at;
    }
    if (current && current.generation === event.generation) {
      current.assigned = at;
      current.moved = moved;
    }
    this.state = "Stable";
  }

  /** From `at` on a member owns these partitions: a segment of its lane. */
  own(member, keys, at) {
    const last = member.segments[member.segments.length - 1];
    const open = last !== undefined && last.to === null;
    if (open && last.keys.join() === keys.join()) return;
    if (open) last.to = Math.max(at, last.from);
    if (keys.length) member.segments.push({ from: at, to: null, keys });
  }

  exchanged(event, at, shift) {
    if (!event.member) return;
    if (event.api !== "Heartbeat" || event.error) this.marks.push({ member: event.member, at, api: event.api, error: event.error });
    const current = this.rebalances[this.rebalances.length - 1];
    const synced = event.api === "SyncGroup" && !event.error && current && event.request.generation_id === current.generation;
    // A member that syncs again, or came after the round, delayed nobody.
    if (synced && current.members.includes(event.member) && !current.resumed.has(event.member)) {
      current.resumed.add(event.member);
      current.synced = at;
    }
  }
}

/** The phases of a rebalance, disjoint; they add up to its time. As `kafka_shim.why` has them. */
function phasesOf(rebalance, now) {
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

/** All groups of a trace or of a running coordinator. */
class Model {
  constructor() {
    /** @type {Map<string, Group>} */
    this.groups = new Map();
    this.events = 0;
  }

  /** @param {any} event */
  add(event) {
    this.events++;
    if (!event.group || event.event === "timer" || event.event === "parked" || event.event === "commit") return null;
    let group = this.groups.get(event.group);
    if (group === undefined) this.groups.set(event.group, (group = new Group(event.group)));
    group.add(event);
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
      if (line && !(line.includes('"api":"Heartbeat"') && line.includes('"error":0'))) this.add(JSON.parse(line));
    }
  }
}

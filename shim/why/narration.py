"""`Narrator`: the story of a trace in readable lines: joins, causes of rebalances, assignments.

It takes the events of `docs/trace.md`, from a running server or from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafka_shim.apis.readable import LONGEST_LINE, readable
from kafka_shim.apis.wire.errors import ErrorCode, error_name
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.epochs import WITH_EPOCHS
from kafka_shim.trace.events import INTERVENTIONS
from kafka_shim.trace.rebalance import OF_TOPIC
from kafka_shim.trace.reconciliation import AWAY
from kafka_shim.trace.refusals import JOINS, REFUSALS
from kafka_shim.why.causes import ENDED_BY_TEST, clause, unsaid
from kafka_shim.why.names import Names

_MEMBER: Final = {
    "added": "joins",
    "left": "leaves",
    "gone": "has left or was expelled",
    "expired": "is expelled: it sent no heartbeat within its session timeout",
    "removed": "is removed",
    "fenced": "is fenced: another member has its group.instance.id",
    "replaced": "takes over the place of the static member before it",
    "refused": "is refused: another member has its group.instance.id",
}

_DELEGATION: Final = {
    "requested": "is requested to compute the target assignment",
    "timed out": "did not compute the target assignment within its rebalance timeout",
    "member gone": "has left the group and no longer computes",
    "overtaken": "can stop computing: the coordinator already has an assignment",
}


class Line(NamedTuple):
    """One line of the story. `kind` is the kind of its event; `seconds` are since the story began."""

    seconds: float
    group: str
    kind: str
    text: str
    wall: float | None = None
    """Seconds of Unix time, None if the event has none."""
    where: str = ""
    """File and line of the log that it is concluded from."""

    def __str__(self) -> str:
        return f"{self.seconds:8.3f}  {readable(self.group)}  {self.text}"


class Narrator:
    """Turns events into lines, one after the other."""

    def __init__(self) -> None:
        self.name: Final = Names()
        self._initial: set[str] = set()
        """Groups in their first round, which waits for group.initial.rebalance.delay.ms even if all members have
        joined.
        """
        self._began: float | None = None
        self._ended: set[str] = set()
        """Ids of members with a session that a test ended."""
        self._types: dict[str, str] = {}
        """The protocol type of each group."""
        self._refusal: tuple[Any, ...] = ()
        """Group, client and error of the last refused request to join."""

    def lines(self, event: Mapping[str, Any], mono: float | None = None) -> list[Line]:
        """Return the lines of one event; most events have none. `mono` is the event's time if it has none itself."""
        now = event.get("mono", mono) or 0.0
        if self._began is None:
            self._began = now
        write = getattr(self, f"_{event['event']}", None)
        if write is None:
            return []
        seconds = now - self._began
        wall = event.get("wall")
        group, kind = event.get("group") or "", event["event"]
        where = event.get("where", "")
        return [Line(seconds, group, kind, readable(text, LONGEST_LINE), wall, where) for text in write(event)]

    def _member(self, event: Mapping[str, Any]) -> list[str]:
        what = _MEMBER.get(event["change"])
        if what is None:
            return []
        self.name.introduce(event["member_id"], event["instance_id"] or event["client_id"])
        static = f" (group.instance.id {readable(event['instance_id'])})" if event["instance_id"] else ""
        if event["change"] == "expired" and event["member_id"] in self._ended:
            what = "is expelled: a test ended its session"
        elif event["change"] == "added":
            self._ended.discard(event["member_id"])
        if event["change"] == "added" and event["client_host"]:
            what += f" from {event['client_host'].lstrip('/')}"
        return [f"{self.name(event['member_id'])}{static} {what}"]

    def _state(self, event: Mapping[str, Any]) -> list[str]:
        if event["to"] == "PreparingRebalance":
            (self._initial.add if event["from"] == "Empty" else self._initial.discard)(event["group"])
            because = self._because(event)
            return [f"rebalance begins, cause {event['cause'] or 'unknown'}: {because}"]
        if event["to"] == "Registering":
            if event["cause"] is None:
                return ["the owners of rewound partitions must register"]
            because = self._because(event)
            return [f"all members must register, cause {event['cause']}: {because}"]
        if event["to"] == "Stable" and event["rule"] == "registered":
            return [f"generation {event['generation']} is stable"]
        if event["to"] == "Empty":
            return [f"the group is empty, generation {event['generation']}"]
        if event["to"] == "Stable" and event["rule"] in WITH_EPOCHS:
            return [f"epoch {event['generation']} is stable"]
        return []

    def _round(self, event: Mapping[str, Any]) -> list[str]:
        members = [self.name(member_id) for member_id in event["members"]]
        took = (event["ended"] - event["started"]) * 1000
        size = event.get("size", len(members))
        others = ["others"] if size > len(members) > 0 else []
        names = f" ({', '.join([*members, *others])})" if members or "where" not in event else ""
        leads = f", {self.name(event['leader'])} leads" if event["leader"] else ""
        protocol = f", protocol {readable(str(event['protocol']))}" if event["protocol"] or "where" not in event else ""
        count = f"{size} member{'s' * (size != 1)}"
        if event.get("where", "").startswith(OF_TOPIC):
            # When it began is in no record.
            return [f"generation {event['generation']}: {count}{names}{leads}{protocol}"]
        if "where" in event and "size" not in event:
            count = "members" if members else "begins"
        lines = [f"generation {event['generation']}: {count} after {took:.0f} ms{names}{leads}{protocol}"]
        if event.get("inferred") and "where" not in event:
            # A relay's trace has no event for the beginning.
            cause = event["cause"] or "unknown"
            lines.insert(0, f"rebalanced, cause {cause}: {self._because(event)}")
        initial = event["group"] in self._initial
        self._initial.discard(event["group"])
        if event["waited_for"] and initial:
            waited = took - event["waited_for"][0]["ms"]
            if waited >= 1:
                lines.append(f"of these {waited:.0f} ms after the last join, for group.initial.rebalance.delay.ms")
        elif event["waited_for"] and len(members) > 1:
            last = event["waited_for"][0]
            lines.append(f"the last to join was {self.name(last['member_id'])}, {last['ms']:.0f} ms after the start")
        return lines

    def _epoch(self, event: Mapping[str, Any]) -> list[str]:
        because = self._because(event)
        lines = [f"epoch {event['generation']} begins, cause {event['cause'] or 'unknown'}: {because}"]
        if event.get("waits_ms"):
            lines.append(f"its assignment waits {event['waits_ms']} ms for the assignment interval")
        return lines

    def _delegation(self, event: Mapping[str, Any]) -> list[str]:
        what = _DELEGATION.get(event["change"])
        return [] if what is None else [f"{self.name(event['member_id'])} {what}, epoch {event['generation']}"]

    def _target(self, event: Mapping[str, Any]) -> list[str]:
        by = f", by {readable(event['assignor'])}" if event["assignor"] else ""
        lines = [f"target assignment of epoch {event['generation']}{by}; changes:"]
        if "where" in event and not event["assignments"]:
            # A log does not have them.
            return [lines[0].replace("; changes:", "")]
        for member_id, owned in event["assignments"].items():
            lines.append(f"    {self.name(member_id):24} {_owned(owned)}")
        return lines if event["assignments"] else [lines[0].replace("changes:", "no changes")]

    def _reconciliation(self, event: Mapping[str, Any]) -> list[str]:
        who = self.name(event["member_id"])
        if event["generation"] == AWAY:
            return [f"{who} is away, a static member, and keeps {_owned(event['assigned'])}"]
        line = f"{who} is at epoch {event['generation']} and has {_owned(event['assigned'])}"
        if event["revoking"]:
            line += f"; it must give up {_owned(event['revoking'])}"
        if event["waits_for"]:
            line += f"; it waits for {', '.join(self.name(holder) for holder in event['waits_for'])}"
        return [line]

    def _assignment(self, event: Mapping[str, Any]) -> list[str]:
        if "where" in event and not event["assignments"]:
            # A log does not have them.
            return [f"generation {event['generation']} is stable"]
        lines = [f"generation {event['generation']} is stable; assignments:"]
        for member_id, owned in event["assignments"].items():
            lines.append(f"    {self.name(member_id):24} {_owned(owned)}")
        return lines

    def _group(self, event: Mapping[str, Any]) -> list[str]:
        if event["change"] == "created":
            return ["the group is created"]
        if event["change"] in ("deleted", "expired"):
            return [f"the group no longer exists ({event['change']})"]
        if event["change"] == "loaded" and event["members"]:
            return [f"the coordinator has loaded the group: {event['members']} members, {event['state']}"]
        return []

    def _commit(self, event: Mapping[str, Any]) -> list[str]:
        if not event["error"]:
            return []
        who = self.name(event["member_id"]) or "a client without a member id"
        return [f"a commit of {who} is refused, error {event['error']}"]

    def _fault(self, event: Mapping[str, Any]) -> list[str]:
        name = self.name(event["member"]) or readable(event["client_id"])
        error = f" {ErrorCode(event['error']).name} ({event['error']})" if event["error"] else ""
        return [f"injected by a fault: {event['action']}{error}, {event['api']} of {name}"]

    def _intervention(self, event: Mapping[str, Any]) -> list[str]:
        if event["change"] == "expired":
            self._ended.add(event["member_id"])
        return [f"a test {INTERVENTIONS[event['change']]} {self.name(event['member_id'])}"]

    def _offsets_expired(self, event: Mapping[str, Any]) -> list[str]:
        return [f"{len(event['offsets'])} committed offsets have expired"]

    def _because(self, event: Mapping[str, Any]) -> str:
        if not event["cause"] and "where" in event:
            return unsaid(event["where"])
        if event["cause"] == Cause.SESSION_EXPIRED and event["trigger"] in self._ended:
            return ENDED_BY_TEST.format(who=self.name(event["trigger"]))
        return clause(event["cause"], self.name(event["trigger"]), self._types.get(event["group"], ""))

    def _exchange(self, event: Mapping[str, Any]) -> list[str]:
        if event["api"] == "JoinGroup" and not event["error"] and event["request"].get("protocol_type"):
            self._types[event["group"]] = event["request"]["protocol_type"]
        error = _ERRORS.get(event["error"]) or (
            _ERRORS_OF_COMMITS.get(event["error"]) if event["api"] == _COMMIT else None
        )
        if event["api"] in JOINS and event["error"] in REFUSALS:
            # The client tries again and again.
            refusal = event["group"], event["client_id"], event["error"]
            error = None if refusal == self._refusal else f"{error_name(event['error'])} ({event['error']})"
            self._refusal = refusal
        if error is None:
            return []
        self.name.introduce(event["member"] or "", event["client_id"])
        who = self.name(event["member"] or "") or readable(event["client_id"] or "")
        return [f"{event['api']} of {who} is answered {error}"]


_ERRORS: Final = {
    22: "ILLEGAL_GENERATION (22)",
    25: "UNKNOWN_MEMBER_ID (25)",
    82: "FENCED_INSTANCE_ID (82)",
    110: "FENCED_MEMBER_EPOCH (110)",
    111: "UNRELEASED_INSTANCE_ID (111)",
    113: "STALE_MEMBER_EPOCH (113)",
}
_COMMIT: Final = "OffsetCommit"
_ERRORS_OF_COMMITS: Final = {
    14: "COORDINATOR_LOAD_IN_PROGRESS (14)",
    15: "COORDINATOR_NOT_AVAILABLE (15)",
    16: "NOT_COORDINATOR (16)",
}
"""Other requests are retried, and the result of that shows; a commit may be lost."""


def _owned(owned: Mapping[str, list[int]] | int) -> str:
    if isinstance(owned, int):
        return f"{owned} bytes"
    parts = [f"{readable(topic)} {_ranges(partitions)}" for topic, partitions in sorted(owned.items()) if partitions]
    return ", ".join(parts) or "nothing"


def _ranges(numbers: list[int]) -> str:
    """Format partitions as people write them: `0-2, 5`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)

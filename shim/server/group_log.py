"""Log lines about groups: a line of level INFO when a member joins or leaves, and when a rebalance begins or ends."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from kafka_shim.apis.readable import readable
from kafka_shim.trace.events import INTERVENTIONS

log: Final = logging.getLogger("kafka_shim.groups")

_MEMBER: Final = {
    "added": "joins",
    "left": "leaves",
    "expired": "is expelled, its session is over",
    "removed": "is removed",
    "fenced": "is fenced by another member of its group.instance.id",
    "replaced": "takes the place of the static member before it",
}


class GroupLog:
    """Writes the log lines; `hear` is a listener of `EventFeed`."""

    def hear(self, events: list[dict[str, Any]], now: float) -> None:
        """Write the lines of the events of a tick."""
        for event in events:
            line = _LINES.get(event["event"])
            text = None if line is None else line(event)
            if text is not None:
                log.info("group %s: %s", readable(event["group"]), text)


def _member(event: Mapping[str, Any]) -> str | None:
    change = _MEMBER.get(event["change"])
    if change is None:
        return None
    static = f", group.instance.id {readable(event['instance_id'])}" if event["instance_id"] else ""
    host = f" from {event['client_host'].lstrip('/')}" if event["change"] == "added" and event["client_host"] else ""
    return f"member {readable(event['member_id'])}{static} {change}{host}"


def _state(event: Mapping[str, Any]) -> str | None:
    if event["to"] == "PreparingRebalance":
        trigger = f" by {readable(event['trigger'])}" if event["trigger"] else ""
        return f"rebalance of generation {event['generation']} begins, cause {event['cause']}{trigger}"
    if event["to"] == "Empty" and event["from"] != "Dead":
        return f"empty, generation {event['generation']}"
    return None


def _round(event: Mapping[str, Any]) -> str:
    milliseconds = (event["ended"] - event["started"]) * 1000
    return (
        f"generation {event['generation']} has {len(event['members'])} members after {milliseconds:.0f} ms,"
        f" leader {readable(event['leader'] or '')}, protocol {readable(event['protocol'] or '')}"
    )


def _intervention(event: Mapping[str, Any]) -> str:
    return f"a test {INTERVENTIONS[event['change']]} member {readable(event['member_id'])}"


_LINES: Final = {"member": _member, "intervention": _intervention, "state": _state, "round": _round}

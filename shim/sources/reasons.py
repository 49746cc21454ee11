"""The cause of a rebalance, from the words of a broker in `Preparing to rebalance group`, and from those of its client.

Only the start of a round has such words. A client sends a reason since Kafka 3.2 (KIP-800), and few clients do.
Source: GroupCoordinator.scala, GroupMetadataManager.java, AbstractCoordinator.java and ConsumerCoordinator.java.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import re2

from kafka_shim.trace.causes import Cause


class Because(NamedTuple):
    """Cause of a rebalance, empty if it does not show, with the members that began it, the instance id of a static one,
    and the reason of the client, empty if it gave none.
    """

    cause: Cause | str
    members: tuple[str, ...] = ()
    instance: str = ""
    reason: str = ""


_REASON: Final = r"(?:; client reason: (?P<reason>.*))?$"
_INSTANCE: Final = r"(?: with (?:group )?instance ?id (?P<instance>.+?))?"
_WORDS: Final = tuple(
    (cause, re2.compile(f"(?s)^{text}"))
    for cause, text in (
        (Cause.NEW_MEMBER, rf"Adding new member (?P<member>.+?){_INSTANCE}{_REASON}"),
        (Cause.STATIC_REPLACED, rf"Updating metadata for static member (?P<member>.+?){_INSTANCE}{_REASON}"),
        (Cause.SUBSCRIPTION_CHANGED, rf"Updating metadata for member (?P<member>.+?)(?: during \w+)?{_REASON}"),
        (Cause.LEADER_REJOINED, rf"[Ll]eader (?P<member>.+) re-joining group during \w+{_REASON}"),
        (Cause.SESSION_EXPIRED, r"removing member (?P<member>.+) on heartbeat expiration"),
        (Cause.MEMBER_LEFT, rf"[Rr]emoving member (?P<member>.+?) on LeaveGroup{_REASON}"),
        (Cause.MEMBER_LEFT, r"explicit `LeaveGroup` request for \((?P<members>.*)\) members"),
        (
            Cause.STATIC_REPLACED,
            r"Group's selectedProtocol will change because static member (?P<member>.+?) with instance id "
            rf"(?P<instance>.+?) joined with change of protocol{_REASON}",
        ),
        (
            Cause.PENDING_SYNC_EXPIRED,
            r"Removing (?:Set|HashSet|List)?[(\[](?P<members>.*)[)\]] on pending sync request",
        ),
        (
            Cause.ASSIGNMENT_WRITE_FAILED,
            r"[Ee]rror .*when storing group assignment ?during SyncGroup \(member: (?P<member>.+?)\)",
        ),
        (Cause.COORDINATOR_RELOADED, r"Freshly-loaded group .*is over capacity"),
        (Cause.PROTOCOL_CHANGED, r"Downgrade group "),
    )
)
_OF_CLIENTS: Final = (
    ("poll timeout has expired", Cause.POLL_TIMEOUT_REASON),
    ("removed by an admin", Cause.ADMIN_REMOVED),
    ("need to revoke partitions and re-join", Cause.COOPERATIVE_FOLLOWUP),
    ("after revoking what we lost", Cause.COOPERATIVE_FOLLOWUP),
    ("cached metadata has changed", Cause.LEADER_REJOINED),
    ("noticed some topics have new partitions", Cause.LEADER_REJOINED),
    ("rebalance enforced by user", Cause.LEADER_REJOINED),
    ("triggered followup rebalance", Cause.LEADER_REJOINED),
    ("subscription has changed", Cause.SUBSCRIPTION_CHANGED),
    ("does not match the current subscription", Cause.SUBSCRIPTION_CHANGED),
)
"""Words of clients, and the cause that they make of the broker's."""
_NONE: Final = frozenset({"", "None", "null", "<nil>", "not provided"})


def because(words: str) -> Because:
    """Return the cause that the words of a broker name, after `reason:` and with the bracket at their end."""
    words = words.strip().removesuffix(".").removesuffix(")").removesuffix(".")
    for cause, text in _WORDS:
        match = text.match(words)
        if match is None:
            continue
        parts = {name: value for name, value in match.groupdict().items() if value}
        members = (parts["member"],) if "member" in parts else ids_in(parts.get("members", ""))
        if cause == Cause.MEMBER_LEFT and not members:
            # A request that names instance ids alone is an administrator's.
            cause = Cause.ADMIN_REMOVED
        reason = bare(parts.get("reason", ""))
        return Because(refined(cause, reason), members, bare(parts.get("instance", "")), reason)
    return Because("")


def refined(cause: str, reason: str) -> str:
    """Return the cause that the reason of a client makes of the broker's."""
    return next((each for words, each in _OF_CLIENTS if words in reason), cause)


def bare(value: str) -> str:
    """Return a value as brokers print it, `Some(x)` or `x`, without its wrapper; empty for `None`, `null`, `<nil>`."""
    if value.startswith("Some(") and value.endswith(")"):
        value = value[5:-1]
    return "" if value in _NONE else value


def ids_in(value: str) -> tuple[str, ...]:
    """Return the ids of a list of members as brokers print it: `Set(a, b)`, `[a, b]`, `a, b`, perhaps cut."""
    for opening in ("Set(", "HashSet(", "List(", "["):
        value = value.removeprefix(opening)
    return tuple(each.strip().rstrip(")].") for each in value.split(", ") if each.strip().rstrip(")]."))

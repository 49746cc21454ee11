"""The words of brokers, and of clients in them, name the cause of a rebalance."""

import pytest

from kafka_shim.sources.reasons import Because, bare, because, ids_in
from kafka_shim.trace.causes import Cause


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ("Adding new member m)", Because(Cause.NEW_MEMBER, ("m",))),
        ("Adding new member m with group instanceid Some(i))", Because(Cause.NEW_MEMBER, ("m",), "i")),
        ("Adding new member m with group instance id None; client reason: not provided)",
         Because(Cause.NEW_MEMBER, ("m",))),
        ("Adding new member m with group instance id null; client reason: need to re-join with the given member-id:"
         " m).",
         Because(Cause.NEW_MEMBER, ("m",), "", "need to re-join with the given member-id: m")),
        ("Updating metadata for member m)", Because(Cause.SUBSCRIPTION_CHANGED, ("m",))),
        ("Updating metadata for member m during Stable; client reason: subscription has changed from a to b)",
         Because(Cause.SUBSCRIPTION_CHANGED, ("m",), "", "subscription has changed from a to b")),
        ("Updating metadata for member m during Stable; client reason: need to revoke partitions and re-join)",
         Because(Cause.COOPERATIVE_FOLLOWUP, ("m",), "", "need to revoke partitions and re-join")),
        ("leader m re-joining group during Stable)", Because(Cause.LEADER_REJOINED, ("m",))),
        ("Leader m re-joining group during Stable; client reason: cached metadata has changed).",
         Because(Cause.LEADER_REJOINED, ("m",), "", "cached metadata has changed")),
        ("removing member m on heartbeat expiration.).", Because(Cause.SESSION_EXPIRED, ("m",))),
        ("Removing member m on LeaveGroup; client reason: consumer poll timeout has expired.)",
         Because(Cause.POLL_TIMEOUT_REASON, ("m",), "", "consumer poll timeout has expired")),
        ("Removing member m on LeaveGroup; client reason: member was removed by an admin: moved)",
         Because(Cause.ADMIN_REMOVED, ("m",), "", "member was removed by an admin: moved")),
        ("explicit `LeaveGroup` request for (m, n) members.).", Because(Cause.MEMBER_LEFT, ("m", "n"))),
        ("explicit `LeaveGroup` request for () members.).", Because(Cause.ADMIN_REMOVED)),
        ("Updating metadata for static member m with instance id i)", Because(Cause.STATIC_REPLACED, ("m",), "i")),
        ("Group's selectedProtocol will change because static member m with instance id i joined with change of"
         " protocol; client reason: not provided).", Because(Cause.STATIC_REPLACED, ("m",), "i")),
        ("Removing Set(m, n) on pending sync request expiration)", Because(Cause.PENDING_SYNC_EXPIRED, ("m", "n"))),
        ("Removing [m, n] on pending sync request expiration).", Because(Cause.PENDING_SYNC_EXPIRED, ("m", "n"))),
        ("error when storing group assignment during SyncGroup (member: m))",
         Because(Cause.ASSIGNMENT_WRITE_FAILED, ("m",))),
        ("Error NOT_ENOUGH_REPLICAS when storing group assignmentduring SyncGroup (member: m).).",
         Because(Cause.ASSIGNMENT_WRITE_FAILED, ("m",))),
        ("Freshly-loaded group is over capacity (GroupConfig(10)). Rebalacing in order to give a chance for consumers"
         " to commit offsets)", Because(Cause.COORDINATOR_RELOADED)),
        ("Downgrade group g from consumer to classic for member leaving.).", Because(Cause.PROTOCOL_CHANGED)),
        ("words of a later release)", Because("")),
        ("Adding new member app-1-0000", Because(Cause.NEW_MEMBER, ("app-1-0000",))),
    ],
)  # fmt: skip
def test_the_words_of_a_broker_name_the_cause(words: str, known: Because) -> None:
    assert because(words) == known


def test_printed_values_and_lists_are_read() -> None:
    assert [bare(each) for each in ("None", "null", "Some(a)", "a", "not provided")] == ["", "", "a", "a", ""]
    assert ids_in("Set(a, b)") == ids_in("[a, b].") == ids_in("a, b") == ("a", "b")
    assert ids_in("") == ids_in("[]") == ()

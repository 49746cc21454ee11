"""The one table of the differences between releases of Kafka: rule, first release, release that ended it, KIP.

A rule asks for a difference by its name, `rules.batched_assignments`, and no rule knows the number of a release. A row
since "4.2" came between 3.9 and 4.2. The versions and features of each release are in `profiles.py`. Faults of single
releases are not copied: they are not here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache
from typing import Final, cast

RELEASES: Final = ("2.8", "3.9", "4.2", "4.3", "4.4")
"""The releases that a coordinator can pose as, oldest first."""
DEFAULT_RELEASE: Final = "4.4"
"""The release that a coordinator poses as without a choice."""


def _rule(since: str, until: str, kip: int, sentence: str) -> bool:
    """Declare a row: the rule holds from release `since` on, and below release `until`; empty: it never ended. `kip`
    is 0 for a change without KIP."""
    return cast(bool, field(metadata={"since": since, "until": until, "kip": kip, "sentence": sentence}))


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of one release: each is true if the release has it."""

    #                                            since  until  KIP

    # Consumer, share and streams groups
    batched_assignments: bool            = _rule("4.3", "", 1263, "An interval parts two assignments of a group")
    reset_of_empty_groups: bool          = _rule("4.4", "",    0, "The last leave ends the wait for the interval")
    first_epoch_two: bool                = _rule("4.3", "",    0, "A new group has epoch 1, and its first change 2")
    partition_assignment_epochs: bool    = _rule("4.3", "", 1251, "Commits at an older epoch of the partition count")
    assignor_change_rebalances: bool     = _rule("4.4", "",    0, "A new preferred assignor makes a new epoch")
    static_members_fit_full_groups: bool = _rule("4.4", "",    0, "A known member or instance joins a full group")
    instance_id_moves: bool              = _rule("4.4", "",    0, "A member that changes its instance id loses the old")
    described_revocations: bool          = _rule("4.3", "",    0, "Descriptions list partitions to be revoked too")
    rejoin_at_assignment_epoch: bool     = _rule("4.3", "",    0, "Classic members rejoin when an assignment waits")
    downgrade_checks_assignment: bool    = _rule("4.3", "",    0, "A downgrade rebalances if its assignment is old")

    # Offsets and transactions
    zookeeper_offsets_refused: bool      = _rule("3.9", "",    0, "Version 0 of OffsetCommit and OffsetFetch gets 35")
    ids_in_commits: bool                 = _rule("4.3", "",    0, "OffsetCommit of each version stores topic ids")
    ids_in_transactions: bool            = _rule("4.4", "", 1319, "TxnOffsetCommit of each version stores topic ids")
    offsets_end_with_topic_id: bool      = _rule("4.3", "",    0, "A deleted topic takes offsets of its id alone")
    aborted_producers_return: bool       = _rule("4.2", "",  890, "A producer whose transaction timed out may go on")
    new_id_after_own_abort: bool         = _rule("4.3", "",    0, "An own abort at the last epoch takes a new id")

    # Share groups
    initialized_in_waiting_epoch: bool   = _rule("4.3", "",    0, "Initialised partitions join an epoch that waits")
    added_partitions_from_zero: bool     = _rule("4.4", "",    0, "Partitions added to a known topic start at 0")
    share_ids_required: bool             = _rule("4.3", "",    0, "A null group or member id is refused with 42")
    share_limits_by_group: bool          = _rule("4.3", "",    0, "A group has its own delivery limit, locks, renewal")
    dead_letter_queues: bool             = _rule("4.4", "", 1191, "Share groups write dead records to a queue")
    share_state_epochs_checked: bool     = _rule("4.4", "",    0, "Negative epochs of share state are refused with 42")

    # Streams groups
    streams_static_members: bool         = _rule("4.4", "",    0, "Streams groups have static members")
    task_offsets: bool                   = _rule("4.4", "",    0, "Members report offsets of tasks, and warm-up tasks")
    roles_change_in_place: bool          = _rule("4.4", "",    0, "A task changes its role within a member in one step")
    client_tags_required: bool           = _rule("4.4", "",    0, "A streams group requires client tags of members")
    chosen_assignor: bool                = _rule("4.4", "", 1357, "A streams group chooses its assignor")
    topology_descriptions: bool          = _rule("4.4", "", 1331, "Members describe topologies to a plugin")
    endpoint_may_go: bool                = _rule("4.4", "",    0, "A join without endpoint removes the known one")

    # Administration
    early_produce_refused: bool          = _rule("4.2", "",  896, "Produce 0 to 2 are advertised, and refused")
    group_configurations: bool           = _rule("4.2", "",    0, "Operations on groups include those on settings")
    settings_within_bounds: bool         = _rule("4.3", "",    0, "A stored setting counts within the bounds")
    group_synonyms_of_broker: bool       = _rule("4.3", "",    0, "Group settings have synonyms of the broker")
    bounds_by_number: bool               = _rule("4.4", "",    0, "A refused group setting names its bounds as numbers")
    dynamic_intervals: bool              = _rule("4.3", "",    0, "A running broker takes assignment intervals")
    cordoned_folders: bool               = _rule("4.3", "",    0, "Settings of buffers and of cordoned folders exist")
    assignor_offload: bool               = _rule("4.4", "",    0, "Settings of assignors in threads exist, unused")
    late_remote_copies: bool             = _rule("4.4", "",    0, "Settings of late remote copies and others exist")
# fmt: on


def _at(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in release.split("."))


def is_at_least(release: str, since: str) -> bool:
    """Return True if a release is not older than another; none is older than the empty one."""
    return not since or _at(release) >= _at(since)


@cache
def rules_of(release: str) -> Rules:
    """Return the rules of a release such as `4.2`."""

    def holds(since: str, until: str) -> bool:
        return is_at_least(release, since) and not (until and is_at_least(release, until))

    return Rules(**{row.name: holds(row.metadata["since"], row.metadata["until"]) for row in fields(Rules)})


DEFAULT_RULES: Final = rules_of(DEFAULT_RELEASE)

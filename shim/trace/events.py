"""The events of a trace: one class for each kind, with the type and the meaning of its fields, and the `KINDS`.

`schema.py` derives the schema from these classes, `docs/trace.md` and the columns of the pipeline follow from it. An
event is a plain dictionary of JSON; the classes exist for readers and for the type checker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, NotRequired, TypeAlias, TypedDict, get_args

SCHEMA_VERSION: Final = 2

FaultAction = Literal["error", "delay", "drop", "swallow", "close", "duplicate", "half-open", "slow"]
"""Actions of the faults of a laboratory; `shim/lab/faults.py` describes them."""
FAULT_ACTIONS: Final[tuple[str, ...]] = get_args(FaultAction)

GroupId: TypeAlias = Annotated[str, "group id"]
OffsetsPartition: TypeAlias = Annotated[int, "partition of `__consumer_offsets`"]
RuleName: TypeAlias = Annotated[str, "the rule that decided, as named in `docs/states.md`"]
Generation: TypeAlias = Annotated[int, "generation after the event"]
CauseName: TypeAlias = Annotated[str, "why the group rebalanced, one of the causes below"]
Trigger: TypeAlias = Annotated[str, "id of the member that caused the rebalance; empty if no member did"]
Shares: TypeAlias = dict[str, list[int]]
"""Partitions by topic; of a streams group tasks by subtopology."""


class TracedNode(TypedDict):
    """A broker."""

    node: int
    host: str
    port: int


class Waited(TypedDict):
    """A member, and the milliseconds from the start of the round until it joined."""

    member_id: str
    ms: float


class TracedPartition(TypedDict):
    """A partition of a topic."""

    topic: str
    partition: int


class Offset(TracedPartition):
    """An offset of a partition."""

    offset: int


class Event(TypedDict):
    """The fields of every event."""

    event: Annotated[str, "kind of the event"]
    seq: Annotated[int, "sequence number in this trace, without gaps"]
    mono: Annotated[float, "seconds on the coordinator's monotonic clock"]
    wall: Annotated[float, "seconds of Unix time"]
    inferred: NotRequired[
        Annotated[
            bool,
            "true: concluded from requests and answers by a relay, from lines of a log, or from `__consumer_offsets`",
        ]
    ]
    where: NotRequired[
        Annotated[
            str,
            "file and number of the line of a log that it was concluded from, or partition and offset of a record of"
            " `__consumer_offsets`",
        ]
    ]


LIMITS: Final = (
    *("group.min.session.timeout.ms", "group.max.session.timeout.ms", "group.max.size"),
    *("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms", "group.consumer.max.size"),
)
"""The settings of a broker that a trace begins with: a replay of a group refuses what the broker would refuse."""


class TraceBegun(Event):
    """The first line of every file of a trace. A file that has grown to its limit is renamed to its name and a number,
    1 for the oldest, and the next one begun.
    """

    schema: Annotated[int, "version of this schema"]
    run: Annotated[str, "the run of the coordinator, a random id"]
    file: Annotated[int, "number of the file in this run, from 1 on"]
    release: Annotated[str, "the release of Kafka the coordinator poses as"]
    nodes: Annotated[list[TracedNode], "objects of `node`, `host` and `port`, the brokers"]
    limits: Annotated[
        dict[str, int],
        "the broker's bounds of group sizes and session timeouts, by setting, as `group.max.size`; empty if they are"
        " not visible",
    ]


class Exchange(Event):
    """A request was answered. `arrived` to `mono` is its time, also that of waiting."""

    conn: Annotated[int, "number of the connection"]
    node: Annotated[int, "node id of the broker"]
    api: Annotated[str, "name of the API"]
    version: Annotated[int, "version of the request"]
    correlation_id: Annotated[int, "correlation id of the request"]
    client_id: Annotated[str, "client id of the request's header"]
    group: Annotated[str | None, "group id, if the request has one, or may not find the coordinator of one"]
    member: Annotated[str | None, "member id the request speaks for; that of the answer if it gave one out"]
    arrived: Annotated[float, "when the request arrived, seconds on the monotonic clock"]
    request: Annotated[dict[str, Any], "the request's fields; bytes as their length"]
    answer: Annotated[
        dict[str, Any], "the answer's fields; bytes as their length; if it was made in parts, those of the first part"
    ]
    error: Annotated[int, "error code of the answer, 0 for none"]
    left_out: NotRequired[
        Annotated[
            int,
            "number of elements that are not shown: a request or an answer with more than 10,000 has its first 1,000",
        ]
    ]
    software: NotRequired[
        Annotated[str, "name and version of the client's software, in a request to join, if its ApiVersions had them"]
    ]
    nth: NotRequired[
        Annotated[
            int, "its number among equal errors of one client, if it is the second, the fourth, the eighth and so on"
        ]
    ]


class Parked(Event):
    """A request was parked: its answer comes later, in an `exchange` of the same connection and correlation id."""

    conn: Annotated[int, "number of the connection"]
    node: Annotated[int, "node id of the broker"]
    api: Annotated[str, "name of the API"]
    correlation_id: Annotated[int, "correlation id of the request"]
    group: GroupId
    member: Annotated[str, "member id of the request"]


class FaultInjected(Event):
    """A laboratory changed, delayed or dropped a request or its answer on purpose. The effects follow."""

    group: GroupId
    member: Annotated[str, "member id the request speaks for, empty if it has none"]
    client_id: Annotated[str, "client id of the request's header"]
    conn: Annotated[int, "number of the connection"]
    api: Annotated[str, "name of the API"]
    action: FaultAction
    error: Annotated[int, "the error code that was answered, 0 for none"]


class PartitionChanged(Event):
    """A partition of `__consumer_offsets` changed hands."""

    partition: OffsetsPartition
    node: Annotated[int, "node id of the broker"]
    change: Annotated[str, "loading, active, failed or unloaded"]
    groups: Annotated[int, "the number of its groups here"]
    unknown_records: Annotated[int, "records of unknown types that were skipped when loading"]


class BrokerChanged(Event):
    """A laboratory shut a broker down, killed it, or started it again."""

    node: Annotated[int, "node id of the broker"]
    change: Literal["stopped", "killed", "started"]


class Intervened(Event):
    """A test ended the session of a member before its time, or held its client dead, or let that live again."""

    group: GroupId
    member_id: Annotated[str, "member id"]
    change: Annotated[str, "expired (its session is ended, and its `member` event follows), killed or revived"]


INTERVENTIONS: Final = {"expired": "ends the session of", "killed": "kills", "revived": "revives"}
"""Verbs for the changes of `Intervened`."""


class GroupChanged(Event):
    """A group came or went."""

    group: GroupId
    partition: OffsetsPartition
    change: Annotated[str, "created, deleted, expired (Empty and without offsets), loaded or unloaded"]
    state: Annotated[str, "its state"]
    generation: Generation
    members: Annotated[int, "the number of its members"]


# `from` is a keyword, which a class cannot name.
_StateBefore = TypedDict("_StateBefore", {"group": GroupId, "from": Annotated[str, "state before"]})


class StateChanged(Event, _StateBefore):
    """A group changed state. `cause` and `trigger` are those of the rebalance it is in."""

    to: Annotated[str, "state after"]
    generation: Generation
    cause: Annotated[str | None, "why the group rebalances; null if it never did here"]
    trigger: Trigger
    rule: RuleName


class MemberChanged(Event):
    """A member came, went or changed its id."""

    group: GroupId
    member_id: Annotated[str, "member id"]
    instance_id: Annotated[str | None, "group instance id of a static member"]
    client_id: Annotated[str, "client id, empty where unknown"]
    client_host: Annotated[str, "address of the client, empty where unknown"]
    change: Annotated[
        str,
        "pending (id handed out), added, replaced (took over a static member's place), fenced (lost it), "
        "left, expired, or removed (did not rejoin, had no room, or an admin client removed it); "
        "from a log also loaded (it was in a group that a coordinator loaded) and refused (it asked for an instance id "
        "that another member has); from `__consumer_offsets` gone (it left or was expelled) and loaded",
    ]
    rule: RuleName
    session_timeout_ms: NotRequired[Annotated[int, "its session timeout, if a line or a record has it"]]
    rebalance_timeout_ms: NotRequired[Annotated[int, "its rebalance timeout, if a line or a record has it"]]
    reason: NotRequired[Annotated[str, "the reason that it gave for its departure, if a line of a log has it"]]


class RoundEnded(Event):
    """A join round ended and the next generation began."""

    group: GroupId
    generation: Generation
    cause: CauseName
    trigger: Trigger
    started: Annotated[float, "when the rebalance started, seconds on the monotonic clock"]
    ended: Annotated[float, "when the round ended, seconds on the monotonic clock"]
    waited_for: Annotated[list[Waited], "objects of `member_id` and `ms` from the start until it joined, longest first"]
    dropped: Annotated[list[str], "ids of members that went during the round or did not rejoin"]
    leader: Annotated[str, "member id of the leader"]
    protocol: Annotated[str, "the protocol selected"]
    members: Annotated[list[str], "ids of the generation's members"]
    size: NotRequired[Annotated[int, "number of members, if a line of a log has it: `members` may lack some"]]


class GroupAssigned(Event):
    """The leader handed in the assignments; the group is Stable."""

    group: GroupId
    generation: Generation
    cause: CauseName
    trigger: Trigger
    leader: Annotated[str, "member id of the leader"]
    leader_ms: Annotated[float, "milliseconds from the end of the round to the leader's SyncGroup"]
    assignments: Annotated[
        dict[str, Shares | int],
        "by member id: partitions by topic if the protocol type is consumer, else the number of bytes",
    ]
    subscriptions: NotRequired[
        Annotated[
            dict[str, list[str]], "by member id: topics that a consumer subscribes to; left out if all have the same"
        ]
    ]


class EpochBegun(Event):
    """A group epoch of a consumer group (KIP-848) began: a new target assignment is due."""

    group: GroupId
    generation: Annotated[int, "the group epoch"]
    cause: Annotated[str | None, "why"]
    trigger: Trigger
    waits_ms: NotRequired[
        Annotated[int, "milliseconds that its assignment waits for the assignment interval; left out if none"]
    ]


class TargetComputed(Event):
    """The target assignment of a consumer group (KIP-848) was computed: the final assignment of each member."""

    group: GroupId
    generation: Annotated[int, "the group epoch it is of"]
    assignor: Annotated[str, "the assignor that made the assignment"]
    assignments: Annotated[
        dict[str, Shares],
        "by member id, of those with another target now: partitions by topic",
    ]


class MemberReconciled(Event):
    """A member of a consumer group (KIP-848) came nearer to its target assignment."""

    group: GroupId
    member_id: Annotated[str, "member id"]
    generation: Annotated[int, "its member epoch; -2 for a static member that is away"]
    state: Annotated[str, "STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS or UNKNOWN"]
    assigned: Annotated[Shares, "partitions it may use, by topic"]
    revoking: Annotated[Shares, "partitions it has to revoke first, by topic"]
    waits_for: Annotated[list[str], "ids of members that have partitions it waits for"]


class TargetDelegated(Event):
    """A member was requested to compute the target assignment of its group, or the request ended. Only a server with
    `--experimental client-assignors` has it; as all of the experiment, it may change within a version.
    """

    group: GroupId
    generation: Annotated[int, "the group epoch that it is for"]
    member_id: Annotated[str, "member id"]
    assignor: Annotated[str, "the assignor of the member"]
    change: Annotated[
        str,
        "requested, prepared (it has fetched its input), installed, timed out (after its rebalance timeout), "
        "member gone, or overtaken (the coordinator has assigned)",
    ]


class TimerChanged(Event):
    """A timer was armed, fired or was cancelled. A heartbeat, which only moves a deadline, does not show here."""

    change: Annotated[str, "armed, fired or cancelled"]
    kind: Annotated[
        str,
        "session, pending-member, join, sync, rebalance, regex, delegation, offset-expiry or transaction",
    ]
    partition: OffsetsPartition
    group: Annotated[str, "group id, empty for a partition's own timer; of a transaction its transactional id"]
    member_id: Annotated[str, "member id, empty for a group's own timer"]
    deadline: Annotated[float | None, "when it fires, seconds on the monotonic clock; null once fired"]


class OffsetsCommitted(Event):
    """Offsets were committed, or the whole commit was refused. Those of a transaction are committed when it ends."""

    group: GroupId
    partition: OffsetsPartition
    member_id: Annotated[str, "member id of the request, empty for a commit from outside the group"]
    generation: Annotated[int, "generation of the request, -1 for a commit from outside the group"]
    error: Annotated[int, "error code of the group, 0 for none"]
    offsets: Annotated[list[Offset], "accepted offsets: objects of `topic`, `partition` and `offset`"]
    left_out: NotRequired[
        Annotated[
            int,
            "number of offsets that are not shown: of more than 10,000 the history of a server has the first 1,000",
        ]
    ]


class EndOffsets(Event):
    """End offsets of partitions that have grown since the event before, every few seconds at most."""

    offsets: Annotated[list[Offset], "objects of `topic`, `partition` and `offset`, that of the next record to come"]


class TransactionOffsets(Event):
    """Offsets of a group became part of a transaction, or the transaction has ended. The committed offsets are in a
    `commit` event too, with no member, unless others were committed since.
    """

    group: GroupId
    partition: OffsetsPartition
    producer_id: Annotated[int, "id of the producer of the transaction"]
    producer_epoch: Annotated[int, "its epoch when it sent the offsets"]
    change: Annotated[str, "pending, committed or aborted"]
    offsets: Annotated[list[Offset], "objects of `topic`, `partition` and `offset`"]


class OffsetsExpired(Event):
    """Offsets of a group expired at the end of their retention."""

    group: GroupId
    partition: OffsetsPartition
    offsets: Annotated[list[TracedPartition], "objects of `topic` and `partition`"]


Reader = Literal["fold", "story", "log", "page", "simulation"]
"""A reader of the trace: the fold (`history.py`), the story of `trace show` (`shim/why/narration.py`), the lines of the
server's log (`shim/server/group_log.py`), the page (`shim/why/page/model.js`), and answers of `/v1/simulations`."""


class Kind(NamedTuple):
    """A kind of event: its class, the readers that handle it, and whether it comes with every request."""

    event: type
    readers: frozenset[Reader]
    of_requests: bool = False


def _kind(event: type, *readers: Reader, of_requests: bool = False) -> Kind:
    return Kind(event, frozenset(readers), of_requests)


KINDS: Final[dict[str, Kind]] = {
    "trace": _kind(TraceBegun),
    "exchange": _kind(Exchange, "fold", "story", "page", of_requests=True),
    "parked": _kind(Parked, of_requests=True),
    "fault": _kind(FaultInjected, "fold", "story"),
    "partition": _kind(PartitionChanged),
    "broker": _kind(BrokerChanged),
    "intervention": _kind(Intervened, "fold", "story", "log", "page"),
    "group": _kind(GroupChanged, "fold", "story", "page", "simulation"),
    "state": _kind(StateChanged, "fold", "story", "log", "page", "simulation"),
    "member": _kind(MemberChanged, "fold", "story", "log", "page", "simulation"),
    "round": _kind(RoundEnded, "fold", "story", "log", "page", "simulation"),
    "assignment": _kind(GroupAssigned, "fold", "story", "page", "simulation"),
    "epoch": _kind(EpochBegun, "fold", "story", "page", "simulation"),
    "target": _kind(TargetComputed, "fold", "story", "page", "simulation"),
    "reconciliation": _kind(MemberReconciled, "fold", "story", "page"),
    "delegation": _kind(TargetDelegated, "story", "simulation"),
    "timer": _kind(TimerChanged, "fold", "page", of_requests=True),
    "commit": _kind(OffsetsCommitted, "fold", "story", "page"),
    "end_offsets": _kind(EndOffsets, "page"),
    "transaction_offsets": _kind(TransactionOffsets),
    "offsets_expired": _kind(OffsetsExpired, "story"),
}
"""Kinds of events by name. A test compares the readers with their code."""


def read_by(reader: Reader) -> frozenset[str]:
    """Return the kinds of events that a reader handles."""
    return frozenset(name for name, kind in KINDS.items() if reader in kind.readers)


def begins_rebalance(event: Mapping[str, Any]) -> bool:
    """Return True if the event begins a rebalance: an epoch, or else a round, or a registration of all members."""
    return bool(event["event"] == "epoch" or (event["event"] == "state" and event["to"] in _BEGINNINGS))


_BEGINNINGS: Final = frozenset({"PreparingRebalance", "Registering"})

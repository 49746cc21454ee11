"""A finding: an event in the life of a group, with its culprit and its cost. `findings.py` looks for them."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka_shim.trace.clients import Library
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.why.diagnoses import HEALTHY, Diagnosis

CONSUMER_HEARTBEAT_MS = 5_000
"""The default of `group.consumer.heartbeat.interval.ms`."""
LONG_S = 1.0
"""A wait of up to a second needs no remedy."""


@dataclass(kw_only=True)
class Finding:
    """`code` is a diagnosis, or the cause of a rebalance. `members` are ids, the first is the culprit.

    `client` is the name of the culprit's process. `cost` is seconds of standstill: of partitions, or of members that
    wait. `seconds` is the time that it is about: a wait, an absence; 0 if there is none.
    """

    code: str
    client: str = ""
    members: tuple[str, ...] = ()
    cost: float = 0.0
    count: int = 0
    seconds: float = 0.0
    error: int = 0
    library: Library = Library.UNKNOWN
    protocol_type: str = ""
    """That of its group."""
    stalled: bool = False
    """True if a slow member sent no heartbeat either: its process stood still."""
    expelled: bool = False
    """True if the heartbeats of a member are so rare that its session runs out before the first."""
    partitions: int = 0
    """The partitions that stood still since their owner had not left; 0 if there were none, or none shows."""
    topics: tuple[str, ...] = ()
    """Topics of the subscriptions that no member has a partition of."""
    is_passing: bool = False
    """True if it is about several members that each came for a short time, and `client` is the last."""
    is_of_log: bool = False
    """True if it is concluded from a log, which shows fewer signs."""
    is_of_topic: bool = False
    """True if it is concluded from `__consumer_offsets`."""
    is_likely: bool = False
    """True if a log only makes it likely."""
    rebalances: list[Rebalance] = field(default_factory=list)
    seqs: tuple[int, int] = (0, 0)
    times: dict[int, float] = field(default_factory=dict)
    """The part of `seconds` of a rebalance, by its first sequence number, where it has one."""
    _added: set[int] = field(default_factory=set, repr=False, compare=False)
    """Identities of `rebalances`: to compare their contents takes long where there are thousands."""

    @property
    def is_outside(self) -> bool:
        """True if it is about the commits of a client that is no member."""
        return self.code == Diagnosis.COMMIT_REFUSED and not self.members

    @property
    def is_trouble(self) -> bool:
        """True if something went wrong: a member waited, was refused, or lost its work."""
        return self.code not in HEALTHY

    def took(self, seconds: float, rebalance: Rebalance) -> None:
        """Note the time that it is about in one rebalance."""
        self.seconds = max(self.seconds, seconds)
        self.times[rebalance.first_seq] = max(self.times.get(rebalance.first_seq, 0.0), seconds)

    def add(self, rebalance: Rebalance, cost: float | None = None) -> None:
        """Count a rebalance among its results; `cost` is its part of the standstill, all of it by default."""
        if id(rebalance) not in self._added:
            self._added.add(id(rebalance))
            self.rebalances.append(rebalance)
            self.cost += cost_of(rebalance) if cost is None else cost


def cost_of(rebalance: Rebalance) -> float:
    """Return the seconds of standstill of a rebalance, summed over partitions and members."""
    if rebalance.lacks_standstill:
        # A log shows neither partitions nor when each member joined.
        return rebalance.seconds * (rebalance.size or max(1, len(rebalance.members)))
    return rebalance.partition_seconds + (rebalance.member_seconds or 0.0)

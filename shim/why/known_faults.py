"""`FAULTS`: known faults of clients and brokers that rebalance groups, by version, with the release that mends each.

A fault fits a group if all known versions of its product have it, and the rebalances look like it. It knows no lines of
logs; `upgrades.py` makes remedies of the fitting faults. Sources: the change logs and issues in each row; for releases
of Kafka, the branches with its commits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafka_shim.trace.causes import Cause
from kafka_shim.trace.clients import Library
from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.trace.reconciliation import Reconciliation
from kafka_shim.why.diagnoses import Diagnosis
from kafka_shim.why.finding import Finding

BROKER: Final = "Kafka broker"
_AT_ONCE_S: Final = 0.01
"""A rebalance in which members are asked to join again lasts longer: they learn of it by their next heartbeat."""
_MANY: Final = 3
_ENDLESS: Final = 6
"""Cooperative rebalances in a row; one change needs two, or three."""
_ENDLESS_GAP_S: Final = 60.0
_STUCK_S: Final = 60.0
"""A leader needs no such time to assign."""
_LONG_S: Final = 300.0
"""The longest rebalance timeout that clients have by default."""
_NUMBERS: Final = re.compile(r"\d+")
_FOLLOWS: Final = frozenset({Cause.COOPERATIVE_FOLLOWUP, Cause.SUBSCRIPTION_CHANGED, Cause.LEADER_REJOINED})
_SILENT: Final = (Cause.SESSION_EXPIRED, Diagnosis.PAUSED_MEMBER, Diagnosis.GHOST, Diagnosis.CRASH_LOOP)

Fits = Callable[[GroupHistory, Sequence[Rebalance], Finding], bool]
Version = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault of `product` from version `since` on, empty if unknown, up to the releases in `mended`: the first of each
    branch without it, as are all later ones.

    `codes` are the findings that it may explain, all if it is empty; `fits` decides whether one looks like it. `sign`
    is that in words, `happens` its effect. With `is_telling` the sign alone is enough to name it where the
    version is unknown.
    """

    name: str
    product: str
    mended: tuple[str, ...]
    sign: str
    happens: str
    source: str
    since: str = ""
    codes: Collection[str] = ()
    fits: Fits = lambda history, rebalances, finding: True
    is_telling: bool = False

    def concerns(self, version: str) -> bool:
        """True if a version has this fault, False if it is not known to have it."""
        number = version_of(version)
        if not number or (self.since and number < version_of(self.since)):
            return False
        mended = [version_of(each) for each in self.mended]
        in_branch = any(number[:2] == each[:2] and number >= each for each in mended)
        return not in_branch and number < max(mended)

    @property
    def versions(self) -> str:
        """The versions that have it, in words."""
        since = f"{self.since} and later" if self.since else "all"
        return f"{since}, before {' and '.join(self.mended)}"

    def mended_for(self, version: str) -> str:
        """Return the nearest release without this fault, for a version; the oldest if it is empty."""
        number = version_of(version)
        later = [each for each in self.mended if version_of(each) > number]
        return min(later or self.mended, key=version_of)


class Case(NamedTuple):
    """A fault that fits, the finding that it explains, and the version; empty if only the sign is known."""

    fault: Fault
    finding: Finding
    version: str


def version_of(text: str) -> Version:
    """Return the numbers of a version: `2.3.1-SNAPSHOT` is (2, 3, 1), and `v1.0` is (1, 0, 0)."""
    numbers = tuple(int(each) for each in _NUMBERS.findall(text.split("-")[0])[:3])
    return numbers + (0,) * (3 - len(numbers)) if numbers else ()


def _protocols(history: GroupHistory) -> set[str]:
    offered = {name for member in history.members.values() for name in member.protocols}
    return {history.protocol, *(each.protocol for each in history.rebalances)} - {""} or offered


def _is_cooperative(history: GroupHistory, rebalances: Sequence[Rebalance], finding: Finding) -> bool:
    return "cooperative-sticky" in _protocols(history)


def _is_sticky(history: GroupHistory, rebalances: Sequence[Rebalance], finding: Finding) -> bool:
    return any("sticky" in name for name in _protocols(history))


def _is_round_robin(history: GroupHistory, rebalances: Sequence[Rebalance], finding: Finding) -> bool:
    return "roundrobin" in _protocols(history)


def _is_endless(history: GroupHistory, rebalances: Sequence[Rebalance], finding: Finding) -> bool:
    """True if a cooperative group rebalanced again and again, though no member came or went."""
    row = 0
    last: Rebalance | None = None
    for each in rebalances:
        is_next = last is not None and each.started - last.started <= _ENDLESS_GAP_S
        row = row + 1 if each.cause in _FOLLOWS and (is_next or not row) else int(each.cause in _FOLLOWS)
        last = each
        if row >= _ENDLESS:
            return _is_cooperative(history, rebalances, finding)
    return False


def _ends_at_once(history: GroupHistory, rebalances: Sequence[Rebalance], finding: Finding) -> bool:
    """True if a new member threw out the others: the rebalance was over before they could learn of it."""
    joins = [
        each
        for each in rebalances
        if each.cause == Cause.NEW_MEMBER and not (each.initial or each.is_snapshot or isinstance(each, Reconciliation))
    ]
    at_once = [each for each in joins if each.ended is not None and each.ended - each.started <= _AT_ONCE_S]
    return len(at_once) >= _MANY and 2 * len(at_once) > len(joins)


def _had_no_assignment(history: GroupHistory, rebalances: Sequence[Rebalance], finding: Finding) -> bool:
    """True if the leader never assigned, and the group stood still until another rebalance."""
    return any(
        each.assigned is None and each.ended is not None and (each.superseded or 0.0) - each.ended > _STUCK_S
        for each in rebalances
        if not isinstance(each, Reconciliation) and each.members
    )


def _never_ended(history: GroupHistory, rebalances: Sequence[Rebalance], finding: Finding) -> bool:
    """True if members waited for longer than any rebalance timeout by default."""
    classic = (each for each in rebalances if not isinstance(each, Reconciliation))
    return any((each.ended or each.superseded or history.last) - each.started > 2 * _LONG_S for each in classic)


def _was_loaded(history: GroupHistory, rebalances: Sequence[Rebalance], finding: Finding) -> bool:
    return history.was_loaded


def _has_epochs(history: GroupHistory, rebalances: Sequence[Rebalance], finding: Finding) -> bool:
    return history.epochs is not None


def _stays_away(history: GroupHistory, rebalances: Sequence[Rebalance], finding: Finding) -> bool:
    """True if the culprit was expelled and did not come back."""
    return bool(finding.members) and history.members[finding.members[-1]].how == "expired"


def _lost_in_rebalance(history: GroupHistory, rebalances: Sequence[Rebalance], finding: Finding) -> bool:
    """True if a client gave up its session although its heartbeats were answered: the group was rebalancing."""
    members = (history.members[each] for each in finding.members if each in history.members)
    return any("rebalance in progress" in member.last_error.lower() for member in members)


def _has_no_generation(history: GroupHistory, rebalances: Sequence[Rebalance], finding: Finding) -> bool:
    """True if a client synchronised without a generation."""
    return any(member.lost_generation for member in history.members.values())


def _repeats_loss(history: GroupHistory, rebalances: Sequence[Rebalance], finding: Finding) -> bool:
    """True if a client said again and again that its session is over."""
    return any(history.members[each].repeats_loss for each in finding.members if each in history.members)


_JIRA: Final = "https://issues.apache.org/jira/browse/"
_GITHUB: Final = "https://github.com/"
_RDKAFKA: Final = f"{_GITHUB}confluentinc/librdkafka/"

FAULTS: Final[tuple[Fault, ...]] = (
    Fault(
        name="KAFKA-8653",
        product=BROKER,
        since="2.3.0",
        mended=("2.3.1",),
        sign="new members begin rebalances that are over within 10 ms, at least three",
        happens="the broker does not wait for members whose client sends JoinGroup 0, and throws them out whenever one"
        " joins",
        source=f"{_JIRA}KAFKA-8653",
        fits=_ends_at_once,
        is_telling=True,
    ),
    Fault(
        name="KAFKA-9752",
        product=BROKER,
        since="2.2.0",
        mended=("2.5.0",),
        sign="a rebalance that lasts longer than 10 minutes",
        happens="a client with an old JoinGroup that is gone keeps the group in a rebalance for ever",
        source=f"{_JIRA}KAFKA-9752",
        fits=_never_ended,
    ),
    Fault(
        name="KAFKA-12890",
        product=BROKER,
        since="2.6.1",
        mended=("2.8.1", "3.0.0"),
        sign="a generation without an assignment for more than a minute",
        happens="the group waits without end for a leader that joined and never assigned",
        source=f"{_JIRA}KAFKA-12890",
        fits=_had_no_assignment,
    ),
    Fault(
        name="KAFKA-10284",
        product=BROKER,
        since="2.3.0",
        mended=("2.6.1", "2.7.0"),
        sign="static members are fenced after the coordinator moved",
        happens="a coordinator that loads the group knows an old member id of a static member that was restarted, and"
        " fences the new one",
        source=f"{_JIRA}KAFKA-10284",
        codes=(Diagnosis.DUPLICATE_INSTANCE_ID,),
        fits=_was_loaded,
    ),
    Fault(
        name="KAFKA-13406",
        product=Library.JAVA,
        since="2.4.0",
        mended=("2.8.2", "3.0.1", "3.1.0"),
        sign="six cooperative rebalances in a row and no member came or went",
        happens="its cooperative-sticky assignor refuses its own assignment after a member missed a rebalance, and the"
        " group rebalances again and again",
        source=f"{_JIRA}KAFKA-13406",
        fits=_is_endless,
    ),
    Fault(
        name="KAFKA-15106",
        product=Library.JAVA,
        since="3.5.0",
        mended=("3.5.2", "3.6.0"),
        sign="a slow leader, or a rebalance timeout, with a sticky assignor",
        happens="its sticky assignors may loop for longer than the rebalance timeout",
        source=f"{_JIRA}KAFKA-15106",
        codes=(Diagnosis.SLOW_LEADER, Cause.REBALANCE_TIMEOUT, Cause.PENDING_SYNC_EXPIRED),
        fits=_is_sticky,
    ),
    Fault(
        name="librdkafka#2365",
        product=Library.LIBRDKAFKA,
        since="1.0.0",
        mended=("1.1.0",),
        sign="a poll interval is exceeded",
        happens="a poll that waits for records for longer than max.poll.interval.ms counts as a missed one, so an idle"
        " consumer leaves",
        source=f"{_RDKAFKA}pull/2365",
        codes=(Cause.POLL_TIMEOUT_REASON,),
    ),
    Fault(
        name="librdkafka#3159",
        product=Library.LIBRDKAFKA,
        mended=("1.5.3",),
        sign="a slow leader, or topics without an owner, with roundrobin and different subscriptions",
        happens="its roundrobin assignor may loop without end, or assign unevenly, where members subscribe to different"
        " topics",
        source=f"{_RDKAFKA}blob/master/CHANGELOG.md",
        codes=(Diagnosis.SLOW_LEADER, Diagnosis.DIFFERENT_SUBSCRIPTIONS, Cause.PENDING_SYNC_EXPIRED),
        fits=_is_round_robin,
    ),
    Fault(
        name="librdkafka#3306",
        product=Library.LIBRDKAFKA,
        since="1.6.0",
        mended=("1.7.0",),
        sign="six cooperative rebalances in a row and no member came or went",
        happens="its first cooperative-sticky assignor moves partitions again and again, each time with a rebalance",
        source=f"{_RDKAFKA}issues/3306",
        fits=_is_endless,
    ),
    Fault(
        name="librdkafka#3450",
        product=Library.LIBRDKAFKA,
        mended=("1.8.0",),
        sign="`SESSTMOUT`, `last error was Broker: Group rebalance in progress`",
        happens="a rebalance that lasts longer than session.timeout.ms makes the consumer give up its session, although"
        " the broker answers its heartbeats",
        source=f"{_RDKAFKA}issues/3450",
        codes=(*_SILENT, Cause.NEW_MEMBER, Cause.REBALANCE_TIMEOUT, Diagnosis.SLOW_MEMBER),
        fits=_lost_in_rebalance,
        is_telling=True,
    ),
    Fault(
        name="librdkafka#4256",
        product=Library.LIBRDKAFKA,
        since="2.1.0",
        mended=("2.1.1",),
        sign="a poll interval is exceeded",
        happens="polls of some queues do not count, so a consumer that polls leaves",
        source=f"{_RDKAFKA}pull/4256",
        codes=(Cause.POLL_TIMEOUT_REASON,),
    ),
    Fault(
        name="librdkafka#4783",
        product=Library.LIBRDKAFKA,
        since="1.6.0",
        mended=("2.6.1",),
        sign="a leader that does not assign, with cooperative-sticky",
        happens="its cooperative-sticky assignor may loop without end",
        source=f"{_RDKAFKA}issues/4783",
        codes=(Diagnosis.SLOW_LEADER, Cause.PENDING_SYNC_EXPIRED),
        fits=_is_cooperative,
    ),
    Fault(
        name="librdkafka#5488",
        product=Library.LIBRDKAFKA,
        since="2.12.0",
        mended=("2.15.0",),
        sign="a poll interval is exceeded in a group of KIP-848",
        happens="a consumer that missed its poll may be refused with a fatal INVALID_REQUEST when it comes back",
        source=f"{_RDKAFKA}pull/5488",
        codes=(Cause.POLL_TIMEOUT_REASON,),
        fits=_has_epochs,
    ),
    Fault(
        name="kafka-python#1787",
        product=Library.KAFKA_PYTHON,
        since="1.4.0",
        mended=("1.4.7",),
        sign="a session runs out",
        happens="its heartbeat thread waits for a lock of the consumer, so that the session of an idle one runs out",
        source=f"{_GITHUB}dpkp/kafka-python/issues/1787",
        codes=_SILENT,
    ),
    Fault(
        name="kafka-python#1985",
        product=Library.KAFKA_PYTHON,
        since="1.4.0",
        mended=("2.0.2",),
        sign="a session runs out and the member does not come back",
        happens="a heartbeat without an answer may leave consumer and heartbeat thread waiting for each other for ever",
        source=f"{_GITHUB}dpkp/kafka-python/issues/1985",
        codes=(Cause.SESSION_EXPIRED, Diagnosis.GHOST),
        fits=_stays_away,
    ),
    Fault(
        name="aiokafka#372",
        product=Library.AIOKAFKA,
        mended=("0.5.1",),
        sign="`Heartbeat session expired` each second, for longer than a session",
        happens="its heartbeats go on after it unsubscribed or left, and it gives its session up again and again",
        source=f"{_GITHUB}aio-libs/aiokafka/issues/372",
        codes=(Cause.SESSION_EXPIRED, Diagnosis.PAUSED_MEMBER),
        fits=_repeats_loss,
        is_telling=True,
    ),
    Fault(
        name="aiokafka#727",
        product=Library.AIOKAFKA,
        mended=("0.7.1",),
        sign="`Successfully synced group ... with generation -1`",
        happens="a commit that fails during a join resets member id and generation, and the group rebalances without"
        " end",
        source=f"{_GITHUB}aio-libs/aiokafka/issues/727",
        fits=_has_no_generation,
        is_telling=True,
    ),
    Fault(
        name="sarama#2110",
        product=Library.SARAMA,
        mended=("1.31.1",),
        sign="a session runs out",
        happens="its heartbeats stop when a rebalance begins, so that a handler that takes longer than the session to"
        " finish costs the membership",
        source=f"{_GITHUB}IBM/sarama/pull/2110",
        codes=_SILENT,
    ),
    Fault(
        name="franz-go 1.15.4",
        product=Library.FRANZ_GO,
        mended=("1.15.4",),
        sign="a session runs out and the member does not come back",
        happens="a commit that is cancelled while the coordinator is looked up ends the group's management, and the"
        " client never joins again",
        source=f"{_GITHUB}twmb/franz-go/blob/master/CHANGELOG.md",
        codes=(Cause.SESSION_EXPIRED, Diagnosis.GHOST),
        fits=_stays_away,
    ),
)
"""The brokers' faults first, then those of each client."""


def versions_of(history: GroupHistory, product: str, finding: Finding) -> set[str]:
    """Return the known versions of a product that a finding is about: of the brokers, of its culprit, or of all members
    of a library if it has no culprit. An empty one is a version that is not known.
    """
    if product == BROKER:
        return set(history.broker_versions)
    culprits = [history.members[each] for each in finding.members if each in history.members]
    members = culprits or list(history.members.values())
    return {each.version for each in members if each.library == product}


def known_faults(history: GroupHistory, rebalances: Sequence[Rebalance], findings: Sequence[Finding]) -> list[Case]:
    """Return the faults that fit these rebalances, by finding: those of versions that are known to be concerned, and
    those whose sign is telling where the version is unknown.
    """
    cases: dict[str, Case] = {}
    for finding in findings:
        for fault in FAULTS:
            if fault.name in cases or (fault.codes and finding.code not in fault.codes):
                continue
            versions = versions_of(history, fault.product, finding)
            is_unknown = not (versions - {""})
            if is_unknown and not (fault.is_telling and (versions or fault.product == BROKER)):
                continue
            if not is_unknown and not all(map(fault.concerns, versions - {""})):
                continue
            if fault.fits(history, rebalances, finding):
                version = "" if is_unknown else max(versions, key=version_of)
                cases[fault.name] = Case(fault, finding, version)
    return list(cases.values())

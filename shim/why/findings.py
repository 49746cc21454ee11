"""Findings: events in the life of a group by their common names, each with its culprit and its cost.

A rebalance has a cause in the protocol; a finding is the reason for one rebalance or several, or for a member that got
no further than its request to join. The costliest finding comes first. `diagnoses.py` has the closed set of findings.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.clients import Library
from kafka_shim.trace.history import BY_REQUESTS, ENDED_BY_TEST, MISSED_POLL, GroupHistory
from kafka_shim.trace.members import Member
from kafka_shim.trace.rebalance import HEARTBEAT_SECONDS, INITIAL_DELAY, LEADER_THINKS, NEVER_CAME, Rebalance
from kafka_shim.trace.reconciliation import Reconciliation
from kafka_shim.trace.unreleased import Unreleased
from kafka_shim.why.diagnoses import HEALTHY, Diagnosis
from kafka_shim.why.finding import CONSUMER_HEARTBEAT_MS, LONG_S, Finding, cost_of
from kafka_shim.why.instance_ids import fights_of, holds_and_lives
from kafka_shim.why.memberships import gaps, late_by, libraries_of_refused, library_of_client, library_of_instance
from kafka_shim.why.names import names_of
from kafka_shim.why.past import SESSION_TIMEOUT_S, client_of
from kafka_shim.why.processes import LOOP, RETURN_S, START_S, Processes

_MOST_SLOW = 3
"""Members that are named if all are slow."""
_REPLACED = 2
"""A static member that was replaced so often may have been restarted, or have a double."""
_STALLED = 2.0
"""A heartbeat that comes so many intervals after the begin of a rebalance was held up."""


def own_wait(rebalance: Rebalance) -> float:
    """Return the seconds that members waited for the slowest from when it learned of the rebalance. A trace without
    heartbeats does not show that: then one default heartbeat interval is not counted.
    """
    slow = rebalance.slow
    if slow is None or slow.member_id == _newcomer(rebalance):
        return 0.0
    return slow.seconds - (HEARTBEAT_SECONDS if slow.called is None else slow.called)


def findings_of(history: GroupHistory, rebalances: Sequence[Rebalance]) -> list[Finding]:
    """Return the findings of these rebalances and of refused requests, the costliest first."""
    search = _Search(history, rebalances)
    search.run()
    findings = list(search.findings.values())
    order = list(HEALTHY)
    return sorted(
        findings,
        key=lambda each: (0, -each.cost, 0.0) if each.is_trouble else (1, order.index(each.code), -each.cost),
    )


class _Search:
    """One pass over the rebalances of a group, the oldest first."""

    def __init__(self, history: GroupHistory, rebalances: Sequence[Rebalance]) -> None:
        self.history = history
        self.rebalances = rebalances
        self.findings: dict[tuple[str, str], Finding] = {}
        self.names = names_of(history)
        self.processes = Processes(history, rebalances)
        self.fights = fights_of(history)
        self.latest: Finding | None = None

    def run(self) -> None:
        self._refusals()
        before: Rebalance | None = None
        ends = [each.started for each in self.rebalances[1:]]
        for rebalance, until in zip(self.rebalances, [*ends, float("inf")], strict=False):
            self.latest = self._rebalance(rebalance)
            self.latest.add(rebalance)
            self._others(rebalance, until, self.latest)
            self._phases(rebalance, self.latest)
            self._nameless(rebalance, self.latest)
            if before is not None:
                self._revocation(before, rebalance)
            before = rebalance
            self._subscriptions(rebalance, until)
        if self.history.is_of_topic_alone:
            self._replacements()
        self._commits()

    def finding(self, code: str, member: Member | None = None, client: str = "") -> Finding:
        """Return the finding of this code and process; add it if it is new."""
        name = client or ("" if member is None else client_of(member))
        finding = self.findings.get((code, name))
        if finding is None:
            label = client or ("" if member is None else self._label(member))
            library = Library.UNKNOWN if member is None else library_of_client(self.history, member)
            of_type = self.history.protocol_type
            is_of_log = self.history.is_of_log
            finding = Finding(code=code, client=label, library=library, protocol_type=of_type, is_of_log=is_of_log)
            finding.is_of_topic = self.history.is_of_topic_alone
            self.findings[code, name] = finding
        if member is not None and member.member_id not in finding.members:
            finding.members = (*finding.members, member.member_id)
        return finding

    def _label(self, member: Member) -> str:
        """Return the client id of a member; with its number if several processes have the client id."""
        namesakes = {client_of(each) for each in self.history.members.values() if each.client_id == member.client_id}
        return member.instance_id or (self.names(member.member_id) if len(namesakes) > 1 else member.client_id)

    # Members outside

    @property
    def _begin(self) -> float:
        """The time that is asked for. A refusal before the first rebalance of the group counts too."""
        is_epoch = self.history.epochs is not None
        alike = (each for each in self.history.rebalances if isinstance(each, Reconciliation) is is_epoch)
        whole = not self.rebalances or self.rebalances[0] is next(alike, None)
        return 0.0 if whole else self.rebalances[0].started

    def _refusals(self) -> None:
        begin, libraries = self._begin, libraries_of_refused(self.history)
        for refused in self.history.refusals.refused.values():
            if refused.last < begin:
                continue
            finding = self.finding(Diagnosis.JOIN_REFUSED, client=refused.client_id or "a client without an id")
            until = self.history.last if refused.accepted is None else refused.accepted
            finding.cost += max(until - refused.first, LONG_S)
            finding.count += refused.count
            finding.error, finding.library = refused.error, libraries.get(refused.library, refused.library)
            finding.seconds = max(finding.seconds, until - refused.first)
            finding.seqs = refused.first_seq, refused.last_seq
        for unreleased in self.history.holders.of.values():
            if unreleased.last >= begin and not holds_and_lives(self.history, unreleased):
                self._unreleased(unreleased)
        for twice in self.fights:
            if twice.last < begin:
                continue
            finding = self.finding(Diagnosis.DUPLICATE_INSTANCE_ID, client=twice.instance_id)
            finding.cost += max(self.history.last - twice.first, LONG_S)
            finding.count, finding.library = twice.count, library_of_instance(self.history, twice.instance_id)
            finding.seconds = twice.last - twice.first
            finding.seqs = twice.first_seq, twice.last_seq

    def _commits(self) -> None:
        """Add the refused commits that no other trouble of their member explains."""
        begin = self._begin
        troubles = [each for each in self.findings.values() if each.is_trouble]
        ids = {member_id for each in troubles for member_id in each.members}
        explained = {client_of(self.history.member(each)) for each in ids} | {each.client for each in troubles}
        for refused in self.history.refusals.commits.values():
            member = self.history.members.get(refused.member_id)
            if refused.last < begin or (member is not None and client_of(member) in explained):
                continue
            finding = self.finding(Diagnosis.COMMIT_REFUSED, member, "" if member else refused.client_id)
            finding.library = refused.library if member is None else finding.library
            # The standstill of others does not show in it: any other trouble comes first.
            finding.cost += LONG_S
            finding.count += refused.count
            finding.error = refused.error
            finding.seqs = refused.first_seq, refused.last_seq

    def _unreleased(self, unreleased: Unreleased) -> None:
        """Add a process that was refused the group instance id of another."""
        finding = self.finding(Diagnosis.JOIN_REFUSED, client=unreleased.instance_id)
        finding.cost += max(unreleased.seconds, LONG_S)
        finding.count += unreleased.count
        finding.error, finding.library = ErrorCode.UNRELEASED_INSTANCE_ID, unreleased.library
        finding.seconds += unreleased.seconds
        finding.seqs = unreleased.first_seq, unreleased.last_seq
        if self.history.has_died(unreleased.holder) or self.history.is_silent(unreleased.holder):
            finding.partitions = max(finding.partitions, unreleased.partitions)

    def _replacements(self) -> None:
        """Add static members that were replaced again and again: by records alone no more shows of two processes with
        one group instance id.
        """
        replaced: dict[str, list[Member]] = {}
        for member in self.history.members.values():
            if member.instance_id and member.how == "fenced":
                replaced.setdefault(member.instance_id, []).append(member)
        for members in replaced.values():
            if len(members) >= _REPLACED:
                self.finding(Cause.STATIC_REPLACED, members[-1]).count = len(members)

    # Rebalances

    def _others(self, rebalance: Rebalance, until: float, main: Finding) -> None:
        """Add the members that died, up to a time, in a rebalance which the death of another began."""
        if main.code != Cause.SESSION_EXPIRED or isinstance(rebalance, Reconciliation):
            return
        expiries = (each for each in self.rebalances if each.cause == Cause.SESSION_EXPIRED and each is not rebalance)
        ids = {each.trigger for each in expiries} | set(main.members)
        for member in self.history.members.values():
            has_died = member.how == "expired" and rebalance.started <= (member.ended or 0.0) < until
            if has_died and not member.instance_id and member.member_id not in ids:
                self._expiry(member, rebalance).add(rebalance)

    def _rebalance(self, rebalance: Rebalance) -> Finding:
        """Return the finding that a rebalance belongs to."""
        history = self.history
        # A trace that begins in the middle may have members without an event of their own.
        trigger = history.member(rebalance.trigger) if rebalance.trigger else None
        cause = rebalance.cause
        if rebalance.by_test and trigger is not None:
            return self._ended_by_test(trigger)
        ghost = self._ghost(rebalance)
        if ghost is not None:
            return ghost
        dead = self._dead(rebalance)
        if dead is not None:
            return self._expiry(dead, rebalance)
        if cause == Cause.COOPERATIVE_FOLLOWUP and self.latest is not None:
            return self.latest
        if cause == Cause.NEW_MEMBER and rebalance.trigger in self.processes.visits and not rebalance.initial:
            return self._visitor(history.member(rebalance.trigger))
        if rebalance.initial and cause == Cause.NEW_MEMBER and not self.processes.is_return(trigger, rebalance):
            return self.finding(Diagnosis.START)
        if trigger is not None and any(each.instance_id == trigger.instance_id for each in self.fights):
            return self.finding(Diagnosis.DUPLICATE_INSTANCE_ID, client=trigger.instance_id or "")
        if cause == Cause.MEMBER_LEFT and trigger is not None and self.processes.is_stuck(trigger, rebalance.started):
            return self._missed_poll(trigger)
        if rebalance.started >= self.processes.closing and cause in (Cause.MEMBER_LEFT, Cause.SESSION_EXPIRED):
            return self.finding(Diagnosis.SHUTDOWN)
        if cause == Cause.MEMBER_GONE and trigger is not None:
            return self._absence(trigger)
        if trigger is None or cause not in _OF_MEMBERS:
            if cause == Cause.TOPIC_METADATA_CHANGED or (cause in _REJOINS and self._has_other_partitions(rebalance)):
                return self.finding(Diagnosis.TOPICS_CHANGED)
            return self.finding(cause or Diagnosis.UNKNOWN, trigger if cause in _BLAMES else None)
        if cause == Cause.NEW_MEMBER:
            return self._arrival(rebalance, trigger)
        if cause == Cause.POLL_TIMEOUT_REASON:
            return self._missed_poll(trigger)
        if cause == Cause.SESSION_EXPIRED:
            return self._expiry(trigger, rebalance)
        return self._departure(trigger, rebalance)

    def _ghost(self, rebalance: Rebalance) -> Finding | None:
        """Return the finding of a rebalance that waited for a member that never came, or that its new process began."""
        waited = sum(phase.seconds for phase in rebalance.phases if phase.name == NEVER_CAME)
        members = [self.history.members[each] for each in rebalance.dropped if each in self.history.members]
        if not members or isinstance(rebalance, Reconciliation):
            return None
        member, trigger = members[0], self.history.members.get(rebalance.trigger)
        if member.member_id in self.processes.visits:
            finding = self._visitor(member)
            finding.took(waited or rebalance.seconds, rebalance)
            return finding
        is_back = trigger is not None and client_of(trigger) == client_of(member)
        if (waited <= LONG_S and not is_back) or member.how not in ("expired", "removed"):
            return None
        if member.how == "removed":
            finding = self.finding(Cause.REBALANCE_TIMEOUT, member)
        elif self.processes.polls_too_seldom(member):
            return self._missed_poll(member)
        elif self.processes.beats_too_seldom(member):
            return self._seldom(member)
        elif self.processes.is_paused(member):
            finding = self.finding(Diagnosis.PAUSED_MEMBER, member)
        elif self.processes.is_loop(member):
            finding = self.finding(Diagnosis.CRASH_LOOP, member)
        else:
            finding = self.finding(Diagnosis.GHOST, member)
        finding.count += 1
        finding.took(waited or rebalance.seconds, rebalance)
        return finding

    def _dead(self, rebalance: Rebalance) -> Member | None:
        """Return a member whose session ran out in a rebalance that another began, so that no member waited long."""
        if isinstance(rebalance, Reconciliation) or rebalance.started >= self.processes.closing:
            return None
        members = [self.history.members[each] for each in rebalance.dropped if each in self.history.members]
        if rebalance.assigned is None and rebalance is self.rebalances[-1]:
            # The group is Empty: no member was left to join.
            ended = (each for each in self.history.members.values() if each.ended is not None)
            members += [each for each in ended if (each.ended or 0.0) >= rebalance.started]
        return next((each for each in members if each.how == "expired" and not each.instance_id), None)

    def _arrival(self, rebalance: Rebalance, member: Member) -> Finding:
        """A member has joined: for the first time, after it was away, or in the place of another."""
        before = self.processes.before(member, rebalance.started)
        if before is not None and before.ended is not None:
            away = rebalance.started - before.ended
            earlier = self.history.members[before.member_id]
            if MISSED_POLL in before.reason:
                return self._missed_poll(earlier, again=False)
            if before.how == "removed":
                return self.finding(Cause.REBALANCE_TIMEOUT, earlier)
            if before.how == "expired" and away < RETURN_S:
                return self._expiry(earlier, rebalance, again=False)
            if before.how == ENDED_BY_TEST and away < RETURN_S:
                return self._ended_by_test(earlier, again=False)
            if before.how == "left" and away < RETURN_S:
                return self._restart(earlier)
            if before.how == "gone" and away < RETURN_S:
                return self._absence(earlier, again=False)
        if member.member_id in self.processes.replacing:
            return self._restart(member)
        started = next((each.started for each in self.rebalances if each.initial), None)
        if started is not None and rebalance.started - started < START_S and len(self.rebalances) > 1:
            return self.finding(Diagnosis.START)
        return self.finding(Diagnosis.SCALE_OUT)

    def _departure(self, member: Member, rebalance: Rebalance) -> Finding:
        if self.processes.after(member, rebalance.started) is not None or member.member_id in self.processes.turnover:
            return self._restart(member)
        return self.finding(Diagnosis.SCALE_IN)

    def _ended_by_test(self, member: Member, *, again: bool = True) -> Finding:
        finding = self.finding(Diagnosis.ENDED_BY_TEST, member)
        finding.count += again
        return finding

    def _absence(self, member: Member, *, again: bool = True) -> Finding:
        """A member is gone, and no record says how."""
        finding = self.finding(Cause.MEMBER_GONE, member)
        finding.count += again
        # The costs of its absence do not show; it comes before rebalances without any sign.
        finding.cost += LONG_S if again else 0.0
        finding.seconds = max(finding.seconds, *gaps(self.processes.lives[client_of(member)]), 0.0)
        return finding

    def _missed_poll(self, member: Member, *, again: bool = True) -> Finding:
        finding = self.finding(Cause.POLL_TIMEOUT_REASON, member)
        # A log has the words of the client, or only the time of its departure, or its return under its id.
        is_said = MISSED_POLL in member.reason and not member.reason.endswith(BY_REQUESTS)
        finding.is_likely = self.history.is_of_log and not is_said
        finding.count += again
        finding.seconds = max(finding.seconds, *gaps(self.processes.lives[client_of(member)]), 0.0)
        return finding

    def _seldom(self, member: Member, *, again: bool = True) -> Finding:
        finding = self.finding(Diagnosis.SELDOM_HEARTBEATS, member)
        finding.expelled = True
        finding.count += again
        finding.seconds = max(finding.seconds, late_by(member) or 0.0)
        return finding

    def _without_rights(self, member: Member) -> Finding | None:
        """Return the finding of a member that was expelled since its heartbeats were refused for want of rights."""
        refused = self.history.refusals.refused.get((member.client_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        if refused is None or member.ended is None or not (member.joined or 0.0) <= refused.first <= member.ended:
            return None
        return self.finding(Diagnosis.JOIN_REFUSED, client=refused.client_id)

    def _refused_successor(self, member: Member) -> Finding | None:
        """Return the finding of a static consumer that was expelled while its successor was refused. A crash loop has a
        name of its own, unless its processes only failed to leave.
        """
        unreleased = self.history.holders.of.get(member.member_id)
        if unreleased is None or holds_and_lives(self.history, unreleased):
            return None
        if self.processes.is_loop(member) and not member.departure_refused:
            return None
        return self.finding(Diagnosis.JOIN_REFUSED, client=unreleased.instance_id)

    def _expiry(self, member: Member, rebalance: Rebalance, *, again: bool = True) -> Finding:
        lives = self.processes.lives[client_of(member)]
        refused = self._without_rights(member) or self._refused_successor(member)
        if refused is not None:
            return refused
        if self.processes.polls_too_seldom(member):
            return self._missed_poll(member, again=again)
        if self.processes.beats_too_seldom(member):
            return self._seldom(member, again=again)
        if member.member_id in self.processes.visits:
            return self._visitor(member)
        successor = self._successor(member, rebalance)
        if successor is not None and not self.processes.is_loop(member):
            finding = self.finding(Diagnosis.GHOST, member)
            finding.took(rebalance.started - successor, rebalance)
        elif self.processes.is_paused(member):
            finding = self.finding(Diagnosis.PAUSED_MEMBER, member)
            finding.seconds = max(finding.seconds, *gaps(lives), 0.0)
        elif self.processes.is_loop(member):
            finding = self.finding(Diagnosis.CRASH_LOOP, member)
        else:
            finding = self.finding(Cause.SESSION_EXPIRED, member)
        finding.count += again
        return finding

    def _visitor(self, member: Member) -> Finding:
        """Return the finding of a process that comes again and again and never leaves. Its members have one client id,
        and no number: one is still to be expelled when the next comes.
        """
        visits = self.processes.visits[member.member_id]
        finding = self.finding(Diagnosis.CRASH_LOOP, client=member.client_id or self._label(member))
        finding.members, finding.count = tuple(each.member_id for each in visits), len(visits)
        finding.library = library_of_client(self.history, member)
        return finding

    def _successor(self, member: Member, rebalance: Rebalance) -> float | None:
        """Return the time at which a new process took the place of a consumer that was still to be expelled. The group
        of a classic member stops for it, which `_ghost` finds.
        """
        if not isinstance(rebalance, Reconciliation) or member.ended is None:
            return None
        # Not all listeners hear of timers.
        silent = member.ended - self.history.sessions.get(member.member_id, SESSION_TIMEOUT_S)
        begin = max(silent, member.joined or 0.0)
        lives = self.processes.lives[client_of(member)]
        joined = (each.joined for each in lives if each.member_id != member.member_id)
        return next((each for each in joined if begin < each < (member.ended or 0.0)), None)

    def _restart(self, member: Member) -> Finding:
        """A member was stopped and started, alone or with others."""
        clients = set(self.processes.turnover.values())
        client = client_of(member)
        turns = sum(
            each.how == "left" and MISSED_POLL not in each.reason and each.member_id in self.processes.turnover
            for each in self.processes.lives[client]
        )
        passing = self.processes.passing
        if member.member_id in passing:
            finding = self.finding(Diagnosis.FLAPPING, client=self._label(self.history.members[passing[-1]]))
            finding.is_passing, finding.members, finding.count = True, passing, len(passing)
            return finding
        if turns >= LOOP:
            finding = self.finding(Diagnosis.FLAPPING, member)
            finding.count = turns
            return finding
        if len(clients) < 2 and not self._was_emptied():
            return self.finding(Diagnosis.RESTART, member)
        return self.finding(Diagnosis.DEPLOY if self._was_empty() else Diagnosis.ROLLING_RESTART)

    def _phases(self, rebalance: Rebalance, main: Finding) -> None:
        """Add the slow members of a rebalance to the findings."""
        times = {phase.name: phase.seconds for phase in rebalance.phases}
        thought, others = times.get(LEADER_THINKS, 0.0), rebalance.seconds - times.get(INITIAL_DELAY, 0.0)
        if thought > max(LONG_S, others / 2) and rebalance.leader in self.history.members:
            self._slow(Diagnosis.SLOW_LEADER, rebalance.leader, thought, rebalance)
        slow, own = rebalance.slow, own_wait(rebalance)
        if slow is not None and own > LONG_S and slow.member_id not in main.members:
            code = Diagnosis.SLOW_REVOCATION if isinstance(rebalance, Reconciliation) else Diagnosis.SLOW_MEMBER
            self._slow(code, slow.member_id, own, rebalance)
        elif slow is not None and (slow.called or 0.0) > HEARTBEAT_SECONDS + LONG_S:
            called = slow.called or 0.0
            stalled = self._has_stalled(self.history.member(slow.member_id), called)
            code = Diagnosis.SLOW_MEMBER if stalled else Diagnosis.SELDOM_HEARTBEATS
            self._slow(code, slow.member_id, called, rebalance, stalled=stalled)
        elif isinstance(rebalance, Reconciliation):
            self._silence(rebalance)
        elif slow is None and main.code not in (Diagnosis.GHOST, Diagnosis.PAUSED_MEMBER, Diagnosis.CRASH_LOOP):
            self._all_slow(rebalance, main)

    def _nameless(self, rebalance: Rebalance, main: Finding) -> None:
        """Add a long wait in the log of a broker: it has no line about the last to join."""
        is_known = main.is_trouble or rebalance.initial or bool(rebalance.joins or rebalance.dropped)
        if is_known or not rebalance.lines or self.history.of_clients or isinstance(rebalance, Reconciliation):
            return
        waited = (rebalance.ended or rebalance.started) - rebalance.started
        if waited > HEARTBEAT_SECONDS + LONG_S:
            finding = self.finding(Diagnosis.SLOW_MEMBER)
            finding.count += 1
            finding.took(waited, rebalance)
            finding.add(rebalance)

    def _all_slow(self, rebalance: Rebalance, main: Finding) -> None:
        """Add members that took long to join again, and equally long, so that none of them is the slow one."""
        late = [
            (each.seconds - each.called, each.member_id)
            for each in rebalance.joins
            if each.called is not None and each.member_id not in main.members
        ]
        longest = max((own for own, _ in late), default=0.0)
        if rebalance.initial or longest <= LONG_S or rebalance.seconds <= HEARTBEAT_SECONDS + LONG_S:
            return
        for own, member_id in late[:_MOST_SLOW]:
            if own > longest / 2:
                self._slow(Diagnosis.SLOW_MEMBER, member_id, own, rebalance)

    def _silence(self, rebalance: Reconciliation) -> None:
        """Add a consumer that gave up partitions as soon as it was told to, but could not be told for a long time."""
        last = rebalance.last_release
        call = None if last is None else rebalance.revocation_sent.get(last[0])
        if last is None or call is None or rebalance.targeted is None or last[0] in rebalance.dropped:
            return
        silent = call - rebalance.targeted
        if silent > (self.history.heartbeat_interval_ms or CONSUMER_HEARTBEAT_MS) / 1000 + LONG_S:
            self._slow(Diagnosis.SLOW_REVOCATION, last[0], silent, rebalance, stalled=True)

    def _revocation(self, before: Rebalance, rebalance: Rebalance) -> None:
        """Add a member of a cooperative group whose revoked partitions stood still until it joined again."""
        if rebalance.cause != Cause.COOPERATIVE_FOLLOWUP or before.assigned is None:
            return
        waited = rebalance.started - before.assigned
        if waited > LONG_S and rebalance.trigger in self.history.members:
            self._slow(Diagnosis.SLOW_REVOCATION, rebalance.trigger, waited, rebalance)

    def _subscriptions(self, rebalance: Rebalance, until: float) -> None:
        """Add members with different subscriptions, if the assignments, in effect up to a time, do not fit."""
        if isinstance(rebalance, Reconciliation) or rebalance.assigned is None or not rebalance.subscriptions:
            return
        read = {topic for topic, _ in rebalance.owned_after}
        unread = {topic for topics in rebalance.subscriptions.values() for topic in topics} - read
        astray = {
            owner
            for (topic, _), owner in rebalance.owned_after.items()
            if topic not in rebalance.subscriptions.get(owner, [topic])
        }
        in_want = astray or {each for each, topics in rebalance.subscriptions.items() if unread & set(topics)}
        lasted = min(until, self.history.last) - rebalance.assigned
        # A leader that did not know a topic yet joins again at once.
        if not in_want or lasted <= LONG_S:
            return
        finding = self.finding(Diagnosis.DIFFERENT_SUBSCRIPTIONS, self.history.member(min(in_want)))
        finding.topics = tuple(sorted({*finding.topics, *unread}))
        finding.cost += max(lasted * len(unread), LONG_S)
        finding.seconds += lasted
        finding.count += 1
        finding.seqs = finding.seqs[0] or rebalance.first_seq, rebalance.last_seq

    def _has_stalled(self, member: Member, called: float) -> bool:
        """True if no interval explains so late a heartbeat: the process stood still. Where heartbeats do not show, an
        interval is taken for a third of the session at most, as clients advise.
        """
        if member.beat:
            return called > _STALLED * member.beat
        return bool(member.session_timeout_ms) and called > (member.session_timeout_ms or 0) / 3000

    def _slow(
        self, code: Diagnosis, member_id: str, seconds: float, rebalance: Rebalance, *, stalled: bool = False
    ) -> None:
        finding = self.finding(code, self.history.member(member_id))
        finding.stalled = stalled and (finding.stalled or not finding.count)
        finding.count += 1
        finding.took(seconds, rebalance)
        # Beside another trouble, only its own wait is its cost.
        is_alone = self.latest is None or self.latest is finding or not self.latest.is_trouble
        finding.add(rebalance, None if is_alone else min(cost_of(rebalance), seconds * max(1, len(rebalance.joins))))

    def _has_other_partitions(self, rebalance: Rebalance) -> bool:
        """True if a topic has more partitions than before, or is gone while others stay."""
        topics = {topic for topic, _ in rebalance.owned_before}
        remaining = {topic for topic, _ in rebalance.owned_after}
        has_more = any(each[0] in topics for each in rebalance.owned_after.keys() - rebalance.owned_before.keys())
        return has_more or bool(remaining and topics - remaining)

    def _was_emptied(self) -> bool:
        """True if a group of several members was empty and has several again: the log of a broker names few of them."""
        sizes = [each.size or 0 for each in self.rebalances if each.initial]
        return self.history.is_of_log and len(sizes) > 1 and min(sizes) > 1

    def _was_empty(self) -> bool:
        """True if all members had left before the first came back."""
        return any(each.initial for each in self.rebalances[1:])


_OF_MEMBERS = frozenset({Cause.NEW_MEMBER, Cause.MEMBER_LEFT, Cause.SESSION_EXPIRED, Cause.POLL_TIMEOUT_REASON})
_REJOINS = frozenset({Cause.LEADER_REJOINED})
_BLAMES = frozenset(
    {Cause.SUBSCRIPTION_CHANGED, Cause.REBALANCE_TIMEOUT, Cause.PENDING_SYNC_EXPIRED, Cause.STATIC_REPLACED}
)


def _newcomer(rebalance: Rebalance) -> str:
    return rebalance.trigger if rebalance.cause == Cause.NEW_MEMBER else ""

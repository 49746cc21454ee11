"""Plain text of `kafka-shim why`, the explanation of a group's rebalances, at most 80 columns wide.

Without a terminal there are no bars. There are no colours: words carry all information.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from textwrap import wrap
from typing import Final

from kafka_shim.apis.readable import LONGEST_LINE, readable
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.trace.reconciliation import Reconciliation
from kafka_shim.why.causes import clause
from kafka_shim.why.explanation import Explanation
from kafka_shim.why.remedies import LIKELY, Remedy, span
from kafka_shim.why.work import has_partitions, work_of

COLUMNS: Final = 80
BAR: Final = 20
_NAME: Final = 20
_LABEL: Final = re.compile(r"  [a-z][a-z ]{8} |  \d+  | +")
"""The begin of a line up to its text: a word and spaces, the number of a remedy, or spaces."""


def lines(explanation: Explanation, *, bars: bool = True, brief: bool = False, zone: tzinfo = UTC) -> Iterator[str]:
    """Yield the lines of an explanation; with `brief` one line per rebalance. Times are in `zone`."""
    for line in _lines(explanation, bars, brief, zone):
        yield from _folded(line)


def _lines(explanation: Explanation, bars: bool, brief: bool, zone: tzinfo) -> Iterator[str]:
    history = explanation.history
    members, partitions = len(history.present), len(history.owners) if history.present else 0
    word = "generation" if history.epochs is None else "epoch"
    generation = "" if history.generation is None else f", {word} {history.generation}"
    state = f", {history.state}" if history.state else ""
    is_known = has_partitions(history.protocol_type)
    kind = history.kind if is_known else f"{history.kind} of type {readable(history.protocol_type)}"
    # The trace does not show how many partitions a topic without an owner has.
    owned = " owned" if any(each.topics for each in explanation.advice.findings) else ""
    shares = f", {_count(partitions, 'partition')}{owned}" if is_known else ""
    if history.lacks_assignments:
        # It has neither protocol nor partitions, and perhaps not all members.
        count = "" if history.size is None else f", {_count(history.size, 'member')}"
        # Nor the time at which an epoch is stable.
        state = state if history.epochs is None else ""
        yield f"{readable(history.group)}  {history.kind}{count}{state}{generation}"
    else:
        # The assignor of a coordinator is in no record.
        is_unsaid = history.is_of_topic and not history.protocol
        protocol = "" if is_unsaid else f", {readable(history.protocol or 'no protocol yet')}"
        yield (f"{readable(history.group)}  {kind}{protocol}, {_count(members, 'member')}{shares}{state}{generation}")
    yield from _verdict(explanation)
    yield ""
    yield from _body(explanation, bars, brief, zone)


def _body(explanation: Explanation, bars: bool, brief: bool, zone: tzinfo) -> Iterator[str]:
    history = explanation.history
    if brief:
        for each in explanation.rebalances:
            yield brief_line(explanation, each, zone)
        return
    for pattern in explanation.patterns:
        because = clause(pattern.cause, readable(pattern.who), history.protocol_type)
        yield (
            f"Pattern, {pattern.count} times, every {span(pattern.period)}: {pattern.cause}, {because}"
            f"   [first {pattern.lines[0] if pattern.lines else pattern.first_seq},"
            f" last {pattern.lines[-1] if pattern.lines else pattern.last_seq}]"
        )
    if explanation.patterns:
        yield ""
    if explanation.rebalances:
        yield from _whole(explanation, explanation.last, bars, zone)
    earlier = explanation.rebalances[:-1]
    if earlier:
        yield ""
        yield f"Before it, the newest first ({len(earlier)}):"
        for each in list(reversed(earlier))[:5]:
            yield "  " + brief_line(explanation, each, zone)
        if len(earlier) > 5:
            yield f"  and {len(earlier) - 5} more: --brief shows one line for each, --last N shows the last N in full"
    yield ""
    yield from _advice(explanation)


def whole(explanation: Explanation, last: int, *, bars: bool, zone: tzinfo) -> Iterator[str]:
    """Yield the `last` rebalances of an explanation in full, oldest first, and the advice for all of them."""
    for line in _in_full(explanation, last, bars, zone):
        yield from _folded(line)


def _folded(line: str) -> list[str]:
    """Return a line as lines of at most 80 columns, the later ones indented as its text. A long name stays whole."""
    line = readable(line, LONGEST_LINE)
    if len(line) <= COLUMNS:
        return [line]
    label = _LABEL.match(line)
    indent = " " * (label.end() if label else 0)
    return wrap(line, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _in_full(explanation: Explanation, last: int, bars: bool, zone: tzinfo) -> Iterator[str]:
    yield from _verdict(explanation)
    for each in explanation.rebalances[-last:]:
        yield ""
        yield from _whole(explanation, each, bars, zone)
    yield ""
    yield from _advice(explanation)


def _verdict(explanation: Explanation) -> Iterator[str]:
    yield explanation.verdict
    for sentence in explanation.history.missing.sentences:
        yield f"Not complete: {sentence}."


def clock(wall: float, zone: tzinfo) -> str:
    """Format a wall-clock time with milliseconds."""
    return datetime.fromtimestamp(wall, zone).strftime("%H:%M:%S.%f")[:-3]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _place(each: Rebalance) -> str:
    """Return the place of a rebalance: its first and its last line in a log, or its sequence numbers in a trace."""
    if not each.lines:
        return f"seq {each.first_seq}-{each.last_seq}"
    return " to ".join(dict.fromkeys(readable(each.lines[place]) for place in (0, -1)))


def _generations(each: Rebalance) -> str:
    before = "none" if each.generation_before is None else each.generation_before
    word = "epoch" if isinstance(each, Reconciliation) else "generation"
    return f"{word} {before} -> {'not reached' if each.generation is None else each.generation}"


def brief_line(explanation: Explanation, each: Rebalance, zone: tzinfo) -> str:
    """Return one line about a rebalance."""
    # When the rebalance of a record began does not show.
    took = "" if each.is_snapshot else f" {span(each.seconds)},"
    return (
        f"{clock(each.started, zone)}  {_generations(each)},{took} {each.cause or 'unknown'}:"
        f" {explanation.reason(each)}"
        + (f"; slow: {explanation.names(each.slow.member_id)}, {span(each.slow.seconds)}" if each.slow else "")
    )


def _whole(explanation: Explanation, each: Rebalance, bars: bool, zone: tzinfo) -> Iterator[str]:
    end = each.started + each.seconds
    took = f"to {clock(end, zone)}, {span(each.seconds)}"
    time = f"over at {clock(end, zone)}" if each.is_snapshot else f"{clock(each.started, zone)} {took}"
    yield f"{_generations(each)}, {time}   [{_place(each)}]"
    yield f"  cause     {each.cause or 'unknown'}: {explanation.reason(each)}"
    title = "phases"
    for phase in () if each.is_snapshot else each.phases:
        share = phase.seconds / each.seconds if each.seconds else 0.0
        bar = "#" * max(1, round(share * BAR)) if bars else ""
        who = f" ({', '.join(explanation.names(member) for member in phase.members[:3])})" if phase.members else ""
        filler = f"{bar:{BAR}} " if bars else ""
        yield f"  {title:9} {phase.name:{_NAME}} {filler}{span(phase.seconds):>7} {share:4.0%}{who}"
        title = ""
    slow = each.slow
    if isinstance(each, Reconciliation):
        yield from _reconciliation(explanation, each)
    elif slow is not None:
        called = f"; it was called by a heartbeat after {span(slow.called)}" if slow.called is not None else ""
        next_ = each.joins[1]
        yield (
            f"  slow      {explanation.names(slow.member_id)} joined after {span(slow.seconds)}; the next slowest,"
            f" {explanation.names(next_.member_id)}, after {span(next_.seconds)}{called}"
        )
    if each.dropped:
        dropped = ", ".join(explanation.names(member) for member in each.dropped[:5])
        yield f"  dropped   {dropped}"
    if each.moved is not None and each.owned_before:
        moves = each.moved
        yield (
            f"  moved     {moves.moved} of {_count(len(each.owned_after), 'partition')}; {moves.needed} had to"
            + (f"; {len(moves.between)} between members that stayed" if moves.between else "")
        )
    elif each.has_revoked and not each.lines:
        yield "  moved     nothing yet: the next rebalance assigns the revoked partitions"
    if each.is_snapshot:
        if each.leader and each.assigned is not None:
            thought = span(each.seconds)
            yield f"  leader    {explanation.names(each.leader)} assigned {thought} after all had joined"
        yield "  cost      does not show: no record has the beginning of a rebalance"
    elif each.lines and not each.is_of_topic:
        yield "  cost      does not show: a log has no partitions of members"
    elif isinstance(each, Reconciliation):
        yield f"  cost      {each.partition_seconds:.1f} partition-seconds stopped; kept partitions do not stop"
    else:
        yield _cost(each, explanation.history.protocol_type)
    for fault in each.faults:
        yield f"  fault     injected: {fault}"


def _cost(each: Rebalance, protocol_type: str) -> str:
    # A server's memory has events of groups, but may lack those of requests.
    members = "unknown" if each.member_seconds is None else f"{each.member_seconds:.1f}"
    if not has_partitions(protocol_type):
        return f"  cost      {members} member-seconds; how long {work_of(protocol_type)} stood still does not show"
    return f"  cost      {members} member-seconds, {each.partition_seconds:.1f} partition-seconds stopped" + (
        "; eager: all stop until the last has joined" if each.eager and len(each.members) > 1 else ""
    )


def _reconciliation(explanation: Explanation, each: Reconciliation) -> Iterator[str]:
    """Yield the lines of a group with epochs: its slow member, and the members that waited for others."""
    names, slow = explanation.names, each.slow
    if slow is not None and slow.called is not None:
        yield (
            f"  slow      {names(slow.member_id)} gave up its partitions {span(slow.seconds - slow.called)} after it"
            f" was told to, {span(slow.called)} after the start"
        )
    waiters: dict[str, list[str]] = {}
    for wait in each.waits:
        waiters.setdefault(wait.holder, []).append(names(wait.member_id))
    for holder, waiting in list(waiters.items())[:5]:
        more = f" and {len(waiting) - 5} more" if len(waiting) > 5 else ""
        yield f"  waited    {', '.join(waiting[:5])}{more} for {names(holder)}"
    epochs = explanation.history.epochs
    if epochs is not None and each is explanation.history.current:
        for member_id, what in epochs.waiting()[:5]:
            yield f"  waits for {explanation.names(member_id) + ', which ' if member_id else ''}{what}"


def _advice(explanation: Explanation) -> Iterator[str]:
    remedies = explanation.advice.remedies
    if remedies:
        yield "What to do"
        for number, remedy in enumerate(remedies, 1):
            yield from _remedy(number, remedy, is_of_log=explanation.history.is_of_log)
            lines_ = explanation.lines_of(remedy)
            if lines_:
                yield f"     see {', '.join(map(readable, lines_))}"
        if explanation.note:
            yield explanation.note
    else:
        yield f"What to do: {explanation.advice_text}"
    for limit in explanation.limits:
        yield f"Cannot tell from this source: {limit}."
    notes = explanation.advice.would_not_help
    if notes and remedies:
        yield f"Would not help: {'; '.join(notes)}."


def _remedy(number: int, remedy: Remedy, *, is_of_log: bool = False) -> Iterator[str]:
    yield f"  {number}  {remedy.who}, {remedy.side}: {remedy.setting}  {remedy.seen} -> {remedy.proposed}"
    yield f"     {remedy.why}" + (f"; {remedy.price}" if remedy.price else "")
    if remedy.sources:
        yield f"     known: {', '.join(remedy.sources)}"
    elif remedy.before is not None and remedy.after is not None:
        yield f"     replayed: {_played(remedy)}"
    elif remedy.grade != LIKELY:
        yield f"     {'the log does' if is_of_log else 'the requests do'} not show why"
    else:
        yield "     likely, not replayed"


def _played(remedy: Remedy) -> str:
    before, after = remedy.before, remedy.after
    assert before is not None
    assert after is not None
    parts: Sequence[tuple[str, float, float]] = (
        ("rebalances", before.rebalances, after.rebalances),
        ("partitions moved", before.moved, after.moved),
        ("partition-seconds stopped", before.partition_seconds, after.partition_seconds),
    )
    return ", ".join(f"{_number(old)} -> {_number(new)} {what}" for what, old, new in parts if old != new)


def _number(value: float) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)

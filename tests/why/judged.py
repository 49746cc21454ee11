"""How right `why` is: what it names, against what was brought about, as a table in docs/why.md.

Decides what counts as the same thing. Generated groups come with a list of what was put into them
(`pipeline/generate/faults.py`), the recording of a real Kafka with the story of what was done to its consumers.
`python -m tests.why.judged` writes the table, in about a minute; `test_judged.py` has the smaller form with thresholds.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafka_shim.groups.causes import Cause
from kafka_shim.pipeline.generate.faults import Fault
from kafka_shim.pipeline.generate.model import Group
from kafka_shim.pipeline.generate.write import LEAST_DURATION_S, START, WALL_OFFSET
from kafka_shim.why.explanation import Explanation, explain
from kafka_shim.why.history import GroupHistory, History
from kafka_shim.why.rebalance import LEADER_THINKS

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "why.md"
RECORDING: Final = ROOT / "tests" / "pipeline" / "recordings" / "kafka-4.2"
CASES: Final = 50
JUDGED: Final = (
    *(Fault.NONE, Fault.NONE, Fault.STORM, Fault.SLOW_MEMBER, Fault.SLOW_LEADER, Fault.EXPIRY, Fault.POLL_TIMEOUT),
    *(Fault.BOUNCE, Fault.NEAR_MISS),
)
_LEADER_S: Final = 2.0
_TABLE: Final = re.compile(r"(<!-- judged -->\n).*?(<!-- end of judged -->)", re.DOTALL)

Found = tuple[str, ...]
"""What is named: its kind, its group, and what it takes to tell it from others."""


class Score(NamedTuple):
    """How many were brought about, how many were named, and how many of these are the same."""

    done: int
    named: int
    right: int

    @property
    def precision(self) -> float:
        return self.right / self.named if self.named else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.done if self.done else 1.0


def scores(done: Counter[Found], named: Counter[Found]) -> dict[str, Score]:
    """By kind."""
    kinds = sorted({each[0] for each in (*done, *named)})
    return {
        kind: Score(*(sum(n for each, n in of.items() if each[0] == kind) for of in (done, named, done & named)))
        for kind in kinds
    }


# Generated traces


def of_generated(cases: int) -> tuple[Counter[Found], Counter[Found]]:
    """What was put into generated groups, `cases` of each kind and twice as many of none, and what is named."""
    done: Counter[Found] = Counter()
    named: Counter[Found] = Counter()
    faults = [fault for fault in JUDGED for _ in range(cases)]
    for index, fault in enumerate(faults):
        group = Group(index, 0, fault, START, LEAST_DURATION_S, 0)
        history = History()
        for seq, (at, kind, fields) in enumerate(group.run()):
            event = {"event": kind, "seq": seq, "mono": at, "wall": at + WALL_OFFSET, **json.loads(f"{{{fields}}}")}
            history.add(event)
        done.update(each for fault in group.listed for each in _put(fault))
        for each in history.groups.values():
            explanation = explain(each, list(each.rebalances))
            if explanation is not None:
                named.update(_named(each, explanation))
    return done, named


def _put(fault: dict[str, Any]) -> Iterator[Found]:
    group, kind = fault["group"], fault["kind"]
    if kind == "rebalance":
        yield f"cause {fault['cause']}", group, str(fault["generation"])
    elif kind in ("slow_member", "slow_leader"):
        yield kind.replace("_", " "), group, str(fault["generation"]), fault["member_id"]
    elif kind in ("session_expired", "poll_timeout"):
        yield f"who brought about {_CAUSES[kind]}", group, fault["member_id"]
    elif kind == "storm":
        yield "storm", group
    elif kind == "bounce":
        yield "restart that static members would spare", group


_CAUSES: Final = {"session_expired": Cause.SESSION_EXPIRED, "poll_timeout": Cause.POLL_TIMEOUT_REASON}


def _named(history: GroupHistory, explanation: Explanation) -> Iterator[Found]:
    group = history.group
    for each in explanation.rebalances:
        generation = str(each.generation)
        yield f"cause {each.cause}", group, generation
        if each.cause in _CAUSES.values():
            yield f"who brought about {each.cause}", group, each.trigger
        if each.slow is not None:
            yield "slow member", group, generation, each.slow.member_id
        if any(phase.name == LEADER_THINKS and phase.seconds > _LEADER_S for phase in each.phases):
            yield "slow leader", group, generation, each.leader
    if explanation.storm:
        yield "storm", group
    elif any(remedy.setting == "group.instance.id" for remedy in explanation.advice.remedies):
        # In a storm, members that are back in seconds are the storm.
        yield "restart that static members would spare", group


# A real Kafka


def of_kafka() -> tuple[Counter[Found], Counter[Found]]:
    """What was done to real consumers of a real Kafka, and what is named."""
    causes = {"started": Cause.NEW_MEMBER, "killed": Cause.SESSION_EXPIRED, "closed": Cause.MEMBER_LEFT}
    story = json.loads((RECORDING / "story.json").read_text())
    done = Counter((f"cause {causes[act['what']]}", act["group"], act["member_id"]) for act in story if act["rounds"])
    history = History()
    with gzip.open(RECORDING / "trace" / "trace.jsonl.gz") as trace:
        for line in trace:
            history.add(json.loads(line))
    named = Counter(
        (f"cause {each.cause}", each.group, each.trigger)
        for group in history.groups.values()
        for each in group.rebalances
        # Nobody brings it about: it follows when what was given up finds its new owner.
        if each.cause != Cause.COOPERATIVE_FOLLOWUP
    )
    return done, named


# The table


def table() -> list[str]:
    """The lines of the table."""
    lines = ["| | brought about | named | precision | recall |", "| --- | ---: | ---: | ---: | ---: |"]
    for title, found in all_scores().items():
        lines.append(f"| **{title}** | | | | |")
        lines += [
            f"| {kind} | {score.done} | {score.named} | {score.precision:.3f} | {score.recall:.3f} |"
            for kind, score in found.items()
        ]
    return lines


def all_scores(cases: int = CASES) -> dict[str, dict[str, Score]]:
    """By where they come from and kind."""
    return {
        f"generated traces of {cases * len(JUDGED)} groups": scores(*of_generated(cases)),
        "Apache Kafka 4.2.2 with kafka-python, confluent-kafka and Java": scores(*of_kafka()),
    }


def renewed(page: str, lines: list[str]) -> str:
    """The page with this table."""
    return _TABLE.sub(lambda match: match[1] + "\n" + "\n".join(lines) + "\n\n" + match[2], page)


if __name__ == "__main__":
    rows = table()
    PAGE.write_text(renewed(PAGE.read_text(), rows))
    sys.stdout.write("\n".join(rows) + "\n")

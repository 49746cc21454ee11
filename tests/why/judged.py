"""Precision and recall of `why`: its diagnoses against the true causes, as a table in docs/why.md.

Generated groups come with a list of their faults (`pipeline/generate/faults.py`), the recording of a real Kafka with
the story of every action on its consumers.
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

from kafka_shim.pipeline.generate.classic_group import ClassicGroup
from kafka_shim.pipeline.generate.faults import Fault
from kafka_shim.pipeline.generate.write import LEAST_DURATION_S, START, WALL_OFFSET
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.history import GroupHistory, History
from kafka_shim.trace.rebalance import LEADER_THINKS
from kafka_shim.why.explanation import Explanation, explain

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
"""A diagnosis: its kind, its group, and enough to tell it from others of the kind."""


class Score(NamedTuple):
    """The number of true causes, of diagnoses, and of diagnoses that are true."""

    done: int
    diagnoses: int
    right: int

    @property
    def precision(self) -> float:
        return self.right / self.diagnoses if self.diagnoses else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.done if self.done else 1.0


def scores(done: Counter[Found], diagnoses: Counter[Found]) -> dict[str, Score]:
    """Return the score of each kind."""
    kinds = sorted({each[0] for each in (*done, *diagnoses)})
    return {
        kind: Score(
            *(sum(n for each, n in of.items() if each[0] == kind) for of in (done, diagnoses, done & diagnoses))
        )
        for kind in kinds
    }


# Generated traces


def of_generated(cases: int) -> tuple[Counter[Found], Counter[Found]]:
    """Return faults and diagnoses of generated groups: `cases` of each kind, twice as many without a fault."""
    done: Counter[Found] = Counter()
    diagnoses: Counter[Found] = Counter()
    faults = [fault for fault in JUDGED for _ in range(cases)]
    for index, fault in enumerate(faults):
        group = ClassicGroup(index, 0, fault, START, LEAST_DURATION_S, 0)
        history = History()
        for seq, (at, kind, fields) in enumerate(group.run()):
            event = {"event": kind, "seq": seq, "mono": at, "wall": at + WALL_OFFSET, **json.loads(f"{{{fields}}}")}
            history.add(event)
        done.update(each for fault in group.faults for each in _put(fault))
        for each in history.groups.values():
            explanation = explain(each, list(each.rebalances))
            if explanation is not None:
                diagnoses.update(_named_causes(each, explanation))
    return done, diagnoses


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


_RESTARTS: Final = frozenset({"RESTART", "ROLLING_RESTART", "DEPLOY", "FLAPPING"})


def _named_causes(history: GroupHistory, explanation: Explanation) -> Iterator[Found]:
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
    elif any(remedy.key == "group.instance.id" and remedy.code in _RESTARTS for remedy in explanation.advice.remedies):
        # The storm is the cause of members that come back within seconds.
        yield "restart that static members would spare", group


# A real Kafka


def of_kafka() -> tuple[Counter[Found], Counter[Found]]:
    """Return the actions on real consumers of a real Kafka, and the diagnoses."""
    causes = {"started": Cause.NEW_MEMBER, "killed": Cause.SESSION_EXPIRED, "closed": Cause.MEMBER_LEFT}
    story = json.loads((RECORDING / "story.json").read_text())
    done = Counter((f"cause {causes[act['what']]}", act["group"], act["member_id"]) for act in story if act["rounds"])
    history = History()
    with gzip.open(RECORDING / "trace" / "trace.jsonl.gz") as trace:
        for line in trace:
            history.add(json.loads(line))
    diagnoses = Counter(
        (f"cause {each.cause}", each.group, each.trigger)
        for group in history.groups.values()
        for each in group.rebalances
        # No action causes it: it follows when the revoked partitions find their new owner.
        if each.cause != Cause.COOPERATIVE_FOLLOWUP
    )
    return done, diagnoses


# The table


def table() -> list[str]:
    """Return the lines of the table."""
    lines = ["| | brought about | named | precision | recall |", "| --- | ---: | ---: | ---: | ---: |"]
    for title, by_kind in all_scores().items():
        lines.append(f"| **{title}** | | | | |")
        lines += [
            f"| {kind} | {score.done} | {score.diagnoses} | {score.precision:.3f} | {score.recall:.3f} |"
            for kind, score in by_kind.items()
        ]
    return lines


def all_scores(cases: int = CASES) -> dict[str, dict[str, Score]]:
    """Return the scores by source and kind."""
    return {
        f"generated traces of {cases * len(JUDGED)} groups": scores(*of_generated(cases)),
        "Apache Kafka 4.2.2 with kafka-python, confluent-kafka and Java": scores(*of_kafka()),
    }


def renewed(page: str, lines: list[str]) -> str:
    """Return the page with this table."""
    return _TABLE.sub(lambda match: match[1] + "\n" + "\n".join(lines) + "\n\n" + match[2], page)


if __name__ == "__main__":
    rows = table()
    PAGE.write_text(renewed(PAGE.read_text(), rows))
    sys.stdout.write("\n".join(rows) + "\n")

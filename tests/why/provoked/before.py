"""The fourteen cases in which an early `why` was tried by hand, and its answers today to recordings of the same cases.

`python -m tests.why.provoked.before` prints the table of docs/why.md. An early answer is as it was seen at the time:
`half` is an answer that was vague, `second` a right remedy that was not the first.
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

from tests.why.provoked.cases import AIO, CONFLUENT, KIP848, KP3
from tests.why.provoked.judge import SETS, judged


class Early(NamedTuple):
    """A case and the client of its recording; parts of the early answer, empty if none was due."""

    story: str
    case: str
    client: str
    cause: str
    culprit: str
    remedy: str
    calm: str = "no"


FOURTEEN: Final = (
    Early("killed with SIGKILL", "killed-for-good", KP3, "yes", "yes", "second"),
    Early("poll interval exceeded", "poll-interval-exceeded", KP3, "no", "yes", "no"),
    Early("rolling restart", "rolling-restart", CONFLUENT, "yes", "", "yes"),
    Early("other subscription", "subscribes-to-more", CONFLUENT, "half", "yes", ""),
    Early("a topic has more partitions", "topic-grows", CONFLUENT, "half", "", ""),
    Early("two processes with one `group.instance.id`", "one-instance-id-twice", KP3, "no", "no", "no", "yes"),
    Early("a member joins 9 s late", "slow-to-join-again", KP3, "yes", "yes", "no", "yes"),
    Early("slow callback, KIP-848", "slow-to-give-up-partitions", KIP848, "yes", "yes", "no"),
    Early("paused for longer than its session", "paused-longer-than-its-session", KP3, "yes", "yes", "yes"),
    Early("session timeout too long", "session-timeout-too-long", CONFLUENT, "no", "no", "no", "yes"),
    Early("killed, behind a relay", "killed-behind-a-relay", CONFLUENT, "yes", "no", "second"),
    Early("poll interval exceeded", "poll-interval-exceeded", CONFLUENT, "no", "yes", "no", "yes"),
    Early("killed, and started again within 2 s", "killed-and-restarted-at-once", KP3, "half", "yes", "no", "yes"),
    Early("an assignor that no other member has", "other-assignor", AIO, "no", "no", "no"),
)


def table() -> list[str]:
    """Return the rows of the table: each part of the answer, the early one and the one of today."""
    lines = [
        "| | case | client | cause | culprit | first remedy | false calm |",
        "| ---: | --- | --- | --- | --- | --- | --- |",
    ]
    cases = {each.name: each for each in SETS["provoked"]}
    for number, early in enumerate(FOURTEEN, 1):
        now = judged(cases[early.case], early.client)
        parts = (
            _cell(early.cause, now.cause),
            _cell(early.culprit, now.culprit),
            _cell(early.remedy, now.remedy),
            _cell(early.calm, now.false_calm),
        )
        lines.append(f"| {number} | {early.story} | {early.client} | {' | '.join(parts)} |")
    return lines


def _cell(early: str, now: bool | None) -> str:
    if not early:
        return "none due"
    return f"{early} → {'yes' if now else 'no'}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(table()) + "\n")

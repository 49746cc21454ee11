"""The judge of `why` on recordings of real clients: the answer to each provoked case against its truth.

`python -m tests.why.provoked.judge [SET]` prints every case of a set, and a table by client.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_shim.lab.replaying import play
from kafka_shim.trace.history import History
from kafka_shim.why.explanation import Explanation, explain
from tests.why.provoked.aside import ASIDE
from tests.why.provoked.blind import BLIND
from tests.why.provoked.cases import CASES, Case
from tests.why.provoked.eight import EIGHT
from tests.why.provoked.eight_again import EIGHT_AGAIN
from tests.why.provoked.eight_final import EIGHT_FINAL
from tests.why.provoked.eight_last import EIGHT_LAST
from tests.why.provoked.epochs import EPOCHS
from tests.why.provoked.further import FURTHER
from tests.why.provoked.held_out import HELD_OUT
from tests.why.provoked.languages import LANGUAGES
from tests.why.provoked.last import LAST
from tests.why.provoked.lives import LIVES
from tests.why.provoked.outside import OUTSIDE
from tests.why.provoked.strangers import STRANGERS
from tests.why.provoked.texts import contradictions
from tests.why.provoked.unread import UNREAD
from tests.why.provoked.unseen import UNSEEN

RECORDINGS = Path(__file__).parents[1] / "recordings"
SETS = {
    "provoked": CASES,
    "held_out": HELD_OUT,
    "languages": LANGUAGES,
    "aside": ASIDE,
    "lives": LIVES,
    "strangers": STRANGERS,
    "unseen": UNSEEN,
    "epochs": EPOCHS,
    "last": LAST,
    "further": FURTHER,
    "blind": BLIND,
    "eight": EIGHT,
    "eight_again": EIGHT_AGAIN,
    "eight_last": EIGHT_LAST,
    "eight_final": EIGHT_FINAL,
    "unread": UNREAD,
    "outside": OUTSIDE,
}
"""The sets of cases, by the folder of their recordings."""
SPELLINGS = {
    "kafka-python": {
        "max.poll.records": "max_poll_records",
        "max.poll.interval.ms": "max_poll_interval_ms",
        "session.timeout.ms": "session_timeout_ms",
        "heartbeat.interval.ms": "heartbeat_interval_ms",
        "group.instance.id": "group_instance_id",
        "partition.assignment.strategy": "partition_assignment_strategy",
    },
    "franz-go": {
        "group.instance.id": "kgo.InstanceID",
        "session.timeout.ms": "kgo.SessionTimeout",
        "partition.assignment.strategy": "kgo.Balancers",
        "max.poll.records": "the argument of PollRecords",
    },
    "sarama": {
        "group.instance.id": "Consumer.Group.InstanceId",
        "session.timeout.ms": "Consumer.Group.Session.Timeout",
        "heartbeat.interval.ms": "Consumer.Group.Heartbeat.Interval",
        "partition.assignment.strategy": "Consumer.Group.Rebalance.GroupStrategies",
    },
    "kafkajs": {
        "session.timeout.ms": "sessionTimeout",
        "partition.assignment.strategy": "partitionAssigners",
        "group.id": "groupId",
    },
    "kafka-go": {
        "session.timeout.ms": "SessionTimeout",
        "heartbeat.interval.ms": "HeartbeatInterval",
        "partition.assignment.strategy": "GroupBalancers",
        "group.id": "GroupID",
    },
}
SPELLINGS["aiokafka"] = SPELLINGS["kafka-python"]
"""How each client spells the settings of the truths; Java and librdkafka use Kafka's names."""
_NOT_IN_OLD_CLIENTS = ("group.instance.id", "max.poll.records", "max.poll.interval.ms")
WITHOUT = {"kafka-go": _NOT_IN_OLD_CLIENTS, "kafkajs": _NOT_IN_OLD_CLIENTS}
"""Settings that a client does not have, so no true remedy of it: kafka-go sends JoinGroup up to version 2, and static
members need version 5; KafkaJS has no setting for them.
"""


class Judged(NamedTuple):
    """The answer to one case. `remedy` is None if none was due and `calm` None if both answers are right."""

    case: str
    client: str
    cause: bool
    culprit: bool | None
    remedy: bool | None
    false_calm: bool
    needless: bool
    contradictions: tuple[str, ...]
    answer: str

    @property
    def is_right(self) -> bool:
        """True if no part of the answer is wrong, and no two parts contradict each other."""
        parts = self.cause and self.culprit is not False and self.remedy is not False and not self.contradictions
        return parts and not self.false_calm and not self.needless


def recording_of(case: Case, client: str) -> Path:
    """Return the path of a recording."""
    folder = next(name for name, cases in SETS.items() if any(each.act is case.act for each in cases))
    return RECORDINGS / folder / f"{case.name}-{client}.jsonl.gz"


def explained(case: Case, client: str) -> Explanation | None:
    """Explain a recording, with replayed remedies."""
    group = f"{case.name}-{client}"
    history = History()
    with gzip.open(recording_of(case, client)) as trace:
        for line in trace:
            history.add(json.loads(line))
    of_group = history.groups[group]
    return explain(of_group, list(of_group.rebalances), play)


def judged(case: Case, client: str) -> Judged:
    """Judge the answer to one recording."""
    explanation = explained(case, client)
    assert explanation is not None
    findings, remedies = explanation.advice.findings, explanation.advice.remedies
    first = findings[0]
    remedy = None
    if case.remedies and case.calm is False:
        spelled = remedies and remedies[0].setting == _spelled(remedies[0], case.others.get(client, client))
        remedy = bool(spelled) and _is_true(remedies[0].key, case, client)
    elif remedies:
        remedy = _is_true(remedies[0].key, case, client)
    return Judged(
        case=case.name,
        client=client,
        cause=first.code in case.causes,
        culprit=first.client in case.culprits and first.client in explanation.verdict if case.culprits else None,
        remedy=remedy,
        false_calm=case.calm is False and explanation.is_calm,
        needless=case.calm is True and not explanation.is_calm,
        contradictions=tuple(contradictions(explanation, is_healthy=case.calm is True)),
        answer=f"{explanation.verdict} | {[(each.setting, each.grade) for each in remedies]}",
    )


def _is_true(key: str, case: Case, client: str) -> bool:
    """True if this remedy is among the true ones, and the client has its setting."""
    without = next((settings for name, settings in WITHOUT.items() if client.startswith(name)), ())
    return key in case.remedies and key not in without


def _spelled(remedy: object, client: str) -> str:
    key, setting = remedy.key, remedy.setting  # type: ignore[attr-defined]
    return str(setting) if key in ("process", "processing", "group.max.size") else spelled_for(key, client)


def spelled_for(key: str, client: str) -> str:
    """Return the name of a setting as this client spells it."""
    library = next((name for name in SPELLINGS if client.startswith(name)), "")
    return SPELLINGS.get(library, {}).get(key, key)


def all_judged(cases: Iterable[Case]) -> Iterator[Judged]:
    """Judge every recording of these cases."""
    for case in cases:
        for client in case.clients:
            yield judged(case, client)


def table(results: Iterable[Judged]) -> list[str]:
    """Return the rows of a table by client."""
    by_client: dict[str, list[Judged]] = {}
    for each in results:
        by_client.setdefault(each.client, []).append(each)
        by_client.setdefault("all", []).append(each)
    by_client["all"] = by_client.pop("all")
    lines = [
        "| client | cases | cause | culprit | first remedy | false calm | needless advice |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for client, of_client in by_client.items():
        culprits = [each.culprit for each in of_client if each.culprit is not None]
        remedies = [each.remedy for each in of_client if each.remedy is not None]
        lines.append(
            f"| {client} | {len(of_client)} | {sum(each.cause for each in of_client)} |"
            f" {sum(culprits)} of {len(culprits)} | {sum(remedies)} of {len(remedies)} |"
            f" {sum(each.false_calm for each in of_client)} | {sum(each.needless for each in of_client)} |"
        )
    return lines


def main(chosen: str = "provoked") -> None:
    results = list(all_judged(SETS[chosen]))
    for each in results:
        mark = "ok " if each.is_right else "BAD"
        sys.stdout.write(
            f"{mark} {each.case} {each.client}: cause {each.cause} culprit {each.culprit} remedy {each.remedy}"
            f" false calm {each.false_calm} needless {each.needless}\n      {each.answer}\n"
        )
        for sentence in each.contradictions:
            sys.stdout.write(f"      {sentence}\n")
    sys.stdout.write("\n".join(table(results)) + "\n")
    sys.stdout.write(f"contradictions: {sum(len(each.contradictions) for each in results)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

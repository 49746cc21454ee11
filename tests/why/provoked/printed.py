"""The answers of `why` as a person sees them: the text that the command prints on a recording, read by its sentences.

Some sets have their first texts in `recordings/first`, which are never written again: the tables by client in
docs/why.md are made from these. `python -m tests.why.provoked.printed` renews the tables; `... printed SET` writes the
first texts of a set, once.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from click.testing import CliRunner

from kafka_shim.commands.why import why
from tests.why.judged import PAGE, Score
from tests.why.provoked.cases import Case
from tests.why.provoked.judge import RECORDINGS, SETS, WITHOUT, recording_of, spelled_for

FIRST: Final = RECORDINGS / "first"
TABLES: Final = {"before": ("blind", "eight", "eight_again", "eight_last"), "by client": ("eight_final",)}
"""The sets of each table by client in docs/why.md. A set was printed before any rule was mended with its recordings."""
HELD_OUT: Final = tuple(name for names in TABLES.values() for name in names)
CLIENTS: Final = {
    "kafka-python-2": "kafka-python 2.3",
    "kafka-python-3": "kafka-python 3.0",
    "aiokafka": "aiokafka 0.14",
    "confluent-kafka": "librdkafka (confluent-kafka 2.16)",
    "java": "Java 4.2 and 4.4",
    "franz-go": "franz-go 1.22",
    "sarama": "sarama 1.61",
    "kafkajs": "kafkajs 2.2",
}
"""The rows of the table, by the begin of a client's name; other clients are in the last row alone."""
PARTS: Final = ("cause", "culprit", "first remedy", "calm")
_SENTENCES: Final = (
    ("JOIN_REFUSED", r"(?P<who>.+?) was refused (once|\d+ times)"),
    ("DUPLICATE_INSTANCE_ID", r"two processes have the group\.instance\.id (?P<who>.+?) and fence each other"),
    ("PAUSED_MEMBER", r"(?P<who>.+?) was paused for longer than its session timeout"),
    ("GHOST", r"(?P<who>.+?) was killed and the group waited .+ for it in vain"),
    ("CRASH_LOOP", r"(?P<who>.+?) comes again and again and never leaves"),
    ("FLAPPING", r"(members such as )?(?P<who>.+?) (leaves and comes back again and again|join for a short time)"),
    ("SLOW_MEMBER", r"the group waited up to .+? for (?P<who>.+?) to join again"),
    ("SLOW_REVOCATION", r"the group waited up to .+? for (?P<who>.+?) to give up partitions"),
    ("POLL_TIMEOUT_REASON", r"the application of (?P<who>.+?) did not poll within its poll interval"),
    ("SESSION_EXPIRED", r"(?P<who>.+?) died: it sent no heartbeat"),
    ("RESTART", r"(?P<who>.+?) was restarted, or replaced"),
    ("ROLLING_RESTART", "a rolling restart"),
    ("DEPLOY", "all members left, and new ones started: a deploy"),
    ("SCALE_OUT", "a scale-out: new members joined"),
    ("SCALE_IN", "a scale-in: members left and did not come back"),
    ("STATIC_REPLACED", r"(?P<who>.+?) was replaced by"),
    ("START", "the group started"),
)
_VERDICT: Final = re.compile(r"(?:Rebalanced|STORM:) .*?(?:once|times|rebalances)(?: in [\d.]+ \w+)?: (.*?)\.(?: |$)")
_REMEDY: Final = re.compile(r"^What to do\n  1  (?P<who>.+?), (?:client|broker|operator): (?P<rest>(?:.+\n)+)", re.M)
_NOTHING: Final = ("What to do: nothing", "What to do: no change is needed")
_WORDS: Final = {
    "process": "the process itself",
    "processing": "the work between two polls, and in rebalance callbacks",
}


class Answer(NamedTuple):
    """The first finding of a text, its member and the text of the first remedy, empty if there is none; and whether the
    text says that there is nothing to do.
    """

    cause: str
    culprit: str
    remedy: str
    calm: bool


def printed(case: Case, client: str) -> str:
    """Return the text that the command prints on a recording, as if that were a whole trace."""
    with tempfile.TemporaryDirectory() as folder, gzip.open(recording_of(case, client)) as lines:
        trace = Path(folder) / "trace.jsonl"
        # The recorder leaves events out that `why` does not read; the numbers of the others would show gaps.
        events = (json.loads(line) | {"seq": number} for number, line in enumerate(lines, 1))
        trace.write_text("".join(f"{json.dumps(event)}\n" for event in events))
        result = CliRunner().invoke(why, [f"{case.name}-{client}", str(trace), "--utc"])
    assert result.exit_code == 0, result.output
    return result.output


def read(text: str) -> Answer:
    """Read the text of an answer."""
    verdict = _VERDICT.search(" ".join(text.split()))
    first = "" if verdict is None else verdict[1].partition("; and ")[0]
    matches = ((code, re.match(sentence, first)) for code, sentence in _SENTENCES)
    cause, match = next(((code, match) for code, match in matches if match), ("", None))
    remedy = _REMEDY.search(text)
    return Answer(
        cause=cause,
        culprit="" if match is None else match.groupdict().get("who") or "",
        remedy="" if remedy is None else " ".join(remedy["rest"].split()),
        calm=any(each in text for each in _NOTHING),
    )


class Right(NamedTuple):
    """Whether a part of an answer was due, whether it was given, and whether it was right."""

    due: bool
    given: bool
    right: bool


def judged(case: Case, client: str, answer: Answer) -> dict[str, Right]:
    """Judge the parts of an answer; a member or a remedy that is named where there is nothing to do is wrong."""
    right = answer.cause in case.causes
    without = next((settings for name, settings in WITHOUT.items() if client.startswith(name)), ())
    spelled = [
        _WORDS.get(key, spelled_for(key, case.others.get(client, client)))
        for key in case.remedies
        if key not in without
    ]
    is_blamed = not answer.calm and bool(answer.culprit) and (bool(case.culprits) or case.calm is True)
    has_remedy = bool(answer.remedy) and (bool(case.remedies) or case.calm is True)
    return {
        "cause": Right(True, bool(answer.cause), right),
        "culprit": Right(bool(case.culprits), is_blamed, is_blamed and answer.culprit in case.culprits),
        "first remedy": Right(
            bool(case.remedies) and case.calm is False,
            has_remedy and case.calm is not None,
            any(answer.remedy.startswith(f"{each} ") for each in spelled) and case.calm is False,
        ),
        "calm": Right(case.calm is True, answer.calm and case.calm is not None, answer.calm and case.calm is True),
    }


def first_texts(name: str) -> dict[str, str]:
    """Return the first texts of a set, by recording."""
    with gzip.open(FIRST / f"{name}.json.gz") as file:
        texts: dict[str, str] = json.load(file)
    return texts


def keep_first(name: str) -> None:
    """Print each recording of a set and keep the texts. Raises FileExistsError if they are kept already."""
    texts = {f"{case.name}-{client}": printed(case, client) for case in SETS[name] for client in case.clients}
    FIRST.mkdir(exist_ok=True)
    with (FIRST / f"{name}.json.gz").open("xb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as out:
        out.write(json.dumps(texts).encode())


def of_first(names: Iterable[str] = HELD_OUT) -> Iterator[tuple[str, dict[str, Right]]]:
    """Yield the client and the judgement of each first text."""
    for name in names:
        texts = first_texts(name)
        for case in SETS[name]:
            for client in case.clients:
                yield client, judged(case, client, read(texts[f"{case.name}-{client}"]))


def scores(results: Iterable[tuple[str, dict[str, Right]]]) -> dict[str, tuple[int, dict[str, Score]]]:
    """Return the number of recordings and the score of each part, by client, and of all."""
    by_client: dict[str, list[dict[str, Right]]] = {row: [] for row in CLIENTS.values()} | {"all": []}
    for client, parts in results:
        row = next((row for begin, row in CLIENTS.items() if client.startswith(begin)), None)
        for each in ("all",) if row is None else (row, "all"):
            by_client[each].append(parts)
    return {
        row: (
            len(judgements),
            {part: Score(*(sum(each[part][field] for each in judgements) for field in range(3))) for part in PARTS},
        )
        for row, judgements in by_client.items()
    }


def table(names: Iterable[str]) -> list[str]:
    """Return the lines of the table of these sets: precision and recall of each part, by client."""
    lines = [f"| client | recordings | {' | '.join(PARTS)} |", f"| --- | ---: |{' ---: |' * len(PARTS)}"]
    for row, (count, parts) in scores(of_first(names)).items():
        cells = " | ".join(
            f"{score.precision:.2f}, {score.recall:.2f} ({score.right} of {score.done})" for score in parts.values()
        )
        lines.append(f"| {row} | {count} | {cells} |")
    return lines


def renewed(page: str, name: str, lines: list[str]) -> str:
    """Return the page with this table."""
    between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    return between.sub(lambda match: match[1] + "\n" + "\n".join(lines) + "\n\n" + match[2], page)


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        keep_first(chosen)
    page = PAGE.read_text()
    for name, sets in TABLES.items():
        page = renewed(page, name, table(sets))
        sys.stdout.write("\n".join(table(sets)) + "\n")
    PAGE.write_text(page)

"""The judge of `why --log` and `why --offsets` on the recordings: cause, culprit, first remedy and calm, by source.

`python -m tests.sources.judge [--aside] [-v] [NAME...]` judges the broker's log alone, the clients' logs alone, and
both together; `--topic` judges `__consumer_offsets` alone, and together with the broker's log; `--write` puts the
tables into the documentation. A source may say that it cannot tell; that is right where no reader of that source can.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from click.testing import CliRunner

from kafka_shim.cli import cli
from tests.sources.recordings import Recording, recorded, recorded_topic
from tests.why.provoked.judge import SPELLINGS

PAGE: Final = Path(__file__).parents[2] / "docs" / "logs.md"
TOPIC_PAGE: Final = PAGE.with_name("offsets-topic.md")
BROKER, CLIENTS, TOGETHER = SOURCES = ("broker", "clients", "together")
TOPIC, WITH_LOG = TOPIC_SOURCES = ("`__consumer_offsets`", "with the broker's log")
PARTS: Final = ("cause", "culprit", "remedy", "calm")
_WORDS: Final = {"process": "the process", "processing": "the work between two polls"}
"""The words for remedies that are no settings."""
_NO_CAUSE: Final = frozenset({"", "UNKNOWN", "MEMBER_GONE"})
"""Findings that name no cause; the last names a culprit."""


class Mark(StrEnum):
    """The mark of a part of an answer."""

    RIGHT = "right"
    WRONG = "wrong"
    SILENT = "cannot tell"
    NOT_DUE = "not due"


class Judged(NamedTuple):
    """The marks of one answer by part; `possible` are the parts that a reader of the source can tell."""

    recording: Recording
    source: str
    marks: dict[str, Mark]
    possible: frozenset[str]
    is_false_calm: bool
    answer: str

    @property
    def is_right(self) -> bool:
        """True if nothing is wrong, and nothing that can be told is missing."""
        return not self.is_false_calm and all(
            mark is not Mark.WRONG and (mark is not Mark.SILENT or part not in self.possible)
            for part, mark in self.marks.items()
        )


def logs_of(recording: Recording, source: str) -> list[Path]:
    """Return the files of a source."""
    broker = recording.folder / "server.log.gz"
    clients = [each for each in sorted(recording.folder.glob("*.log.gz")) if each != broker]
    logs = {BROKER: [broker], CLIENTS: clients, TOGETHER: [broker, *clients], TOPIC: [], WITH_LOG: [broker]}
    return logs[source]


def answer_of(recording: Recording, source: str) -> dict[str, Any]:
    """Return the answer of `why ... --json`; empty if it knows no rebalance of the group."""
    options = [option for each in logs_of(recording, source) for option in ("--log", str(each))]
    with TemporaryDirectory() as folder:
        if source in TOPIC_SOURCES:
            options += ["--offsets", str(unpacked(recording, Path(folder)))]
        done = CliRunner().invoke(cli, ["why", recording.group, *options, "--json", "--no-replay"])
    if done.exit_code in (3, 4):
        return {}
    assert done.exit_code == 0, (recording.name, source, done.output, done.exception)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def unpacked(recording: Recording, folder: Path) -> Path:
    """Write the partition of a recording as a broker has it into a folder; return the path of the partition."""
    partition = folder / recording.segment.name.removesuffix(".log.gz")
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(gzip.decompress(recording.segment.read_bytes()))
    return partition


def judged(recording: Recording, source: str) -> Judged:
    """Judge the answer from one source."""
    truth = tomllib.loads((recording.folder / "truth.toml").read_text())
    answer = answer_of(recording, source)
    findings, remedies = answer.get("findings", []), answer.get("remedies", [])
    first = findings[0] if findings else {}
    code = first.get("code", "")
    # A member that was replaced was restarted, or has a double.
    is_silent = code in _NO_CAUSE or (source == TOPIC and code == "STATIC_REPLACED" and code not in truth["causes"])
    marks = dict.fromkeys(PARTS, Mark.SILENT)
    if not is_silent:
        marks["cause"] = _mark(first["code"] in {*truth["causes"], *_as_good(recording, source)})
        marks["culprit"] = _mark(_names(first, answer, truth))
    elif first.get("client"):
        marks["culprit"] = _mark(_names(first, answer, truth))
    if not truth["culprits"]:
        marks["culprit"] = Mark.NOT_DUE
    if remedies:
        marks["remedy"] = _mark(_spells(remedies[0]["setting"], {*truth["remedies"], *_as_good(recording, source)}))
    if not remedies and not truth["remedies"]:
        marks["remedy"] = Mark.NOT_DUE
    possible = possible_of(recording, source)
    # A calm answer may name facts that its source cannot show.
    has_limits = "calm" not in possible and bool(answer.get("cannot_tell"))
    is_false_calm = truth["calm"] is False and bool(answer.get("calm")) and not has_limits
    if truth["calm"] == "either":
        marks["calm"] = Mark.NOT_DUE
        marks["remedy"] = marks["remedy"] if remedies else Mark.NOT_DUE
    elif answer.get("calm") is not None and not is_silent and not (answer["calm"] and not truth["calm"] and has_limits):
        marks["calm"] = _mark(answer["calm"] == truth["calm"])
    settings = [each["setting"] for each in remedies]
    text = f"{first.get('code', '-')} | {answer.get('verdict', 'nothing')} | {settings} | {answer.get('cannot_tell')}"
    return Judged(recording, source, marks, possible, is_false_calm, text)


def _mark(is_right: bool) -> Mark:
    return Mark.RIGHT if is_right else Mark.WRONG


def _names(finding: dict[str, Any], answer: dict[str, Any], truth: dict[str, Any]) -> bool:
    """True if the answer names a culprit, by its client id, its instance id or one of its member ids."""
    ids = [member_id for culprit in truth["culprits"] for member_id in truth["member_ids"].get(culprit, [])]
    names = {finding.get("client"), *finding.get("members", [])}
    # A refused client of aiokafka prints neither client id nor member id: it is known by its file.
    files = [f"the client of {culprit}.log.gz" for culprit in truth["culprits"]]
    return any(name in names for name in (*truth["culprits"], *ids, *files))


def _spells(setting: str, keys: Iterable[str]) -> bool:
    """True if it is one of these settings in the spelling of any client, or the words for it."""
    spellings = {key: {key, *(of.get(key, key) for of in SPELLINGS.values())} for key in keys}
    return any(
        setting in of_key or setting.startswith(_WORDS.get(key, setting + " ")) for key, of_key in spellings.items()
    )


def _as_good(recording: Recording, source: str) -> frozenset[str]:
    """Causes and remedies that are as good as the truth, since the source shows no difference."""
    if source == BROKER and "paused" in recording.case.name:
        # It may have been restarted as well.
        return frozenset({"SESSION_EXPIRED", "process"})
    if recording.case.name == "topic-grows":
        return frozenset({"LEADER_REJOINED", "TOPIC_METADATA_CHANGED"})
    if recording.case.name.startswith("killed-and-restarted"):
        return frozenset({"SESSION_EXPIRED", "process"})
    return frozenset()


_ALL: Final = frozenset(PARTS)
_NONE: Final = frozenset[str]()
_ONLY_CAUSE: Final = frozenset({"cause", "calm"})


def possible_of(recording: Recording, source: str) -> frozenset[str]:
    """Return the parts of the truth that a reader of the source can tell; `logs.md` of the documentation says why."""
    name = recording.case.name
    if source == TOPIC:
        return _of_topic(recording)
    if source == WITH_LOG:
        return possible_of(recording, BROKER) | possible_of(recording, TOPIC)
    if source == TOGETHER:
        return possible_of(recording, BROKER) | possible_of(recording, CLIENTS)
    if source == BROKER:
        if name in ("other-assignor", "slow-to-give-up-partitions"):
            return _NONE
        if name == "slow-revoke-callback":
            return _ONLY_CAUSE
        gives_reason = recording.client.startswith("java") and recording.release != "2.8"
        if name == "poll-interval-exceeded" and not gives_reason:
            return _NONE
        return _ALL
    is_quiet = recording.client.startswith("confluent") and not recording.is_verbose
    if recording.has_no_stamps or (is_quiet and "poll" not in name):
        return _NONE
    if name.startswith(("a-consumer-is-killed", "crashes", "slow")):
        return _NONE
    return _ALL


def _of_topic(recording: Recording) -> frozenset[str]:
    """Return the parts that the records show: how a member went is in none, nor whether the group waited for it."""
    name = recording.case.name
    if name == "slow-to-give-up-partitions":
        return _ALL
    if name in ("subscribes-to-more", "topic-grows", "rolling-restart-of-static-members"):
        return frozenset({"cause"})
    if name == "scale-out":
        return _ONLY_CAUSE if recording.client.endswith("-consumer") else frozenset({"cause"})
    return frozenset({"culprit"})


def all_judged(recordings: Iterable[Recording], sources: Sequence[str] = SOURCES) -> Iterator[Judged]:
    """Judge recordings from every source."""
    for recording in recordings:
        for source in sources:
            yield judged(recording, source)


def table(results: Iterable[Judged], sources: Sequence[str] = SOURCES) -> list[str]:
    """Return the rows of a table: by source and part `right of answers, right of possible`, precision and recall."""
    results = list(results)
    lines = [
        "| source | recordings | cause | culprit | first remedy | calm | false calm | rightly cannot tell |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for source in sources:
        of_source = [each for each in results if each.source == source]
        silent = sum(each.marks["cause"] is Mark.SILENT for each in of_source)
        rightly = sum(each.marks["cause"] is Mark.SILENT and "cause" not in each.possible for each in of_source)
        parts = " | ".join(_of_part(of_source, part) for part in PARTS)
        false_calm = sum(each.is_false_calm for each in of_source)
        lines.append(f"| {source} | {len(of_source)} | {parts} | {false_calm} | {rightly} of {silent} |")
    return lines


def _of_part(results: list[Judged], part: str) -> str:
    marks = [each.marks[part] for each in results]
    right = marks.count(Mark.RIGHT)
    answers = right + marks.count(Mark.WRONG)
    due = [each for each in results if each.marks[part] is not Mark.NOT_DUE]
    found = sum(each.marks[part] is Mark.RIGHT for each in due if part in each.possible)
    possible = sum(part in each.possible for each in due)
    return f"{right} of {answers}, {found} of {possible}"


def renewed(page: str, results: Iterable[Judged]) -> str:
    """Return the page with the tables of these results."""
    results = list(results)
    for marker, is_aside in (("judged", False), ("judged aside", True)):
        lines = table(each for each in results if each.recording.is_aside == is_aside)
        pattern = re.compile(rf"(<!-- {marker} -->\n).*?(<!-- end -->)", re.DOTALL)
        rows = "\n".join(lines)
        page = pattern.sub(lambda match, rows=rows: f"{match[1]}\n{rows}\n\n{match[2]}", page)
    return page


def renewed_topic(page: str, results: Iterable[Judged]) -> str:
    """Return the page with the table of these results on `__consumer_offsets`."""
    rows = "\n".join(table(results, TOPIC_SOURCES))
    pattern = re.compile(r"(<!-- judged -->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda match: f"{match[1]}\n{rows}\n\n{match[2]}", page)


def main(arguments: list[str]) -> None:
    """Print the answers that are not right, all with `-v`, and the table."""
    if "--write" in arguments:
        PAGE.write_text(renewed(PAGE.read_text(), all_judged(recorded())))
        of_topic = all_judged(recorded_topic(), TOPIC_SOURCES)
        TOPIC_PAGE.write_text(renewed_topic(TOPIC_PAGE.read_text(), of_topic))
        return
    names = [each for each in arguments if not each.startswith("-")]
    sources = TOPIC_SOURCES if "--topic" in arguments else SOURCES
    chosen = [
        each
        for each in (recorded_topic() if "--topic" in arguments else recorded())
        if each.is_aside == ("--aside" in arguments)
        and (not names or any(part in f"{each.release}/{each.name}" for part in names))
    ]
    results = list(all_judged(chosen, sources))
    for each in results:
        if "-v" in arguments or not each.is_right:
            marks = ", ".join(f"{part} {mark}" for part, mark in each.marks.items())
            false_calm = " FALSE CALM" if each.is_false_calm else ""
            where = f"{each.recording.release}/{each.recording.name}"
            sys.stdout.write(f"{'ok ' if each.is_right else 'BAD'} {where} {each.source}: {marks}{false_calm}\n")
            sys.stdout.write(f"      {each.answer}\n")
    sys.stdout.write("\n".join(table(results, sources)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

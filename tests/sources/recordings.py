"""The recordings of logs: cases of the judge of `why`, clients, and releases of Kafka.

Each is a folder of `recorded/RELEASE`: `server.log.gz`, a log for each process of a client, and `truth.toml`. A third
is set aside: it is not read while rules are written. Those of `of_topic/RELEASE` have the group's partition of
`__consumer_offsets` too, the bytes of its segment.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.why.provoked.cases import AIO, CONFLUENT, KIP848, KP2, KP3, Case
from tests.why.provoked.judge import SETS

FOLDER: Final = Path(__file__).parent / "recorded"
OF_TOPIC: Final = Path(__file__).parent / "of_topic"
SEGMENT: Final = "__consumer_offsets-*.log.gz"
ASIDE: Final = FOLDER / "aside.txt"
_WORDS: Final = ("billing", "orders", "search.index", "payments.v2", "audit", "mail_out", "stock", "reports")
JAVA: Final[Mapping[str, str]] = {"4.4": "java-4.4.0", "3.9": "java-3.9.2", "2.8": "java-2.8.2"}
"""Java's client of the broker's release."""
NEW: Final = "java-4.4.0-consumer"
BERLIN, KOLKATA = "Europe/Berlin", "Asia/Kolkata"
_CASES: Final[Mapping[str, Case]] = {case.name: case for cases in SETS.values() for case in cases}


@dataclass(frozen=True)
class Recording:
    """A case of real clients and a broker. The client's stamps are of `zone`; the broker's are UTC."""

    release: str
    case: Case
    client: str
    zone: str = "UTC"
    is_verbose: bool = False
    """True for librdkafka's `debug=cgrp`."""
    has_no_stamps: bool = False
    """True for the layout of Python's `logging.basicConfig()`."""
    has_topic: bool = False
    """True for one with the partition of `__consumer_offsets`."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        kind = "-verbose" if self.is_verbose else "-stampless" if self.has_no_stamps else ""
        return f"{self.case.name}-{self.client}{kind}"

    @property
    def group(self) -> str:
        """A name that tells nothing about the case."""
        number = zlib.crc32(f"{self.release}/{self.name}{'/topic' if self.has_topic else ''}".encode())
        return f"{_WORDS[number % len(_WORDS)]}-{number % 997}"

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return (OF_TOPIC if self.has_topic else FOLDER) / self.release / self.name

    @property
    def segment(self) -> Path:
        """The file with the partition of `__consumer_offsets`."""
        return next(self.folder.glob(SEGMENT))

    @property
    def is_aside(self) -> bool:
        """True for the third that is set aside."""
        return not self.has_topic and f"{self.release}/{self.name}" in ASIDE.read_text().split()


def _of(release: str, case: str, *clients: str, zone: str = "UTC", verbose: bool = False, stamps: bool = True) -> None:
    for client in clients:
        RECORDINGS.append(Recording(release, _CASES[case], client, zone, verbose, not stamps))


RECORDINGS: Final[list[Recording]] = []

_of("4.4", "poll-interval-exceeded", KP3, CONFLUENT, JAVA["4.4"])
_of("4.4", "clean-start-and-stop", KP3)
_of("4.4", "killed-for-good", JAVA["4.4"])
_of("4.4", "paused-longer-than-its-session", KP3, zone=BERLIN)
_of("4.4", "a-consumer-misses-its-poll", NEW)
_of("4.4", "topic-grows", CONFLUENT, verbose=True)
_of("4.4", "other-assignor", JAVA["4.4"])
_of("4.4", "rolling-restart", CONFLUENT)
_of("3.9", "poll-interval-exceeded", CONFLUENT, verbose=True)
_of("3.9", "poll-interval-exceeded", JAVA["3.9"], zone=KOLKATA)
_of("3.9", "killed-for-good", KP3)
_of("3.9", "scale-out", CONFLUENT)
_of("3.9", "deploy-at-once", KP3)
_of("2.8", "poll-interval-exceeded", JAVA["2.8"])
_of("2.8", "killed-for-good", CONFLUENT)
_of("2.8", "paused-longer-than-its-session", JAVA["2.8"])
_of("2.8", "scale-in", KP3)
_of("4.4", "poll-interval-exceeded", AIO)
_of("4.4", "a-consumer-is-paused", NEW)
_of("4.4", "a-consumer-is-killed", KIP848)
_of("4.4", "one-instance-id-twice", JAVA["4.4"], KP3)
_of("4.4", "killed-for-good", AIO)
_of("4.4", "killed-and-restarted-at-once", CONFLUENT)
_of("4.4", "paused-longer-than-its-session", CONFLUENT, verbose=True)
_of("4.4", "deploy-at-once", JAVA["4.4"], zone=BERLIN)
_of("4.4", "topic-grows", AIO)
_of("4.4", "other-assignor", AIO)
_of("4.4", "slow-revoke-callback", CONFLUENT)
_of("4.4", "subscribes-to-more", CONFLUENT)
_of("4.4", "unsubscribes-and-comes-back", CONFLUENT, verbose=True)
_of("4.4", "scale-out", AIO)
_of("4.4", "rolling-restart-of-static-members", JAVA["4.4"])
_of("4.4", "crashes-again-and-again", CONFLUENT)
_of("4.4", "a-consumer-misses-its-poll", KIP848)
_of("4.4", "slow-to-give-up-partitions", KIP848)
_of("4.4", "an-instance-id-of-two-consumers", NEW)
_of("4.4", "scale-out", KIP848)
_of("3.9", "paused-longer-than-its-session", AIO)
_of("3.9", "rolling-restart", JAVA["3.9"])
_of("3.9", "one-instance-id-twice", CONFLUENT)
_of("3.9", "scale-in", AIO, stamps=False)
_of("3.9", "poll-interval-exceeded", KP3, stamps=False)
_of("2.8", "poll-interval-exceeded", KP2)
_of("2.8", "one-instance-id-twice", AIO)
_of("2.8", "deploy-at-once", CONFLUENT)
_of("2.8", "clean-start-and-stop", JAVA["2.8"])
_of("2.8", "killed-and-restarted-at-once", AIO)


WITH_TOPIC: Final = [
    Recording(release, _CASES[case], client, has_topic=True)
    for release, case, client in (
        ("4.4", "killed-for-good", KP3),
        ("4.4", "poll-interval-exceeded", CONFLUENT),
        ("4.4", "rolling-restart", CONFLUENT),
        ("4.4", "one-instance-id-twice", KP3),
        ("4.4", "subscribes-to-more", CONFLUENT),
        ("4.4", "topic-grows", CONFLUENT),
        ("4.4", "scale-out", KP3),
        ("4.4", "a-consumer-is-killed", KIP848),
        ("4.4", "a-consumer-misses-its-poll", KIP848),
        ("4.4", "slow-to-give-up-partitions", KIP848),
        ("4.4", "scale-out", KIP848),
        ("3.9", "killed-for-good", KP3),
        ("3.9", "poll-interval-exceeded", CONFLUENT),
        ("3.9", "deploy-at-once", KP3),
        ("3.9", "rolling-restart-of-static-members", CONFLUENT),
    )
]
"""Recordings with the partition of `__consumer_offsets`."""


def recorded() -> Iterator[Recording]:
    """Return the recordings that are there."""
    return (each for each in RECORDINGS if (each.folder / "truth.toml").exists())


def recorded_topic() -> Iterator[Recording]:
    """Return the recordings with the partition of `__consumer_offsets` that are there."""
    return (each for each in WITH_TOPIC if each.folder.exists() and any(each.folder.glob(SEGMENT)))

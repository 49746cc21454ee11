"""Segment files of `__consumer_offsets`, from the folders of a stopped broker, or copies of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafka_shim.apis.wire.types import uuid_from_text
from kafka_shim.persistence import segments
from kafka_shim.persistence.batch import Batch
from kafka_shim.persistence.interchange import TOPIC
from kafka_shim.persistence.segments import Problem
from kafka_shim.sources.offsets_topic.connection import Unreadable

_FOLDER: Final = re.compile(rf"{TOPIC}-(\d+)(?:\..*)?")
_OF_TOPIC: Final = re.compile(r"(.+)-\d+")
_TOPIC_ID: Final = re.compile(r"topic_id: *([A-Za-z0-9_-]{22})")


class Segments(NamedTuple):
    """The files of one partition: its folder, or one segment. `partition` is -1 if no name shows it."""

    partition: int
    path: Path

    def batches(self, report: Callable[[Problem], None]) -> Iterator[Batch]:
        """Yield the batches. Unreadable ones are reported and skipped."""
        paths = [self.path] if self.path.is_file() else segments.segments_of(self.path)
        for path in paths:
            for _, batch in segments.batches_of(path, report):
                yield batch


def segments_of(names: Sequence[str]) -> list[Segments]:
    """Return the partitions in these paths, each once: a segment (`.log`), a folder of a partition, or a folder with
    such folders. Raises Unreadable.
    """
    by_path: dict[Path, Segments] = {}
    for name in names:
        path = Path(name)
        if not path.exists():
            raise Unreadable(f"There is no {name}.")
        parts = [path]
        if path.is_dir() and not any(path.glob("*.log")):
            parts = [each for each in path.glob(f"**/{TOPIC}-*") if each.is_dir() and any(each.glob("*.log"))]
        elif path.is_file() and path.suffix != ".log":
            raise Unreadable(f"{name} is no segment: these end with .log.")
        if not parts:
            raise Unreadable(f"{name} has neither segments (*.log) nor folders {TOPIC}-N.")
        for each in parts:
            by_path[each] = Segments(_number(each), each)
    return sorted(by_path.values(), key=lambda each: (each.partition, each.path))


def topic_names(places: Sequence[Segments]) -> dict[bytes, str]:
    """Return the names, by topic id, of topics with folders beside those of the partitions."""
    names: dict[bytes, str] = {}
    for folder in {_folder(each.path).parent for each in places}:
        for file in folder.glob("*/partition.metadata"):
            match = _TOPIC_ID.search(file.read_text(errors="replace"))
            name = _OF_TOPIC.fullmatch(file.parent.name)
            if match is not None and name is not None:
                names[uuid_from_text(match[1])] = name[1]
    return names


def _folder(path: Path) -> Path:
    return path.absolute().parent if path.is_file() else path.absolute()


def _number(path: Path) -> int:
    match = _FOLDER.fullmatch(_folder(path).name)
    return -1 if match is None else int(match[1])

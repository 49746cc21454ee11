"""Groups go on from the store of another release: 4.3 and 4.4 read the records of 4.2, and 4.2 reads their records."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from kafka_shim.persistence.sqlite import SqliteStore

from .real_kafka import PARTITIONS
from .test_kafka_groups import BEGIN, TOPICS, Ours, beat, go_on


@pytest.mark.parametrize("kind", BEGIN)
@pytest.mark.parametrize(
    ("before", "after"), [("4.2", "4.3"), ("4.2", "4.4"), ("4.3", "4.4"), ("4.4", "4.3"), ("4.4", "4.2")]
)
def test_a_group_goes_on_in_another_release(before: str, after: str, kind: str, tmp_path: Path) -> None:
    old, new = (Ours("moved", release) for release in (before, after))
    for name, count in TOPICS.items():
        old.create(name, count)
    members = BEGIN[kind](old)
    described = old.described_by(kind)
    with closing(SqliteStore(tmp_path / "store.db", PARTITIONS)) as store:
        store.open()
        store.write([(partition, *each) for partition, records in old.durable.items() for each in records.items()])
        new.topics.by_name |= old.topics.by_name
        new.durable = {partition: dict(store.load(partition)) for partition in range(PARTITIONS)}
    new.crash()
    go_on(new, kind, members, described)
    # The next change is served as well, and no member is left behind.
    assert members[-1].leave().error_code == 0
    for _ in range(4):
        for each in members[:-1]:
            assert beat(each).error_code == 0
    after_leave = new.described_by(kind)
    assert (after_leave.group_state, after_leave.assignment_epoch) == ("Stable", after_leave.group_epoch)

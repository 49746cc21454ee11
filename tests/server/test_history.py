"""The memory of a history of events: a limit in bytes, for any readers and any requests."""

import os
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from kafka_shim.groups.outbox import Outbox
from kafka_shim.server.events import EventFeed
from kafka_shim.server.excerpts import FIRST, MOST, shortened
from kafka_shim.server.failures import Failures
from kafka_shim.server.history import LONG_EVENT, EventHistory
from kafka_shim.server.rare import RareExchange


class Told:
    """A history and its input."""

    def __init__(self, most_bytes: int) -> None:
        self.outbox = Outbox()
        self.feed = EventFeed(self.outbox, Failures())
        self.history = EventHistory(self.feed, wall_offset=1000.0, most_bytes=most_bytes, most_request_bytes=most_bytes)
        self.history.start()

    def tell(self, *events: dict[str, Any], now: float = 1.0) -> None:
        self.outbox.events.extend(events)
        self.feed.publish(now)

    @property
    def kept(self) -> list[dict[str, Any]]:
        return [entry.event for entry in self.history.since(0)]


def member(group: str, **more: Any) -> dict[str, Any]:
    return {"event": "member", "group": group, "change": "added"} | more


def test_bytes_bound_the_history() -> None:
    told = Told(100_000)
    for number in range(1000):
        told.tell(member("g", member_id=f"{number}-" + "x" * 1000))
    kept = told.kept
    assert 60 < len(kept) < 100
    assert sum(len(orjson.dumps(each)) for each in kept) <= 100_000
    assert kept[-1]["member_id"].startswith("999-")
    assert told.history.seen == 1000
    assert told.history.forgotten == told.history.dropped[0] == 1000 - len(kept)


def test_requests_never_push_out_the_events_of_groups() -> None:
    told = Told(100_000)
    told.tell(member("g"))
    request = {"event": "exchange", "group": "g", "api": "Heartbeat", "error": 0}
    for _ in range(10):
        told.tell(*(dict(request) for _ in range(1000)))
        told.tell(member("g"), RareExchange(request | {"error": 25}))
    assert sum(each["event"] == "member" for each in told.kept) == 11
    assert sum(each.get("error") == 25 for each in told.kept) == 10
    assert [each["seq"] for each in told.kept] == sorted(each["seq"] for each in told.kept)
    assert told.history.forgotten == 0
    assert told.history.dropped[1] > 9000
    # A reader sees both sorts in their order, and the gap in the second one only.
    numbers, at = list[int](), 0
    while at < told.history.seen:
        records, at = told.history.piece(at)
        numbers += [record.number for record in records]
    assert numbers == [each["seq"] for each in told.kept]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux tells it")
def test_memory_is_at_most_twice_the_counted_bytes() -> None:
    told, before = Told(16_000_000), resident()
    for number in range(3000):
        member_id = "c" * 30_000 + str(number)
        for _ in range(4):
            told.tell(member("g", member_id=member_id, leader=member_id, client_id="c" * 30_000, reason="r" * 30_000))
    assert told.history.forgotten > 0
    assert resident() - before < 2 * 16_000_000


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_long_texts_are_cut_and_ids_stay_different() -> None:
    told = Told(10_000_000)
    ids = ["c" * 30_000 + f"-{number:036}" for number in range(20)]
    told.tell(*(member("g", member_id=each, reason="é" * 20_000, protocols={each: [each]}) for each in ids))
    kept = told.kept
    assert len({each["member_id"] for each in kept}) == 20
    assert all(each["member_id"] in each["protocols"] for each in kept)
    assert max(len(orjson.dumps(each)) for each in kept) < LONG_EVENT


@pytest.mark.parametrize("length", [1100, 1101, 5000, 7900, 20_000])
def test_events_of_a_group_with_a_long_id_can_be_read(length: int) -> None:
    told = Told(10_000_000)
    name, other = "g" * length, "h" * length
    # A long event too, so that both have the same id.
    told.tell(member(name), member(other), member(name, reason="r" * 20_000))
    assert [entry.event["group"] for entry in told.history.since(0, name)] == [shortened(name)] * 2
    assert [record.number for record in told.history.piece(0, other)[0]] == [2]
    assert told.history.has(name)
    assert told.history.has(shortened(name)), "the id that an event shows"


def test_of_very_many_offsets_the_first_stay() -> None:
    history = Told(100_000_000)
    offsets = [{"topic": "t", "partition": number, "offset": 5} for number in range(MOST + 1)]
    history.tell({"event": "commit", "group": "g", "error": 0, "offsets": offsets[:-1]})
    history.tell({"event": "commit", "group": "g", "error": 0, "offsets": offsets})
    whole, long = history.kept
    assert whole["offsets"] == offsets[:-1]
    assert "left_out" not in whole
    assert long["offsets"] == offsets[:FIRST]
    assert long["left_out"] == MOST + 1 - FIRST


def test_texts_of_ordinary_events_stay_whole() -> None:
    told = Told(10_000_000)
    told.tell(member("g", reason="r" * 5000), now=2.0)
    (event,) = told.kept
    assert event == member("g", reason="r" * 5000) | {"seq": 1, "mono": 2.0, "wall": 1002.0}


def test_readers_share_each_event() -> None:
    told = Told(10_000_000)
    told.tell(*(member("g") for _ in range(10)))
    one, other = told.history.piece(0)[0], told.history.piece(4)[0]
    assert [record.number for record in other] == [5, 6, 7, 8, 9, 10]
    assert all(a.line is b.line for a, b in zip(one[4:], other, strict=True))


def test_a_page_of_events_is_bounded_even_without_a_match() -> None:
    told = Told(10_000_000)
    told.tell(*(member("g", reason="r" * 1000) for _ in range(1000)))
    records, at = told.history.piece(0, "another")
    assert records == []
    assert 40 < at < 80
    assert told.history.piece(1000) == ([], 1000)


def test_the_events_after_a_number_are_the_same_from_the_begin_and_from_the_end() -> None:
    told = Told(10_000_000)
    told.tell(*(member("g", number=number) for number in range(100)))
    for after in (0, 1, 49, 50, 51, 99, 100):
        assert [entry.number for entry in told.history.since(after)] == list(range(after + 1, 101))


def test_a_forgotten_group_is_not_in_the_history() -> None:
    told = Told(100_000)
    told.tell(member("old"), member("long" * 5000))
    assert told.history.has("old")
    assert told.history.has("long" * 5000)
    told.tell(*(member("new", member_id="x" * 1000) for _ in range(1000)))
    assert not told.history.has("old")
    assert told.history.has("new")

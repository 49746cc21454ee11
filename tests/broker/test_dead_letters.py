"""Dead letter queues of share groups (KIP-1191): letters, queues that are refused, queues that are created."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafka_shim.broker import dead_letters
from kafka_shim.broker.dead_letters import AUTO_CREATE, COPIES, ENABLED
from kafka_shim.broker.settings import DEAD_LETTER_QUEUE
from kafka_shim.groups.outbox import Failure
from kafka_shim.persistence.batch import Record, read_batch
from tests.effort import effort

from .context import EPOCH_MS, batch
from .test_share_fetches import GROUP, REJECT, RELEASE, Shared, error_of

QUEUE = "dlq.q"


class Buried(Shared):
    """A group with a queue of two partitions, and three records of which its member has all."""

    def __init__(self, queue: str = QUEUE, *, enabled: str = "true", nodes: int = 1, **settings: str) -> None:
        super().__init__(nodes=nodes, **settings)
        self.own = self.topics.settings.groups[GROUP]
        self.own[DEAD_LETTER_QUEUE] = queue
        self.topics.create(QUEUE, [[nodes], [1]], {ENABLED: enabled})
        self.send("t", 0, batch(b"a", b"b", b"c"))
        self.one = self.member("a")
        self.one.fetch()

    def letters(self, queue: str = QUEUE, partition: int = 0) -> list[Record]:
        topic = self.topics.named(queue)
        assert topic is not None
        data, at, contents = topic.partitions[partition].log.read(0, 2**20, first_whole=True), 0, []
        while (each := read_batch(data, at)) is not None:
            contents += each[0].records()
            at = each[1]
        return contents


def offsets(letters: list[Record]) -> list[bytes | None]:
    return [dict(each.headers)["__dlq.errors.offset"] for each in letters]


def test_a_letter_names_the_record_in_its_headers() -> None:
    cluster = Buried()
    assert error_of(cluster.one.acknowledge((0, 2, [3, 1, 3]))) == 0
    letters = cluster.letters()
    assert [(each.key, each.value) for each in letters] == [(None, None)] * 2
    assert letters[0].headers == (
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"0"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )
    assert offsets(letters) == [b"0", b"2"]
    assert letters[0].timestamp == cluster.epoch_ms(cluster.now) >= EPOCH_MS
    assert cluster.letters(partition=1) == []


def test_a_letter_has_key_and_value_if_the_group_copies_records() -> None:
    cluster = Buried()
    cluster.own[COPIES] = "true"
    cluster.one.acknowledge((1, 2, REJECT))
    assert [each.value for each in cluster.letters()] == [b"b", b"c"]


@pytest.mark.parametrize("way", ["release", "lock", "session", "connection"])
def test_a_record_at_its_delivery_limit_is_dead(way: str) -> None:
    cluster = Buried()
    cluster.own["share.delivery.count.limit"] = "2"
    cluster.one.acknowledge((0, 2, RELEASE))
    cluster.one.fetch()
    if way == "release":
        cluster.one.acknowledge((0, 2, RELEASE))
    elif way == "lock":
        cluster.advance(31)
    elif way == "session":
        cluster.one.acknowledge(epoch=-1)
    else:
        cluster.broker.disconnected(cluster.one.connection)
        cluster.advance(0)
    letters = cluster.letters()
    assert offsets(letters) == [b"0", b"1", b"2"]
    reasons = {dict(each.headers)["__dlq.errors.message"] for each in letters}
    assert reasons == {b"Offset delivery count exceeded the threshold."}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"enabled": "false"}, f"the topic dlq.q does not have {ENABLED}=true."),
        ({"queue": "dlq.missing"}, f"the topic dlq.missing does not exist, and {AUTO_CREATE} is false."),
        (
            {"errors_deadletterqueue_topic_name_prefix": "x"},
            "the name dlq.q does not begin with x, the value of errors.deadletterqueue.topic.name.prefix.",
        ),
        ({"queue": "dlq.a b", "errors_deadletterqueue_auto_create_topics_enable": "true"}, "Topic name is invalid"),
    ],
)
def test_the_log_has_the_reason_of_a_refused_queue_once(
    fields: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Buried(**fields)
    with caplog.at_level(logging.WARNING):
        for offset in range(3):
            assert error_of(cluster.one.acknowledge((offset, offset, REJECT))) == 0
    (line,) = [each.getMessage() for each in caplog.records]
    assert line.startswith(f"Group g lost dead letters: {reason}")
    assert cluster.letters() == []


def test_a_missing_queue_is_created_with_the_settings_of_a_queue() -> None:
    cluster = Buried("dlq.new", errors_deadletterqueue_auto_create_topics_enable="true", num_partitions="3")
    cluster.one.acknowledge((0, 2, REJECT))
    topic = cluster.topics.named("dlq.new")
    assert topic is not None
    assert (len(topic.partitions), topic.configs) == (3, {ENABLED: "true", "message.timestamp.type": "CreateTime"})
    assert offsets(cluster.letters("dlq.new")) == [b"0", b"1", b"2"]


def test_letters_are_divided_into_batches_that_the_queue_takes() -> None:
    cluster = Buried()
    topic = cluster.topics.named(QUEUE)
    assert topic is not None
    cluster.topics.configure(topic, {ENABLED: "true", "max.message.bytes": "400"})
    cluster.one.acknowledge((0, 2, REJECT))
    assert offsets(cluster.letters()) == [b"0", b"1", b"2"]
    assert [each.offset for each in cluster.letters()] == [0, 1, 2]


def test_letters_of_one_request_are_one_batch() -> None:
    cluster = Buried()
    cluster.one.acknowledge((0, 2, [3, 1, 3]))
    topic = cluster.topics.named(QUEUE)
    assert topic is not None
    read = read_batch(topic.partitions[0].log.read(0, 2**20, first_whole=True))
    assert read is not None
    assert read[0].record_count == 2


def test_a_letter_that_is_too_large_is_lost_alone(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Buried()
    cluster.own[COPIES] = "true"
    topic = cluster.topics.named(QUEUE)
    assert topic is not None
    cluster.topics.configure(topic, {ENABLED: "true", "max.message.bytes": "400"})
    cluster.send("t", 0, batch(b"d", b"e" * 400, b"f"))
    cluster.one.fetch()
    cluster.one.acknowledge((3, 5, REJECT))
    assert offsets(cluster.letters()) == [b"3", b"5"]
    assert [each.getMessage() for each in caplog.records] == [
        "Group g lost dead letters: the topic dlq.q answered MESSAGE_TOO_LARGE."
    ]


@pytest.mark.parametrize("types", [[3], [3, 1], [3, 3, 1, 1]])
def test_the_work_of_letters_grows_as_their_number(types: list[int]) -> None:
    def work(count: int) -> int:
        cluster = Buried()
        cluster.own[COPIES] = "true"
        topic = cluster.topics.named(QUEUE)
        assert topic is not None
        cluster.topics.configure(topic, {ENABLED: "true", "max.message.bytes": "400"})
        cluster.send("t", 0, batch(*[b"v"] * count))
        cluster.one.fetch()
        each = types * (count // len(types))
        grown = effort(lambda: cluster.one.acknowledge((3, count + 2, each)))
        letters = cluster.letters()
        assert [int(offset or 0) - 3 for offset in offsets(letters)] == [
            at for at, kind in enumerate(each) if kind == 3
        ]
        assert {bytes(letter.value or b"") for letter in letters} == {b"v"}
        return grown

    assert work(400) < 6 * work(100)


def test_another_broker_may_lead_the_partition_of_a_queue() -> None:
    cluster = Buried(nodes=2)
    cluster.one.acknowledge((0, 2, REJECT))
    assert len(cluster.letters()) == 3


def test_a_level_of_share_version_below_2_has_no_queues() -> None:
    cluster = Buried()
    cluster.topics.settings.features["share.version"] = 1
    cluster.one.acknowledge((0, 2, REJECT))
    assert cluster.letters() == []


def test_an_error_of_a_letter_does_not_fail_the_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Buried()

    def broken(*arguments: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(cluster.broker.share.partitions._dead_letters, "bury", broken)
    assert error_of(cluster.one.acknowledge((0, 2, REJECT))) == 0
    assert Failure in [type(each.effect) for each in cluster.outbox.effects]


@pytest.mark.parametrize("copies", [True, False])
def test_many_letters_are_written_in_turns(monkeypatch: pytest.MonkeyPatch, *, copies: bool) -> None:
    monkeypatch.setattr(dead_letters, "LETTERS_AT_ONCE", 10)
    cluster = Buried()
    cluster.own[COPIES] = str(copies).lower()
    values = [b"%d" % number for number in range(50)]
    cluster.send("t", 0, batch(*values))
    cluster.one.fetch()
    unpacked = 0
    read_one = dead_letters.read_batch

    def counted(data: bytes) -> object:
        nonlocal unpacked
        unpacked += 1
        return read_one(data)

    monkeypatch.setattr(dead_letters, "read_batch", counted)
    cluster.one.acknowledge((0, 2, REJECT), (3, 52, [3] * 25 + [1] + [3] * 24))
    counts = [len(cluster.letters())]
    while cluster.broker.next_deadline() <= cluster.now:
        cluster.advance(0)
        counts.append(len(cluster.letters()))
    assert counts == [10, 20, 30, 40, 50, 52]
    assert [int(each or 0) for each in offsets(cluster.letters())] == [*range(28), *range(29, 53)]
    assert unpacked == (2 if copies else 0), "a batch is kept for the next turn"
    if copies:
        assert [each.value for each in cluster.letters()] == [b"a", b"b", b"c", *values[:25], *values[26:]]


def test_few_batches_are_unpacked_at_once_for_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "UNPACKED_AT_ONCE", 1_000)
    cluster = Buried()
    cluster.own[COPIES] = "true"
    for _ in range(5):
        cluster.send("t", 0, batch(b"v" * 600, codec="gzip"))
    cluster.one.fetch()
    cluster.one.acknowledge((3, 7, REJECT))
    counts = [len(cluster.letters())]
    while cluster.broker.next_deadline() <= cluster.now:
        cluster.advance(0)
        counts.append(len(cluster.letters()))
    assert counts == [2, 4, 5]
    assert {each.value for each in cluster.letters()} == {b"v" * 600}


def test_letters_of_a_refused_queue_end_with_those_of_their_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "LETTERS_AT_ONCE", 2)
    cluster = Buried(enabled="false")
    cluster.one.acknowledge((0, 2, [3, 1, 3]))
    assert cluster.broker.share.partitions.dead == []
    assert cluster.broker.next_deadline() > cluster.now

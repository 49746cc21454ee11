"""Each layout of a line is stripped to its text, with its time, level and logger."""

from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_shim.sources.layouts import Layouts
from tests.examples import examples

TEXT = "[GroupCoordinator 0]: Member a-1 in group billing has failed, removing it from the group"
LOGGER = "kafka.coordinator.group.GroupCoordinator"
KAFKA = f"[2026-11-27 09:26:06,123] INFO {TEXT} ({LOGGER})"
AT = 1795771566123


def read(raw: str | bytes, before: str = "", zone: str = "UTC"):
    raw = raw.encode() if isinstance(raw, str) else raw
    return Layouts(ZoneInfo(zone)).line("server.log", 1, raw, before.encode())


@pytest.mark.parametrize(
    "raw",
    [
        KAFKA,
        f"kafka-1  | {KAFKA}",
        f"\x1b[36mkafka_1  |\x1b[0m {KAFKA}",
        f"2026-11-27T09:26:06.200312345Z {KAFKA}",
        f"2026-11-27T09:26:06.200312345Z stdout F {KAFKA}",
        f"[pod/kafka-0/kafka] 2026-11-27T09:26:06.2Z {KAFKA}",
        orjson.dumps({"log": KAFKA + "\n", "stream": "stdout", "time": "2026-11-27T09:26:06.2Z"}),
        f"2026-11-27 09:26:06,123 INFO {TEXT} ({LOGGER}) [executor-Heartbeat]",
        orjson.dumps(
            {
                "@timestamp": "2026-11-27T09:26:06.123Z",
                "log.level": "INFO",
                "message": TEXT,
                "log.logger": LOGGER,
                "process.thread.name": "executor-Heartbeat",
            }
        ),
        orjson.dumps(
            {"@timestamp": "2026-11-27T09:26:06.123Z", "level": "INFO", "message": TEXT, "logger_name": LOGGER}
        ),
        orjson.dumps({"timestamp": AT, "log": {"level": "INFO", "logger": LOGGER}, "message": TEXT, "b": [{"a": 1}]}),
        f"2026-11-27T10:26:06.123+01:00  INFO 1 --- [app] [ntainer#0-0-C-1] {LOGGER}  : {TEXT}",
        f"2026-11-27 09:26:06.123  INFO 3618015 --- [ntainer#0-0-C-1] {LOGGER}  : {TEXT}",
        f"2026-11-27 09:26:06.123 [thread-1] INFO  {LOGGER} - {TEXT}",
        f"[2026-11-27 09:26:06,123] INFO {TEXT} ({LOGGER}:612)",
        f"brokers/server.log.3:{KAFKA}",
        f"server.log-4711-{KAFKA}",
        f"Nov 27 09:26:06 kafka-1 kafka-server-start.sh[812]: {KAFKA}",
        f"> {KAFKA}",
        f"**{KAFKA}**",
        f"    `{KAFKA}`",
    ],
)
def test_a_line_of_a_broker_is_stripped_to_its_text(raw: str | bytes) -> None:
    line = read(raw)
    assert (line.text, line.logger, line.level) == (TEXT, LOGGER, "INFO")
    assert (line.time, line.resolution) == (AT, 1)


@pytest.mark.parametrize(
    ("raw", "before", "logger", "text", "time"),
    [
        (f"2026-11-27 09:26:06 INFO  [thread] GroupCoordinator:1234 - {TEXT}", "", "GroupCoordinator", TEXT, AT - 123),
        ("INFO:kafka.coordinator:(Re-)joining group g", "", "kafka.coordinator", "(Re-)joining group g", None),
        ("2026-11-27 09:26:06,123 - kafka.coordinator - INFO - text", "", "kafka.coordinator", "text", AT),
        ("2026-11-27 09:26:06,123 INFO kafka.coordinator: text", "", "kafka.coordinator", "text", AT),
        ("2026-11-27 09:26:06,123 [INFO] aiokafka.consumer.group_coordinator: text", "",
         "aiokafka.consumer.group_coordinator", "text", AT),
        ("[Sarama] 2026/11/27 09:26:06 consumergroup/g: text", "", "sarama", "consumergroup/g: text", AT - 123),
        ("INFO: text", "Nov 27, 2026 9:26:06 AM org.apache.kafka.X method", "org.apache.kafka.X", "text", AT - 123),
        ("%4|1795771566.123|MAXPOLL|rdkafka#consumer-1| [thrd:main]: text", "", "MAXPOLL", "text", AT),
        ("INFO  2026-11-27 09:26:06,123 [shard 0:kafk] kafka - group.cc:694 - [N:g S:Stable G:12] text", "", "kafka",
         "[N:g S:Stable G:12] text", AT),
        ("November 27th 2026, 09:26:06.123 WARN text", "", "", "text", AT),
        ("\tNov 27, 2026 @ 09:26:06.123\t[2026-11-27 09:26:06,123] INFO text (kafka.X)", "", "kafka.X", "text", AT),
        ("[WARNING] 11/27/2026 09:26:06 AM text", "", "", "text", AT - 123),
        ("11/27/2026 09:26:06 AM text", "", "", "text", AT - 123),
        ('ERROR text {"timestamp":"2026-11-27T09:26:06.123Z","logger":"kafkajs"}', "", "kafkajs", "text", AT),
        ('text {"groupId":"g"}', "", "", 'text {"groupId":"g"}', None),
        ("February 30th 2026, 09:26:06.123 text", "", "", "text", None),
        ("[INFO] joined; group: g", "", "", "joined; group: g", None),
        ("no layout at all", "", "", "no layout at all", None),
    ],
)  # fmt: skip
def test_a_line_of_another_program_is_stripped(raw: str, before: str, logger: str, text: str, time: int | None) -> None:
    line = read(raw, before)
    assert (line.logger, line.text, line.time) == (logger, text, time)


def test_a_stamp_without_a_zone_is_read_in_the_zone_given() -> None:
    berlin, utc = read(KAFKA, zone="Europe/Berlin"), read(KAFKA)
    assert (berlin.time, berlin.zoned) == (AT - 3_600_000, False)
    assert (utc.time, utc.zoned) == (AT, False)


def test_the_stamp_of_a_collector_shows_the_zone() -> None:
    line = read(f"2026-11-27T08:26:07.9Z stdout F {KAFKA}")
    assert (line.time, line.zoned) == (AT - 3_600_000, True)
    late = read(f"2026-11-27T12:33:07.9Z stdout F {KAFKA}")
    assert (late.time, late.zoned) == (AT, False)


def test_a_line_that_was_cut_keeps_its_front() -> None:
    assert read(KAFKA[:70]).text == TEXT[: 70 - KAFKA.index(TEXT)]
    json = orjson.dumps({"log": KAFKA, "time": "2026-11-27T09:26:06.2Z"})
    assert read(json[:90]).text == TEXT[: 90 - len('{"log":"') - KAFKA.index(TEXT)]


def test_fields_of_json_are_kept() -> None:
    raw = orjson.dumps({"level": "INFO", "timestamp": "2026-11-27T09:26:06.123Z", "message": "joined", "groupId": "g"})
    assert read(raw).fields == {"groupId": "g"}


PIECES = st.sampled_from(
    [
        KAFKA,
        "2026-11-27T09:26:06.2Z ",
        "stdout P ",
        "kafka-1 | ",
        '{"log":"',
        '{"message":{',
        "%4|1795771566.123|",
        "[INFO] ",
        "Smarch 99th 2026, 99:26:06.123 ",
        "May 27, 2026 @ 09:26:06.123 ",
        "13/99/2026 99:26:06 AM ",
        ' {"time":',
        "[2026-13-99 99:26:06,123] INFO ",
        "9999-12-31T23:59:59.9Z ",
        "0001-01-01 00:00:00,1 INFO x",
        '{"time":1e300,"log":""}',
    ]
)


@settings(max_examples=examples(200))
@given(st.lists(PIECES | st.text() | st.binary(), max_size=5), st.binary(max_size=60))
def test_no_line_raises_an_error(parts: list[str | bytes], before: bytes) -> None:
    raw = b"".join(each.encode("utf-8", "replace") if isinstance(each, str) else each for each in parts)
    assert Layouts(ZoneInfo("Europe/Berlin")).line("a", 1, raw, before).where == "a:1"

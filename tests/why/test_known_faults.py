"""Known faults: each is named for a version that has it, and for no version that is mended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_shim.trace.causes import Cause
from kafka_shim.trace.clients import Library, library_of_software
from kafka_shim.trace.epochs import Epochs
from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.members import Member
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.why.finding import Finding
from kafka_shim.why.known_faults import BROKER, FAULTS, Case, Fault, known_faults, version_of
from tests.why.faults_page import PAGE, table

MEMBER = "c-00000001-0000-4000-8000-000000000000"


def rebalance(start: float, cause: str, seconds: float = 2.0, **facts: object) -> Rebalance:
    made = Rebalance("g", cause, MEMBER, start, start, 1, 2, ended=start + seconds, members=(MEMBER,))
    made.assigned = made.ended
    for name, fact in facts.items():
        setattr(made, name, fact)
    return made


def at_once(history: GroupHistory) -> list[Rebalance]:
    return [rebalance(start, Cause.NEW_MEMBER, 0.002) for start in (0.0, 5.0, 10.0)]


def very_long(history: GroupHistory) -> list[Rebalance]:
    return [rebalance(0.0, Cause.NEW_MEMBER, 700.0)]


def without_assignment(history: GroupHistory) -> list[Rebalance]:
    return [rebalance(0.0, Cause.NEW_MEMBER, assigned=None, superseded=90.0)]


def loaded(history: GroupHistory) -> list[Rebalance]:
    history.was_loaded = True
    return [rebalance(0.0, Cause.STATIC_REPLACED)]


def endless(history: GroupHistory) -> list[Rebalance]:
    history.protocol = "cooperative-sticky"
    return [rebalance(float(start), Cause.COOPERATIVE_FOLLOWUP) for start in range(6)]


def sticky(history: GroupHistory) -> list[Rebalance]:
    history.protocol = "cooperative-sticky"
    return [rebalance(0.0, Cause.NEW_MEMBER)]


def round_robin(history: GroupHistory) -> list[Rebalance]:
    history.protocol = "roundrobin"
    return [rebalance(0.0, Cause.NEW_MEMBER)]


def rebalancing(history: GroupHistory) -> list[Rebalance]:
    history.members[MEMBER].last_error = "Broker: Group rebalance in progress"
    return [rebalance(0.0, Cause.SESSION_EXPIRED)]


def epochs(history: GroupHistory) -> list[Rebalance]:
    history.epochs = Epochs(history)
    return []


def expelled(history: GroupHistory) -> list[Rebalance]:
    history.members[MEMBER].how = "expired"
    return [rebalance(0.0, Cause.SESSION_EXPIRED)]


def generation_lost(history: GroupHistory) -> list[Rebalance]:
    history.members[MEMBER].lost_generation = True
    return [rebalance(0.0, Cause.NEW_MEMBER)]


def loss_repeated(history: GroupHistory) -> list[Rebalance]:
    history.members[MEMBER].repeats_loss = True
    return [rebalance(0.0, Cause.SESSION_EXPIRED)]


def any_rebalance(history: GroupHistory) -> list[Rebalance]:
    return [rebalance(0.0, Cause.SESSION_EXPIRED)]


ROWS: dict[str, tuple[str, str, Callable[[GroupHistory], list[Rebalance]]]] = {
    "KAFKA-8653": ("2.3.0", "2.3.1", at_once),
    "KAFKA-9752": ("2.4.1", "2.5.0", very_long),
    "KAFKA-12890": ("2.8.0", "2.8.1", without_assignment),
    "KAFKA-10284": ("2.6.0", "2.6.1", loaded),
    "KAFKA-13406": ("2.8.1", "2.8.2", endless),
    "KAFKA-15106": ("3.5.1", "3.5.2", sticky),
    "librdkafka#2365": ("1.0.1", "1.1.0", any_rebalance),
    "librdkafka#3159": ("1.5.2", "1.5.3", round_robin),
    "librdkafka#3306": ("1.6.1", "1.7.0", endless),
    "librdkafka#3450": ("1.7.0", "1.8.0", rebalancing),
    "librdkafka#4256": ("2.1.0", "2.1.1", any_rebalance),
    "librdkafka#4783": ("2.6.0", "2.6.1", sticky),
    "librdkafka#5488": ("2.12.1", "2.15.0", epochs),
    "kafka-python#1787": ("1.4.6", "1.4.7", any_rebalance),
    "kafka-python#1985": ("1.4.7", "2.0.2", expelled),
    "aiokafka#372": ("0.5.0", "0.5.1", loss_repeated),
    "aiokafka#727": ("0.7.0", "0.7.1", generation_lost),
    "sarama#2110": ("1.31.0", "1.31.1", any_rebalance),
    "franz-go 1.15.4": ("v1.15.3", "v1.15.4", expelled),
}
"""By fault: a version that has it, the next release without it, and a group with its sign."""


def cases(fault: Fault, version: str, code: str = "") -> list[Case]:
    history = GroupHistory("g")
    library = Library.UNKNOWN if fault.product == BROKER else Library(fault.product)
    history.members[MEMBER] = Member(MEMBER, client_id="c", library=library)
    rebalances = ROWS[fault.name][2](history)
    if fault.product == BROKER:
        history.broker_versions = (version,) if version else ()
    else:
        history.members[MEMBER].version = version
    finding = Finding(code=code or next(iter(fault.codes), "SCALE_OUT"), client="c", members=(MEMBER,))
    return [each for each in known_faults(history, rebalances, [finding]) if each.fault is fault]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_named_for_its_versions_alone(fault: Fault) -> None:
    has_it, mended, _ = ROWS[fault.name]
    assert [each.version for each in cases(fault, has_it)] == [has_it]
    assert cases(fault, mended) == []
    assert cases(fault, "99.0.0") == []
    assert fault.mended_for(has_it) in fault.mended
    assert bool(cases(fault, "")) is fault.is_telling
    if fault.since:
        assert cases(fault, "0.8.0") == []
    if fault.codes:
        assert cases(fault, has_it, code="ROLLING_RESTART") == []


def test_a_sign_alone_names_no_fault_of_a_mended_broker() -> None:
    history = GroupHistory("g")
    history.broker_versions = ("2.3.0", "2.3.1")
    finding = Finding(code="SCALE_OUT")
    assert known_faults(history, at_once(history), [finding]) == []
    history.broker_versions = ("2.3.0",)
    assert [each.fault.name for each in known_faults(history, at_once(history), [finding])] == ["KAFKA-8653"]


def test_versions_are_compared_by_their_numbers() -> None:
    assert version_of("2.10.0") > version_of("2.9.1")
    assert version_of("v1.15.4") == version_of("1.15.4-RC1") == (1, 15, 4)
    assert version_of("unknown") == ()


def test_the_page_has_the_table() -> None:
    assert table() in PAGE.read_text(), "run `python -m tests.why.faults_page`"
    assert all((Path(__file__).parents[2] / "docs" / page).exists() for page in ("known-faults.md", "why.md"))


@pytest.mark.parametrize(
    ("software", "library", "version"),
    [
        ("sarama 1.31.0", Library.SARAMA, "1.31.0"),
        ("kgo v1.15.3", Library.FRANZ_GO, "1.15.3"),
        ("librdkafka 2.12.1", Library.LIBRDKAFKA, "2.12.1"),
        ("confluent-kafka-python 2.3.0-rdkafka-2.3.0", Library.LIBRDKAFKA, "2.3.0"),
        ("something 1.0", Library.UNKNOWN, ""),
    ],
)
def test_software_names_a_library(software: str, library: Library, version: str) -> None:
    assert library_of_software(software) == (library, version)

"""Our assignors beside the classes of Kafka 4.2, on random groups."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from bench.kafka_assignors import KafkaAssignors
from kafka_shim.conformance.targets.base import TargetError
from kafka_shim.groups.assignors.range import RangeAssignor
from kafka_shim.groups.assignors.spec import GroupSpec
from kafka_shim.groups.assignors.uniform import UniformAssignor
from tests.examples import examples

from .groups import group_specs, kept, sizes

pytestmark = pytest.mark.second_stage("Kafka's assignors")

SETTINGS = settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAssignors]:
    for needed in ("java", "mvn"):
        if shutil.which(needed) is None:
            pytest.skip(f"Kafka's assignors need {needed}")
    try:
        process = KafkaAssignors()
    except TargetError as error:
        pytest.skip(str(error))
    yield process
    process.close()


@SETTINGS
@given(spec=group_specs(most_members=14))
def test_range_is_the_same(kafka: KafkaAssignors, spec: GroupSpec) -> None:
    assert RangeAssignor().assign(spec) == kafka.assign("range", spec)


@SETTINGS
@given(spec=group_specs(homogeneous=False, most_members=14))
def test_uniform_is_the_same_where_subscriptions_differ(kafka: KafkaAssignors, spec: GroupSpec) -> None:
    if not spec.homogeneous:
        assert UniformAssignor().assign(spec) == kafka.assign("uniform", spec)


@SETTINGS
@given(spec=group_specs(homogeneous=True, most_members=14))
def test_uniform_gives_as_many_and_keeps_as_many_where_they_are_the_same(
    kafka: KafkaAssignors, spec: GroupSpec
) -> None:
    """In Kafka the owner of a partition depends on the order of hash tables, the size of a share does not."""
    ours, theirs = UniformAssignor().assign(spec), kafka.assign("uniform", spec)
    assert sizes(ours) == sizes(theirs)
    assert kept(spec, ours) == kept(spec, theirs)

"""DescribeGroups, ListGroups, DeleteGroups: semantics 2.11 and the DG, LI and DE rows."""

from dataclasses import dataclass

import pytest

from kafka_shim.apis import describe_groups
from kafka_shim.apis.releases import Rules, rules_of
from tests.groups.context import GROUP, RANGE


def listed(coordinator, **filters):
    return {group.group_id: group.group_state for group in coordinator.list(**filters).groups}


def test_a_stable_group_shows_everything(coordinator):
    leader, _ = coordinator.form(instances=["a", "b"])
    group = coordinator.describe()
    assert (group.error_code, group.group_state) == (0, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    first = group.members[0]
    assert (first.member_id, first.group_instance_id) == (leader, "a")
    assert (first.client_id, first.client_host) == ("client", "/127.0.0.1")
    assert (first.member_metadata, first.member_assignment) == (RANGE[1], b"0")


@pytest.mark.parametrize("end", [False, True])
def test_a_rebalancing_group_shows_neither_protocol_nor_metadata(coordinator, end):
    coordinator.prepare(2)
    if end:
        coordinator.end_round()
    group = coordinator.describe()
    assert (group.protocol_type, group.protocol_data) == ("consumer", "")
    assert [member.member_metadata for member in group.members] == [b"", b""]


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_is_not_there_is_dead_and_from_v6_an_error(coordinator, version):
    group = coordinator.describe("missing", version)
    assert (group.group_state, group.error_code) == ("Dead", 69 if version >= 6 else 0)
    assert (group.error_message is not None) == (version >= 6)


@dataclass
class Posing:
    """As much of a broker as describing groups needs."""

    rules: Rules


@pytest.mark.parametrize(("release", "operations"), [("2.8", 328), ("3.9", 328), ("4.2", 3400)])
def test_authorized_operations_are_those_of_the_release(coordinator, release, operations):
    coordinator.form(1)
    coordinator.broker = Posing(rules_of(release))
    request = describe_groups.DescribeGroupsRequest([GROUP, "missing"], True)
    for version in (3, 4, 5):
        there, missing = coordinator.send(describe_groups, request, version).response.groups
        assert (there.authorized_operations, missing.authorized_operations) == (operations, operations)
    there, missing = coordinator.send(describe_groups, request, 6).response.groups
    assert (there.authorized_operations, missing.authorized_operations) == (operations, -(2**31))


def test_groups_are_listed_with_state_and_type(coordinator):
    coordinator.form()
    coordinator.join(group="other")
    assert listed(coordinator) == {GROUP: "Stable", "other": "Empty"}
    assert {(group.protocol_type, group.group_type) for group in coordinator.list().groups} == {
        ("consumer", "classic"),
        ("", "classic"),
    }


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (["Stable"], [], {GROUP}),
        ([" sTABLE "], [], {GROUP}),
        (["Stable", "Empty"], [], {GROUP, "other"}),
        (["Nonsense"], [], set()),
        ([], ["CLASSIC"], {GROUP, "other"}),
        ([], ["consumer"], set()),
        ([], ["nonsense"], set()),
        (["Empty"], ["classic"], {"other"}),
    ],
)
def test_filters_by_state_and_type(coordinator, states, types, found):
    coordinator.form()
    coordinator.join(group="other")
    assert listed(coordinator, states=states, types=types).keys() == found


def test_only_empty_groups_are_deleted(coordinator):
    coordinator.form()
    coordinator.join(group="empty")
    assert coordinator.delete(GROUP, "empty", "missing") == [(GROUP, 68), ("empty", 0), ("missing", 69)]
    assert listed(coordinator) == {GROUP: "Stable"}
    assert coordinator.describe("empty", 5).group_state == "Dead"


def test_a_group_named_twice_is_deleted_once(coordinator):
    coordinator.join()
    assert coordinator.delete(GROUP, GROUP) == [(GROUP, 0)]


def test_jg10_an_abandoned_group_can_be_deleted_and_stays_deleted(coordinator):
    coordinator.leave(*coordinator.form())
    assert coordinator.delete(GROUP) == [(GROUP, 0)]
    coordinator.crash()
    assert listed(coordinator) == {}


def test_pending_ids_do_not_keep_a_group_and_go_with_it(coordinator):
    pending = coordinator.join().member_id
    assert coordinator.delete(GROUP) == [(GROUP, 0)]
    assert coordinator.join(pending).error == 25
    assert coordinator.armed("pending-member") == {}

"""Each row of the table of releases is shown: by a case that asks for it, by a case of later releases, or by a test."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from kafka_shim.apis.releases import RELEASES, Rules, rules_of
from kafka_shim.conformance.cells import all_cases

ROOT = Path(__file__).resolve().parents[2]
CASES = {case.id: case for case in all_cases()}
ASKED = {
    name
    for path in (ROOT / "conformance").rglob("*.py")
    for name in re.findall(r"\b(?:t|self)\.rules\.(\w+)", path.read_text())
}

OF_LATER_RELEASES = {
    "rejoin_at_assignment_epoch": ("consumer/interval/3",),
    "share_ids_required": ("share/null/1", "share/null/2"),
    "share_limits_by_group": ("share/limit/1", "share/limit/2", "incremental-alter-configs/group/2"),
    "dead_letter_queues": ("share/dead/1", "share/dead/2", "share/dead/3"),
    "client_tags_required": ("streams/tags/1", "incremental-alter-configs/group/4"),
    "chosen_assignor": ("incremental-alter-configs/group/4", "streams/describe/3"),
    "topology_descriptions": ("topology-description/plugin/1", "topology-description/store/1"),
    "dynamic_intervals": ("incremental-alter-configs/broker/1",),
}
"""Rules that older releases cannot be asked about, and their cases."""

BY_TESTS = {
    # Releases with version 0 are older than the cases.
    "zookeeper_offsets_refused": "tests/server/test_older_releases.py",
    # It came with 4.0, which is no release here, and all later brokers have it.
    "early_produce_refused": "tests/apis/test_profiles.py",
    # The case txn-init/return/1 asks for EndTxn 5: its rule came with 4.0, which is no release here.
    "aborted_producers_return": "tests/broker/test_transactions.py",
    # The last epoch of a producer takes 32,766 requests.
    "new_id_after_own_abort": "tests/broker/test_transactions.py",
    # A commit is stored with the id of the topic of that moment, and its deletion takes it: no client makes another.
    "offsets_end_with_topic_id": "tests/server/test_newer_releases.py",
    # A broker's bounds change by a restart alone, and the cells of a run share brokers.
    "settings_within_bounds": "tests/conformance/test_settings_after_restart.py",
    # All settings that a running Kafka describes are compared at once.
    "cordoned_folders": "tests/conformance/test_settings_of_kafka.py",
}
"""Rules that no case can show, and the tests that do."""


@pytest.mark.parametrize("name", [row.name for row in fields(Rules)])
def test_a_row_of_the_table_of_releases_is_shown(name: str) -> None:
    places = [name in ASKED, name in OF_LATER_RELEASES, name in BY_TESTS]
    assert places.count(True) == 1
    for case_id in OF_LATER_RELEASES.get(name, ()):
        since = CASES[case_id].since
        assert since
        assert getattr(rules_of(since), name)
        before = [each for each in RELEASES if getattr(rules_of(each), name)]
        assert RELEASES.index(since) >= RELEASES.index(before[0])
    if name in BY_TESTS:
        assert (ROOT / BY_TESTS[name]).is_file()

"""What every test folder shares: how hard Hypothesis looks, with no deadline that a busy machine could miss, and which
tests `make check` leaves to `make test`.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("short", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("quick", settings.get_profile("short"), max_examples=20)
settings.register_profile("long", settings.get_profile("short"), max_examples=5000)
settings.load_profile("long" if "FUZZ_SECONDS" in os.environ else os.environ.get("HYPOTHESIS_PROFILE", "short"))

ROOT = Path(__file__).resolve().parent.parent
SECOND_STAGE = {
    "tests/clients/": "real clients in processes of their own, some of them in Java, Go and JavaScript",
    "tests/conformance/test_breaking_off.py": "processes started and broken off, one after the other",
    "tests/conformance/test_clients.py": "the same clients",
    "tests/conformance/test_connect.py": "Kafka Connect",
    "tests/conformance/test_mutation.py": "the suite on mutants, one after the other",
    "tests/conformance/test_settings_of_kafka.py": "a real Kafka",
    "tests/crash/": "servers killed under load",
    "tests/fuzz/": "a fuzzer that runs for as long as it is given",
    "tests/groups/assignors/test_against_kafka.py": "Kafka's assignors",
    "tests/packaging/": "fresh environments, installed from the package registry",
    "tests/persistence/test_kafka_dump.py": "Kafka's tools",
    "tests/persistence/test_kafka_interchange.py": "a real Kafka",
    "tests/pipeline/test_cluster.py": "a Spark cluster",
    "tests/pipeline/test_report_in_browser.py": "a browser",
    "tests/relay/test_kafka.py": "a real Kafka",
    "tests/server/test_shared_transactions.py": "several servers on PostgreSQL",
    "tests/test_readme.py": "what the README shows, Spark included",
    "tests/test_semantics.py::test_every_class_and_method_exists_in_kafka": "Kafka's classes",
    "tests/testing/languages/": "Java, Go and Node.js",
    "tests/testing/test_examples.py": "runs of pytest of their own, with real clients",
    "tests/testing/test_plugin.py": "runs of pytest of their own",
}
"""Tests, files and folders that need Java, a browser, a second language or minutes, and what for."""
NEEDING = {"spark"}
"""Fixtures that do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the second stage."""
    for item in items:
        name = item.path.relative_to(ROOT).as_posix() + "::" + item.name
        if name.startswith(tuple(SECOND_STAGE)) or NEEDING & set(getattr(item, "fixturenames", ())):
            item.add_marker("second_stage")

"""What every test folder shares: how hard Hypothesis looks, with no deadline that a busy machine could miss; which
tests `make check` leaves to `make test`; and in which order they run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("short", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("quick", settings.get_profile("short"), max_examples=20)
settings.register_profile("long", settings.get_profile("short"), max_examples=5000)
settings.load_profile("long" if "FUZZ_SECONDS" in os.environ else os.environ.get("HYPOTHESIS_PROFILE", "short"))

if TYPE_CHECKING:
    from tests.browser import Browser

ROOT = Path(__file__).resolve().parent.parent
SECOND_STAGE = {
    "tests/clients/": "real clients in processes of their own, some of them in Java, Go and JavaScript",
    "tests/conformance/test_adapters.py::test_a_template_speaks_the_protocol_before_it_is_filled_in[java]": "Java",
    "tests/conformance/test_breaking_off.py": "processes started and broken off, one after the other",
    "tests/conformance/test_clients.py": "the same clients",
    "tests/conformance/test_connect.py": "Kafka Connect",
    "tests/conformance/test_differential.py::test_ours_does_as_ours_does": "two servers, one script after the other",
    "tests/conformance/test_docs_commands.py::test_every_command_of_the_page_runs": "some fifteen runs",
    "tests/conformance/test_mutation.py": "the suite on mutants, one after the other",
    "tests/conformance/test_settings_of_kafka.py": "a real Kafka",
    "tests/conformance/test_report.py": "a run of all cases about six requests",
    "tests/control/test_schemathesis.py": "a fuzzer that runs for as long as it is given",
    "tests/crash/": "servers killed under load",
    "tests/fuzz/": "a fuzzer that runs for as long as it is given",
    "tests/groups/assignors/test_against_kafka.py": "Kafka's assignors",
    "tests/learn/test_client_lessons.py": "real clients, and the time that they take",
    "tests/packaging/": "fresh environments, installed from the package registry",
    "tests/persistence/test_kafka_groups.py": "a real Kafka",
    "tests/persistence/test_kafka_dump.py": "Kafka's tools",
    "tests/persistence/test_kafka_interchange.py": "a real Kafka",
    "tests/pipeline/test_cluster.py": "a Spark cluster",
    "tests/pipeline/test_compose.py::test_the_commands_of_the_page": "a Spark cluster",
    "tests/pipeline/test_formats.py": "another Spark, installed",
    "tests/pipeline/test_report_in_browser.py": "a browser",
    "tests/relay/test_kafka.py": "a real Kafka",
    "tests/server/test_shared_transactions.py": "several servers on PostgreSQL",
    "tests/test_cli.py::test_the_demo_shows_what_it_claims": "real clients",
    "tests/test_doors.py": "a run of pytest of its own, with real clients",
    "tests/test_house.py::test_an_environment_already_installed_is_left_alone": "an environment, installed",
    "tests/test_readme.py": "what the README shows, Spark included",
    "tests/test_site_in_browser.py": "a browser",
    "tests/test_semantics.py::test_every_class_and_method_exists_in_kafka": "Kafka's classes",
    "tests/why/test_page_details.py": "a browser",
    "tests/why/test_page_files_in_browser.py": "a browser",
    "tests/why/test_page_in_browser.py": "a browser",
    "tests/why/test_sandbox_in_browser.py": "a browser",
    "tests/testing/languages/": "Java, Go and Node.js",
    "tests/testing/test_containers.py": "a run of pytest of its own, with real clients",
    "tests/testing/test_examples.py": "runs of pytest of their own, with real clients",
    "tests/testing/test_recipes.py": "test runners of their own, Go among them",
    "tests/testing/test_plugin.py": "runs of pytest of their own",
    "tests/testing/test_scenarios.py": "real clients, and the time that they take",
}
"""Tests, files and folders that need Java, a browser, a second language or minutes, and what for."""
NEEDING = {"spark"}
"""Fixtures that do."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a worker."""
    from tests.browser import Browser

    with Browser() as found:
        yield found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the second stage, and begin with what takes longest: tests of Spark, then the rest of the stage.

    With `--dist worksteal` a worker has a run of neighbours and idle ones take from its end. So one worker alone starts
    a Spark, tests that wait for clients run beside tests that compute, and what is left at the end is short.
    """
    for item in items:
        name = item.path.relative_to(ROOT).as_posix() + "::" + item.name
        if name.startswith(tuple(SECOND_STAGE)) or _needs_spark(item):
            item.add_marker("second_stage")
    items.sort(key=lambda item: (not _needs_spark(item), item.get_closest_marker("second_stage") is None))


def _needs_spark(item: pytest.Item) -> bool:
    return bool(NEEDING & set(getattr(item, "fixturenames", ())))

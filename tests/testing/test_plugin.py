"""The pytest plugin, by pytest runs of its own."""

import subprocess
import sys

import orjson
import pytest

pytest_plugins = ["pytester"]

OURS = ("kafka_shim", "trio", "orjson", "starlette", "hypercorn", "kafka")


@pytest.fixture
def run(pytester: pytest.Pytester) -> pytest.Pytester:
    # By its module, and not by its entry point: an installation in place may be older than that.
    pytester.makeini(
        "[pytest]\naddopts = -p no:trio -p no:cacheprovider -p no:kafka-shim -p kafka_shim.testing.plugin"
        " --strict-markers"
    )
    return pytester


def test_a_test_gets_a_coordinator_as_its_marker_says(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.kafka_coordinator(topics={"orders": 2}, brokers=2)

        @pytest.mark.kafka_coordinator(topics={"orders": 4})
        def test_it(kafka_coordinator):
            assert kafka_coordinator.bootstrap.count(",") == 1
            kafka_coordinator.puppet("billing", ["orders"])
            found = kafka_coordinator.group("billing").stable(members=1)
            assert found.members[0].owned == {"orders": [0, 1, 2, 3]}
        """
    )
    run.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_factory_makes_several_and_they_end_with_the_test(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import socket
        import pytest

        seen = []

        def test_two(kafka_coordinator_factory):
            first, second = kafka_coordinator_factory(), kafka_coordinator_factory(topics={"orders": 1})
            assert first.bootstrap != second.bootstrap
            seen.extend([first.bootstrap, second.bootstrap])

        def test_they_are_gone():
            for host, port in (address.split(":") for address in seen):
                with pytest.raises(OSError):
                    socket.create_connection((host, int(port)))
        """
    )
    run.runpytest_inprocess().assert_outcomes(passed=2)


def test_one_coordinator_of_the_session_keeps_tests_apart(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pytest

        servers = []

        @pytest.mark.kafka_coordinator(topics={"orders": 2})
        @pytest.mark.parametrize("number", [1, 2])
        def test_it(kafka_coordinator_session, number):
            servers.append(kafka_coordinator_session.server)
            kafka_coordinator_session.puppet("billing", ["orders"])
            assert len(kafka_coordinator_session.group("billing").stable(members=1).members) == 1
            assert len(set(map(id, servers))) == 1
            name = kafka_coordinator_session.name("payments")
            assert kafka_coordinator_session.create_topic(name) == name
        """
    )
    run.runpytest_inprocess().assert_outcomes(passed=2)


def test_a_failed_test_is_explained(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_coordinator(topics={"orders": 2})
        def test_it(kafka_coordinator):
            kafka_coordinator.puppet("billing", ["orders"], client_id="the-one")
            kafka_coordinator.group("billing").stable(members=1)
            assert False
        """
    )
    result = run.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*- kafka coordinator -*", "*rebalance begins, cause NEW_MEMBER: the-one is new"])
    path = next(line.partition(": ")[2] for line in result.outlines if line.startswith("The trace: "))
    with open(path, "rb") as trace:
        assert "assignment" in {orjson.loads(line)["event"] for line in trace}


def test_a_fault_that_never_happens_fails_the_test_unless_it_is_optional(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pytest

        FAULT = {"action": "error", "api": "OffsetCommit", "error": "NOT_COORDINATOR"}

        @pytest.mark.kafka_coordinator(faults=[FAULT])
        def test_unfired(kafka_coordinator):
            pass

        @pytest.mark.kafka_coordinator(faults=[FAULT | {"optional": True}])
        def test_optional(kafka_coordinator):
            pass

        @pytest.mark.kafka_coordinator(faults=[FAULT], topics={"orders": 1})
        def test_fired(kafka_coordinator):
            puppet = kafka_coordinator.puppet("billing", ["orders"])
            kafka_coordinator.group("billing").stable(members=1)
            puppet.commit({("orders", 0): 1})
            kafka_coordinator.group("billing").next("exchange", api="OffsetCommit", error=16)
        """
    )
    result = run.runpytest_inprocess()
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*UnfiredFaults: Never happened: error for api=OffsetCommit*"])


def test_a_marker_that_says_what_cannot_be_is_refused(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_coordinator({"orders": 2})
        def test_without_keyword(kafka_coordinator):
            pass

        @pytest.mark.kafka_coordinator(topic={"orders": 2})
        def test_unknown_keyword(kafka_coordinator):
            pass

        @pytest.mark.kafka_coordinator(topics={"orders": 2}, brokers=3)
        def test_shared(kafka_coordinator_session):
            pass
        """
    )
    result = run.runpytest_inprocess()
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        [
            "*takes keywords alone: kafka_coordinator(topics=*",
            "*unexpected keyword argument 'topic'*",
            "*a test says its topics, not its brokers.*",
        ]
    )


def test_tests_run_in_parallel(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_coordinator(topics={"orders": 2})
        @pytest.mark.parametrize("number", range(20))
        def test_it(kafka_coordinator, number):
            kafka_coordinator.puppet("billing", ["orders"])
            assert kafka_coordinator.group("billing").stable(members=1).generation == 1
        """
    )
    run.runpytest_subprocess("-n", "2").assert_outcomes(passed=20)


def test_it_costs_nothing_where_it_is_not_used() -> None:
    """What the plugin imports besides pytest, and how long that takes, by Python's own account."""
    plugin = "kafka_shim.testing.plugin"
    code = f"import pytest, sys; before = set(sys.modules); import {plugin}; print(*set(sys.modules) - before)"
    command = [sys.executable, "-X", "importtime", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {name for name in done.stdout.split() if name.partition(".")[0] in OURS} == {
        "kafka_shim",
        "kafka_shim.testing",
        plugin,
    }
    times = {
        line.split("|")[2].strip(): int(line.split("|")[1]) for line in done.stderr.splitlines()[1:] if "|" in line
    }
    assert times[plugin] < 30_000


def test_a_project_has_coordinators_of_every_scope(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        from kafka_shim.testing import coordinator_fixture

        kafka = coordinator_fixture(scope="module", topics={"orders": 2}, config={"group.max.size": 1})
        function, class_, module, package, session = (
            coordinator_fixture(scope=scope, config={"group.max.size": 2})
            for scope in ("function", "class", "module", "package", "session")
        )
    """)
    pytester.makepyfile("""
        def test_one(kafka):
            kafka.puppet("one", ["orders"])
            kafka.group("one").stable(members=1)

        def test_two(kafka):
            assert kafka.group("one").now.is_stable
            kafka.puppet("two", ["orders"])
            kafka.group("two").stable(members=2, timeout=0.05)

        class TestScopes:
            def test_first(self, function, class_, module, package, session):
                TestScopes.first = [each.bootstrap for each in (function, class_, module, package, session)]

            def test_second(self, function, class_, module, package, session):
                second = [each.bootstrap for each in (function, class_, module, package, session)]
                assert [one == other for one, other in zip(TestScopes.first, second)] == [False, True, True, True, True]
    """)
    result = pytester.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*Waited 0.05 s for the group to be stable*", "*kafka coordinator*", "*two *joins*"])
    result.stdout.no_fnmatch_line("* one  *joins*")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_test_on_an_event_loop_has_a_coordinator_of_its_own(pytester: pytest.Pytester, backend: str) -> None:
    pytester.makepyfile(f"""
        import pytest

        @pytest.fixture
        def anyio_backend():
            return {backend!r}

        @pytest.mark.anyio
        @pytest.mark.kafka_coordinator(topics={{"orders": 2}})
        async def test_one(kafka_coordinator_async):
            kafka_coordinator_async.puppet("one", ["orders"])
            found = await kafka_coordinator_async.group("one").stable(members=1)
            assert found.members[0].owned == {{"orders": [0, 1]}}
    """)
    pytester.runpytest_subprocess("-p", "anyio").assert_outcomes(passed=1)

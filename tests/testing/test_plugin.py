"""The pytest plugin, in separate runs of pytest."""

import subprocess
import sys

import orjson
import pytest

from kafka_shim.testing import CoordinatorServer

pytestmark = pytest.mark.second_stage("separate runs of pytest")

pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def imported() -> None:
    """Import a coordinator: pytester drops modules after a run, and a later one would have some of them twice."""
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)


@pytest.fixture
def run(imported: None, pytester: pytest.Pytester) -> pytest.Pytester:
    # By its module, and not by its entry point: an installation in place may be older than that.
    pytester.makeini(
        "[pytest]\naddopts = -p no:trio -p no:cacheprovider -p no:kafka-shim -p kafka_shim.testing.plugin"
        " --strict-markers"
    )
    return pytester


def test_marker_configures_the_coordinator(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.kafka_coordinator(topics={"orders": 2}, brokers=2)

        @pytest.mark.kafka_coordinator(topics={"orders": 4})
        def test_it(kafka_coordinator):
            assert kafka_coordinator.bootstrap.count(",") == 1
            kafka_coordinator.puppet("billing", ["orders"])
            group = kafka_coordinator.group("billing").stable(members=1)
            assert group.members[0].owned == {"orders": [0, 1, 2, 3]}
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
            assert kafka_coordinator_session.produce("payments", "a", key="k") == [(0, 0)]
            assert kafka_coordinator_session.produce(name, "b") == [(0, 1)]
            assert [record.value for record in kafka_coordinator_session.records("payments")] == [b"a", b"b"]
            kafka_coordinator_session.server.seed_offsets(kafka_coordinator_session.name("ledger"), {(name, 0): 1})
            assert kafka_coordinator_session.lag("ledger") == {("payments", 0): 1}
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
    assert _failures(run) == [
        "UnfiredFaults: Never happened: error for api=OffsetCommit. Send the request that it waits for;"
        " declare one that need not happen with optional=True."
    ]


def test_a_failed_wait_or_a_refusal_shows_the_line_of_the_test_alone(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import trio
        from kafka_shim.testing import open_coordinator

        def test_it(kafka_coordinator):
            kafka_coordinator.group("billing").stable(members=1, timeout=0.05)

        def test_refusal(kafka_coordinator):
            kafka_coordinator.puppet("billing", ["nowhere"])

        def test_error(kafka_coordinator):
            kafka_coordinator.call(lambda: {}["a key of the test"])

        def test_clock(kafka_coordinator):
            kafka_coordinator.clock.advance("10")

        def test_block(kafka_coordinator):
            with kafka_coordinator.playing("zombie", "billing", "real"):
                pass

        def test_nursery():
            async def main():
                async with open_coordinator() as kit, trio.open_nursery():
                    await kit.group("shipping").stable(members=1, timeout=0.05)
            trio.run(main)
        """
    )
    result = run.runpytest_inprocess()
    result.assert_outcomes(failed=6)
    lines = "\n".join(result.outlines)
    assert "NotReached: Waited 0.05 s in vain" in lines
    assert "Refused: There is no topic 'nowhere'" in lines
    assert "KeyError: 'a key of the test'" in lines
    assert "ValueError: The time to put the clock forward must be seconds of at least 0, not '10'." in lines
    assert "Now shipping is Dead" in lines
    hidden = ("outcome", "_threads.py", "thread.py", "handles.py", "kit.py", "concurrent/", "contextlib.py", "_run.py")
    assert not [each for each in hidden if each in lines]
    assert "handles.py:" in "\n".join(run.runpytest_inprocess("--full-trace").outlines)


def test_a_wait_without_await_fails_the_test(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import asyncio
        from kafka_shim.testing import coordinator_fixture

        mine = coordinator_fixture(awaitable=True)

        def test_that_is_not_async(kafka_coordinator_async):
            kafka_coordinator_async.group("billing").stable(members=17)

        def test_with_its_own_fixture(mine):
            assert mine.group("billing").committed("orders", 0)

        def test_that_awaits(kafka_coordinator_async):
            async def wait():
                await kafka_coordinator_async.group("billing").empty()
            asyncio.run(wait())
        """
    )
    remedy = "Write `await` before each; a test without `async` uses CoordinatorServer (the fixture kafka_coordinator)."
    file = "test_a_wait_without_await_fails_the_test.py"
    assert _failures(run) == [
        f"ForgottenWaits: Never awaited: stable(...) in {file}:7. {remedy}",
        f"ForgottenWaits: Never awaited: committed(...) in {file}:10. {remedy}",
    ]


def test_an_impossible_marker_is_refused(run: pytest.Pytester) -> None:
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
    positional, unknown, shared = _failures(run)
    assert positional.startswith("UsageError: The marker kafka_coordinator takes keywords alone: kafka_coordinator(")
    assert unknown == "UsageError: The marker kafka_coordinator has no argument 'topic'; did you mean 'topics'?"
    assert shared == "UsageError: The coordinator of the session is shared: a test may set topics, not brokers."


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


def test_pytest_rewrites_no_other_module_of_the_package(run: pytest.Pytester) -> None:
    run.makepyfile(
        marks="import pytest; pytest.register_assert_rewrite('kafka_shim')",
        test_it="""
        import sys

        def test_it(kafka_coordinator):
            loaders = {name: type(module.__spec__.loader).__name__ for name, module in sys.modules.items()
                       if name.startswith("kafka_shim.")}
            assert len(loaders) > 100
            assert [name for name, loader in loaders.items() if loader == "AssertionRewritingHook"] == [
                "kafka_shim.testing", "kafka_shim.testing.plugin"
            ]
        """,
    )
    run.syspathinsert()
    run.runpytest_subprocess("-p", "marks").assert_outcomes(passed=1)


def test_an_unused_plugin_imports_nothing() -> None:
    """Python reports the imports of the plugin without those of pytest. `bench` measures their time."""
    plugin = "kafka_shim.testing.plugin"
    code = f"import pytest, sys; before = set(sys.modules); import {plugin}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert {name.partition(".")[0] for name in names} - sys.stdlib_module_names == {"kafka_shim"}
    assert {name for name in names if name.startswith("kafka_shim")} == {"kafka_shim", "kafka_shim.testing", plugin}


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
    result.stdout.fnmatch_lines(
        ["*Waited 0.05 s in vain for the group to be stable*", "*kafka coordinator*", "*two *joins*"]
    )
    result.stdout.no_fnmatch_line("* one  *joins*")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_test_on_an_event_loop_has_its_own_coordinator(pytester: pytest.Pytester, backend: str) -> None:
    pytester.makepyfile(f"""
        import pytest

        @pytest.fixture
        def anyio_backend():
            return {backend!r}

        @pytest.mark.anyio
        @pytest.mark.kafka_coordinator(topics={{"orders": 2}})
        async def test_one(kafka_coordinator_async):
            kafka_coordinator_async.puppet("one", ["orders"])
            group = await kafka_coordinator_async.group("one").stable(members=1)
            assert group.members[0].owned == {{"orders": [0, 1]}}
    """)
    pytester.runpytest_subprocess("-p", "anyio").assert_outcomes(passed=1)


def test_a_mistake_in_the_marker_is_one_sentence(run: pytest.Pytester) -> None:
    run.makeconftest(WRAPPED)
    run.makepyfile("""
        import pytest


        @pytest.mark.kafka_coordinator(config={"group.max.sise": 3})
        def test_setting(kafka_coordinator):
            pass


        @pytest.mark.kafka_coordinator(topics=["orders"])
        def test_list(kafka_coordinator):
            pass
    """)
    assert _failures(run) == [
        "ValueError: 'group.max.sise' is not a setting of this coordinator; did you mean 'group.max.size'?",
        "ValueError: topics must map names to numbers of partitions, such as {'orders': 4}, not ['orders'].",
    ]


def test_a_mistake_in_a_fixture_shows_its_line(run: pytest.Pytester) -> None:
    run.makeconftest(WRAPPED)
    run.makepyfile("""
        import pytest
        from kafka_shim.testing import CoordinatorServer


        @pytest.fixture
        def kafka():
            return CoordinatorServer(brokers=0)


        def test_it(kafka):
            pass
    """)
    (failure,) = _failures(run)
    assert "return CoordinatorServer(brokers=0)" in failure


WRAPPED = """
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup():
    return (yield)
"""
"""A plugin with a frame of its own around each fixture, as pytest-asyncio has."""


def _failures(run: pytest.Pytester) -> list[str]:
    """Run the tests; return the text of each failure in the report."""
    reports = run.inline_run("-p", "no:randomly").getreports("pytest_runtest_logreport")
    return [str(report.longrepr) for report in reports if report.failed]

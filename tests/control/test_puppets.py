"""Over HTTP: puppets, faults awaited, a store that fails; and that the API knows all that the kit does."""

from collections.abc import Iterator
from typing import Any, get_args

import httpx
import pytest

from kafka_shim.control.operations import acts, faults, matching
from kafka_shim.lab.client_assignors import ASSIGNORS
from kafka_shim.lab.interception import MATCH_FIELDS
from kafka_shim.lab.puppet_kinds import PUPPET_KINDS, class_of
from kafka_shim.lab.puppets import Manner
from kafka_shim.lab.simulator import Simulation
from kafka_shim.server.extensions import load
from kafka_shim.testing import CoordinatorServer
from kafka_shim.trace.events import FAULT_ACTIONS

BODIES: tuple[Any, ...] = get_args(acts.AnyPuppet)
PUPPETS_WITHOUT = {
    "share": {"pattern", "instance_id", "assignor", "rebalance_timeout", "think", "manner"},
    "streams": {"pattern", "instance_id", "assignor", "topology", "endpoint", "tags"},
    "client-assignors": {"pattern", "assignor"},
}
"""Fields of a puppet that have no effect in a kind."""
EXPERIMENTS = ["client-assignors", "designs"]
KINDS = [*PUPPET_KINDS, *load(EXPERIMENTS).puppets]


def kind_of(body: Any) -> str:
    return str(body.__struct_config__.tag)


@pytest.fixture
def ask(server: CoordinatorServer) -> Iterator[Any]:
    with httpx.Client(base_url=server.control_url, timeout=20) as http:

        def ask(method: str, path: str, status: int = 200, **body: Any) -> Any:
            answer = http.request(method, path, json=body if method == "POST" else None)
            assert answer.status_code == status, answer.text
            return answer.json()

        yield ask


def test_a_puppet_joins_commits_and_leaves(ask: Any) -> None:
    made = ask("POST", "/v1/puppets", group="p", topics=["orders"], instance_id="one", manner={"heartbeat_late": 0.01})
    path = f"/v1/puppets/{made['puppet']}"
    ask("POST", "/v1/groups/p/await", **{"for": "owns", "member": "one", "partitions": {"orders": [0, 1, 2, 3]}})
    assert ask("GET", path)["owned"] == {"orders": [0, 1, 2, 3]}
    offsets = [{"topic": "orders", "partition": 3, "offset": 8}]
    ask("POST", path, do="commit", offsets=offsets)
    assert ask("POST", "/v1/groups/p/await", **{"for": "committed", "topic": "orders", "partition": 3}) == {"offset": 8}
    ask("POST", path, do="commit", offsets=offsets, generation=0)
    refused = {"for": "event", "event": "commit", "fields": {"error": 22}}
    assert ask("POST", "/v1/groups/p/await", **refused)["generation"] == 0
    ask("POST", path, do="leave")
    ask("POST", "/v1/groups/p/await", **{"for": "empty"})
    assert [each["puppet"] for each in ask("GET", "/v1/puppets")["puppets"]] == [made["puppet"]]
    assert ask("DELETE", path)["member_id"] == ""
    assert ask("GET", path, 404)["message"] == "There is no such puppet."


def test_a_fault_is_awaited_and_an_unused_fault_is_reported(ask: Any) -> None:
    happens = ask("POST", "/v1/faults", action="error", api="JoinGroup", error="NOT_COORDINATOR", group="awaited")
    never = ask("POST", "/v1/faults", action="drop", api="Heartbeat", group="nobody")
    puppet = ask("POST", "/v1/puppets", group="awaited", topics=["orders"])["puppet"]
    assert ask("POST", f"/v1/faults/{happens['fault']}/await")["fired"] == 1
    in_vain = ask("POST", f"/v1/faults/{never['fault']}/await", 409, timeout=0.01)
    assert in_vain["message"].startswith("Waited 0.01 s for drop for api=Heartbeat group=nobody to happen 1 times")
    assert ask("DELETE", "/v1/faults")["unfired"] == [never["fault"]]
    ask("DELETE", f"/v1/puppets/{puppet}")


def test_a_store_fails_until_it_is_repaired(server: CoordinatorServer, ask: Any) -> None:
    ask("POST", "/v1/store/fail", times=None)
    puppet = ask("POST", "/v1/puppets", group="unstored", topics=["orders"])["puppet"]
    store = server.kit.store
    assert store is not None
    assert server.wait(server.kit.conditions.until, lambda: store.failed > 0, 10)
    ask("DELETE", "/v1/store/fail")
    ask("POST", "/v1/groups/unstored/await", **{"for": "stable", "members": 1})
    ask("DELETE", f"/v1/puppets/{puppet}")


@pytest.fixture(scope="module")
def experimental() -> Iterator[Any]:
    """A function that sends requests to a server with the experiments."""
    config = {"group.streams.initial.rebalance.delay.ms": "0"}
    with (
        CoordinatorServer(topics={"orders": 4}, control=True, experimental=EXPERIMENTS, config=config) as server,
        httpx.Client(base_url=server.control_url, timeout=20) as http,
    ):

        def ask(method: str, path: str, status: int = 200, **body: Any) -> Any:
            answer = http.request(method, path, json=body if method == "POST" else None)
            assert answer.status_code == status, answer.text
            return answer.json()

        yield ask


@pytest.mark.parametrize("kind", KINDS)
def test_a_puppet_of_every_kind_joins_shares_and_leaves(kind: str, experimental: Any) -> None:
    ask = experimental
    group = f"every-{kind}"
    body = {"kind": kind, "group": group, "topics": ["orders"]}
    names = [ask("POST", "/v1/puppets", **body, client_id=name)["puppet"] for name in ("one", "two")]
    for _ in range(60):
        ask("POST", "/v1/clock", advance=1)
        both = [ask("GET", f"/v1/puppets/{name}") for name in names]
        owned = [number for each in both for numbers in each["owned"].values() for number in numbers]
        if all(each["owned"] for each in both) and sorted(owned) == [0, 1, 2, 3]:
            break
    else:
        raise AssertionError(both)
    assert [each["kind"] for each in both] == [kind, kind]
    ask("POST", f"/v1/puppets/{names[0]}", do="leave")
    ask("POST", f"/v1/puppets/{names[1]}", do="crash")
    if kind == "registered":
        ask("POST", "/v1/clock", advance=11)
    ask("DELETE", f"/v1/puppets/{names[0]}")
    ask("DELETE", f"/v1/puppets/{names[1]}")


def test_a_puppet_says_assignors_over_http_and_another_rewinds_its_group(experimental: Any) -> None:
    ask = experimental
    evenly = {"metadata": "bWU=", "maximum_version": 1}
    body = {"kind": "client-assignors", "group": "saying", "topics": ["orders"], "assignors": [evenly]}
    path = f"/v1/puppets/{ask('POST', '/v1/puppets', **body)['puppet']}"
    ask("POST", "/v1/clock", advance=6)
    ask("POST", "/v1/groups/saying/await", **{"for": "stable", "members": 1})
    assert ask("GET", path)["installed"] == [2]
    ask("POST", path, do="say", assignors=[evenly | {"fails": True, "metadata": ""}])
    ask("POST", "/v1/clock", advance=6)
    asked = {"for": "event", "event": "epoch", "fields": {"generation": 3}}
    assert ask("POST", "/v1/groups/saying/await", **asked)["cause"] == "SUBSCRIPTION_CHANGED"
    refused = ask("POST", path, 409, do="rewind", offsets=[])
    assert refused["message"] == "Only a puppet of the kind registered rewinds its group."
    body = {"kind": "registered", "group": "rewinding", "topics": ["orders"]}
    other = f"/v1/puppets/{ask('POST', '/v1/puppets', **body)['puppet']}"
    ask("POST", "/v1/groups/rewinding/await", **{"for": "stable", "members": 1})
    assert ask("GET", other)["positions"] == {"orders": {"0": -1, "1": -1, "2": -1, "3": -1}}
    ask("POST", other, do="rewind", offsets=[{"topic": "orders", "partition": 2, "offset": 7}])
    committed = {"for": "committed", "topic": "orders", "partition": 2}
    assert ask("POST", "/v1/groups/rewinding/await", **committed) == {"offset": 7}
    assert ask("POST", other, 409, do="say", assignors=[evenly])["error"] == "INVALID_REQUEST"
    for each in (path, other):
        ask("DELETE", each)


def test_a_kind_that_the_coordinator_does_not_serve_is_refused(ask: Any) -> None:
    refused = ask("POST", "/v1/puppets", 409, kind="registered", group="g", topics=["orders"])
    assert refused["message"] == (
        "The coordinator does not serve designs: start it with --experimental, or experimental=[...]."
    )
    unknown = ask("POST", "/v1/puppets", 400, kind="clasic", group="g", topics=["orders"])
    assert unknown["message"].endswith("Did you mean 'classic'?")
    other = ask("POST", "/v1/puppets", 400, kind="share", group="g", topics=["orders"], protocols=["range"])
    assert "protocols" in other["message"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_simulation_of_every_kind_is_played_at_once(kind: str, ask: Any) -> None:
    puppet = {"kind": kind, "group": "billing", "topics": ["orders"]}
    body = {
        "topics": {"orders": 6},
        "members": [{"puppet": puppet | {"client_id": name}, "at": at} for at, name in enumerate(("a", "b", "c"))],
        "steps": [{"at": 100, "member": 1, "act": {"do": "crash"}}],
        "seconds": 300,
        "network": {"least": 0.001, "most": 0.02},
        "experimental": EXPERIMENTS,
        "seed": 7,
    }
    played = ask("POST", "/v1/simulations", **body)
    (group,) = played["groups"]
    assert (group["state"], len(group["members"])) == ("Stable", 2)
    owned = [(topic, n) for each in group["members"] for topic, numbers in each["owned"].items() for n in numbers]
    assert len(owned) == 6
    assert "SESSION_EXPIRED" in group["rebalances"]
    assert [each["client_id"] for each in played["puppets"]] == ["a", "b", "c"]
    assert {"expired"} <= {each.get("change") for each in played["events"]}
    assert ask("POST", "/v1/simulations", **body) == played


def test_an_impossible_simulation_is_refused_in_a_sentence(ask: Any) -> None:
    member = {"puppet": {"group": "billing", "topics": ["orders"], "kind": "classic"}, "at": 5}
    body: Any = {"topics": {"orders": 6}, "members": [member]}
    late = [{"at": 1, "member": 0, "act": {"do": "leave"}}]
    assert ask("POST", "/v1/simulations", 409, **body, steps=late)["message"] == "Member 0 has not joined yet at 1 s."
    nobody = [{"at": 1, "member": 1, "act": {"do": "leave"}}]
    assert ask("POST", "/v1/simulations", 409, **body, steps=nobody)["message"] == "There is no member 1."
    wrong = ask("POST", "/v1/simulations", 409, **body, config={"group.max.sise": "1"})
    assert "group.max.size" in wrong["message"]
    unserved = {"puppet": member["puppet"] | {"kind": "registered"}}
    assert "designs" in ask("POST", "/v1/simulations", 409, topics={"orders": 1}, members=[unserved])["message"]


def test_the_api_knows_every_fault_match_and_manner() -> None:
    assert {kind.__struct_config__.tag for kind in get_args(faults.AnyFault)} == set(FAULT_ACTIONS)
    assert set(matching.Match.__struct_fields__) == MATCH_FIELDS
    assert set(acts.Manner.__struct_fields__) == set(Manner.__dataclass_fields__)
    assert {kind_of(each) for each in BODIES} == set(KINDS)
    scheduler = Simulation(experimental=EXPERIMENTS).scheduler
    for each in BODIES:
        script = class_of(scheduler, kind_of(each)).script_class
        without = PUPPETS_WITHOUT.get(kind_of(each), set())
        assert set(each.__struct_fields__) == set(script.__dataclass_fields__) - without
    (protocols, _) = get_args(acts.CreatePuppet.__annotations__["protocols"]) or (None, None)
    assert protocols is None or set(get_args(get_args(protocols)[0])) == set(ASSIGNORS)

"""Over HTTP: puppets, faults awaited, a store that fails; and that the API knows all that the kit does."""

from collections.abc import Iterator
from typing import Any, get_args

import httpx
import pytest

from kafka_shim.control.operations import faults, matching, puppets
from kafka_shim.lab.client_assignors import ASSIGNORS
from kafka_shim.lab.faults import ACTIONS
from kafka_shim.lab.interception import MATCH_FIELDS
from kafka_shim.lab.puppets import Manner, Script
from kafka_shim.testing import CoordinatorServer


@pytest.fixture
def ask(server: CoordinatorServer) -> Iterator[Any]:
    with httpx.Client(base_url=server.control_url, timeout=20) as http:

        def ask(method: str, path: str, status: int = 200, **body: Any) -> Any:
            answer = http.request(method, path, json=body if method == "POST" else None)
            assert answer.status_code == status, answer.text
            return answer.json()

        yield ask


def test_a_puppet_joins_commits_leaves_and_is_gone(ask: Any) -> None:
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


def test_a_fault_is_awaited_and_one_that_never_happened_is_told(ask: Any) -> None:
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


def test_the_api_knows_every_fault_match_and_manner() -> None:
    assert {kind.__struct_config__.tag for kind in get_args(faults.AnyFault)} == set(ACTIONS)
    assert set(matching.Match.__struct_fields__) == MATCH_FIELDS
    assert set(puppets.Manner.__struct_fields__) == set(Manner.__dataclass_fields__)
    assert set(puppets.CreatePuppet.__struct_fields__) == set(Script.__dataclass_fields__)
    (protocols, _) = get_args(puppets.CreatePuppet.__annotations__["protocols"]) or (None, None)
    assert protocols is None or set(get_args(get_args(protocols)[0])) == set(ASSIGNORS)

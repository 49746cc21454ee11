"""Messages of unreleased protocols: each has its module and a private key, and round-trips."""

import importlib
import pkgutil

import pytest

from kafka_shim.apis import experimental
from kafka_shim.apis.api import Api
from kafka_shim.apis.client_assignor import ClientAssignor
from kafka_shim.apis.consumer_group_heartbeat import TopicPartitions
from kafka_shim.apis.experimental.client_assignor_heartbeat import (
    Assignment,
    ClientAssignorHeartbeatRequest,
    ClientAssignorHeartbeatResponse,
)
from kafka_shim.apis.keys import ApiKey, ExperimentalKey
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire.headers import is_flexible

MODULES = [
    importlib.import_module(f"kafka_shim.apis.experimental.{each.name}")
    for each in pkgutil.iter_modules(experimental.__path__)
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_an_api_has_a_key_and_a_name_of_its_own(module: object) -> None:
    api: Api = module.API  # type: ignore[attr-defined]
    assert isinstance(api.key, ExperimentalKey)
    assert (api.request.api_key, api.response.api_key, api.key.api_name) == (api.key, api.key, api.name)
    assert api.request.__name__ == f"{api.name}Request"
    assert api.request.__module__.rpartition(".")[2].replace("_", "") == api.name.lower()
    assert api.key not in APIS
    assert max(ApiKey) < api.key < 1 << 15
    for version in api.request.versions:
        assert is_flexible(api.key, version) == (version in api.request.flexible)
        assert api.request.decode(api.request().encode(version), version) == api.request()
        refused = api.error(api.request(), 25)
        assert api.response.decode(refused.encode(version), version) == refused


def test_every_key_has_an_api() -> None:
    assert {module.API.key for module in MODULES} == set(ExperimentalKey)


def test_the_bytes_of_a_heartbeat_are_those_of_the_proposal() -> None:
    request = ClientAssignorHeartbeatRequest("g", "m", 3, client_assignors=[ClientAssignor("a", 0, 2, 1, 2, b"x")])
    nothing = "00 00 ffffffff 00 00 00"  # instance, rack, rebalance timeout, names, regex, server assignor
    assignor = "02 0261 0000 0002 01 0002 0278 00"
    assert request.encode(0) == bytes.fromhex(f"0267 026d 00000003 {nothing} {assignor} 00 00")
    owned = [TopicPartitions(bytes(16), [1])]
    response = ClientAssignorHeartbeatResponse(0, 0, None, "m", 3, True, 5000, Assignment(0, owned, [], 2, b"y"))
    partitions = "02" + "00" * 16 + "0200000001 00"
    answered = f"00000000 0000 00 026d 00000003 01 00001388 01 00 {partitions} 01 0002 0279 00 00"
    assert response.encode(0) == bytes.fromhex(answered)

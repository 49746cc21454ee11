"""Messages of our own experiments: each API has a private key, and its messages round-trip."""

import pytest

from kafka_shim.apis.api import Api
from kafka_shim.apis.consumer_group_heartbeat import TopicPartitions
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.private import FIRST_KEY, PRIVATE_APIS
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire.headers import is_flexible
from kafka_shim.experiments.client_assignors import messages as of_assignors
from kafka_shim.experiments.client_assignors.messages import (
    Assignment,
    ClientAssignor,
    ClientAssignorHeartbeatRequest,
    ClientAssignorHeartbeatResponse,
)
from kafka_shim.experiments.registered import messages as of_designs

OWN = [api for module in (of_assignors, of_designs) for api in vars(module).values() if isinstance(api, Api)]


@pytest.mark.parametrize("api", OWN, ids=lambda api: api.name)
def test_an_api_has_a_key_and_a_name_of_its_own(api: Api) -> None:
    assert (api.request.api_key, api.response.api_key) == (api.key, api.key)
    assert api.request.__name__ == f"{api.name}Request"
    assert api.key not in APIS
    assert PRIVATE_APIS[api.key] is api
    assert max(ApiKey) < FIRST_KEY <= api.key < 1 << 15
    for version in api.request.versions:
        assert is_flexible(api.key, version) == (version in api.request.flexible)
        assert api.request.decode(api.request().encode(version), version) == api.request()
        refused = api.error(api.request(), 25)
        assert api.response.decode(refused.encode(version), version) == refused


def test_every_key_has_an_api() -> None:
    assert sorted(api.key for api in OWN) == sorted([*of_assignors.Key, *of_designs.Key])


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

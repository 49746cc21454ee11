"""Every API in every version: our bytes are those of other codecs, and each decodes the other's bytes."""

import pytest
from hypothesis import HealthCheck, given, settings

from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import Message
from tests.apis.other_codecs import CODECS, REMOVED_IN_4_0, SINCE_4_4
from tests.apis.strategies import edges, structs
from tests.examples import examples

MESSAGES = [message for api in APIS.values() for message in (api.request, api.response)]
CASES = [(message, version) for message in MESSAGES for version in message.versions]


def case_id(value: object) -> str:
    return value.__name__ if isinstance(value, type) else f"v{value}"


@pytest.mark.parametrize(("message", "version"), CASES, ids=case_id)
def test_same_as_other_codecs(message: type[Message], version: int) -> None:
    codecs = [codec for codec in CODECS.values() if codec.covers(message, version)]
    name = message.__name__.removesuffix("Request").removesuffix("Response")
    assert codecs or (name, version) in SINCE_4_4 | REMOVED_IN_4_0

    def check(value: Message) -> None:
        ours = value.encode(version)
        assert message.decode(ours, version) == value
        for codec in codecs:
            assert codec.encode(value, version) == ours, codec.__doc__
            assert codec.decode(message, ours, version) == value, codec.__doc__
        if (name, version) in REMOVED_IN_4_0:
            assert value.encode(version + 1) == ours

    check(message())
    check(edges(message, version, high=False))
    check(edges(message, version, high=True))
    settings(
        max_examples=examples(12),
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )(given(structs(message, version))(check))()

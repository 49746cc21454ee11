"""The guarantees of the registry of APIs."""

import importlib
import pkgutil
import re
from pathlib import Path

import kafka_shim
from kafka_shim import apis
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire.headers import is_flexible
from tests.apis.other_codecs import CODECS, REMOVED_IN_4_0, SINCE_4_4

GROUP_APIS = {
    3: (0, 13), 8: (0, 10), 9: (0, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6),
    16: (0, 5), 18: (0, 5), 42: (0, 3), 47: (0, 0),
}  # fmt: skip


def test_every_module_with_an_api_is_registered() -> None:
    modules = [importlib.import_module(f"kafka_shim.apis.{each.name}") for each in pkgutil.iter_modules(apis.__path__)]
    by_key = {module.API.key: module.API for module in modules if hasattr(module, "API")}
    assert by_key == APIS


def test_key_and_name_are_those_of_the_messages() -> None:
    for key, api in APIS.items():
        assert ApiKey[re.sub("(?<!^)(?=[A-Z])", "_", api.name).upper()] is api.key
        assert (api.key, api.request.api_key, api.response.api_key) == (key, key, key)
        assert api.request.__name__ == f"{api.name}Request"
        assert api.response.__name__ == f"{api.name}Response"
        assert api.request.versions == api.response.versions
        assert api.request.flexible == api.response.flexible


def test_module_is_named_after_the_api() -> None:
    for api in APIS.values():
        assert api.request.__module__ == api.response.__module__
        assert api.request.__module__.rpartition(".")[2].replace("_", "") == api.name.lower()


def test_docstring_tells_every_version() -> None:
    for api in APIS.values():
        lines = (importlib.import_module(api.request.__module__).__doc__ or "").splitlines()
        versions = [line.split()[0] for line in lines if line.strip().startswith("v") and line.split()[0][1:].isdigit()]
        assert versions == [f"v{version}" for version in api.request.versions], api.name


def test_group_apis_have_every_version_from_0() -> None:
    for key, (lowest, highest) in GROUP_APIS.items():
        assert list(APIS[key].request.versions) == list(range(lowest, highest + 1))


def test_headers_are_flexible_where_messages_are() -> None:
    for key, api in APIS.items():
        for version in api.request.versions:
            assert is_flexible(key, version) == (version in api.request.flexible)


def test_two_other_codecs_have_each_version() -> None:
    alone = {
        (api.name, version)
        for api in APIS.values()
        for version in api.request.versions
        if sum(codec.covers(api.request, version) for codec in CODECS.values()) < 2
    }
    assert alone == SINCE_4_4 | REMOVED_IN_4_0 | {
        *(("CreateDelegationToken", version) for version in (1, 2, 3)),
        *(("RenewDelegationToken", version) for version in (1, 2)),
        *(("ExpireDelegationToken", version) for version in (1, 2)),
        *(("DescribeDelegationToken", version) for version in (1, 2, 3)),
        ("WriteTxnMarkers", 0),
        ("DescribeLogDirs", 0),
        ("ConsumerGroupHeartbeat", 0),
        ("ConsumerGroupHeartbeat", 1),
        ("ConsumerGroupDescribe", 0),
        ("ConsumerGroupDescribe", 1),
        ("StreamsGroupHeartbeat", 0),
        ("StreamsGroupDescribe", 0),
        ("ShareGroupHeartbeat", 1),
        ("ShareGroupDescribe", 1),
        ("ShareFetch", 1),
        ("ShareFetch", 2),
        ("ShareAcknowledge", 1),
        ("ShareAcknowledge", 2),
        ("DescribeShareGroupOffsets", 0),
        ("DescribeShareGroupOffsets", 1),
        ("AlterShareGroupOffsets", 0),
        ("DeleteShareGroupOffsets", 0),
        ("InitializeShareGroupState", 0),
        ("DeleteShareGroupState", 0),
        ("ReadShareGroupStateSummary", 0),
        ("ReadShareGroupStateSummary", 1),
        ("SaslAuthenticate", 2),
    }


def successes(source: str) -> list[str]:
    """The calls of a function for errors that build an answer without one."""
    names = [r"\w*error", *re.findall(r"error as (\w+)", source)]
    return re.findall(rf"\b(?:{'|'.join(names)})\(\s*[^(),]+,\s*(?:0|ErrorCode\.NONE)\s*[,)]", source)


def test_success_is_not_built_as_an_error() -> None:
    parts = [part for part in Path(kafka_shim.__file__).parent.iterdir() if part.is_dir()]
    sources = [path.read_text() for part in parts for path in part.rglob("*.py")]
    assert len(sources) > 300
    assert [call for source in sources for call in successes(source)] == []


def test_the_check_finds_a_success_that_is_built_as_an_error() -> None:
    source = "from x import error as refused\nrefused(request, 0)\napi.error(\n    request, ErrorCode.NONE,\n)"
    assert len(successes(source)) == 2
    assert successes("refused(request, code, 0)\nerror(request, ErrorCode.UNKNOWN_MEMBER_ID)\nerror(request, 16)") == []

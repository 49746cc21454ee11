"""The APIs of our own experiments are served on request, and only then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_shim.apis.private import FIRST_KEY
from kafka_shim.apis.profiles import PROFILES
from kafka_shim.apis.releases import DEFAULT_RELEASE
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_request_header
from kafka_shim.cli import serve
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.kind import KIND as SHARE
from kafka_shim.groups.share.persister import SharePersister
from kafka_shim.server.extensions import BUILT_IN, Extension, load
from kafka_shim.server.requests import REQUESTS
from kafka_shim.testing import CoordinatorServer
from tests.groups.share.context import Cluster
from tests.server.wire import Client

ROOT = Path(__file__).resolve().parents[2]


def advertised(client: Client) -> dict[int, tuple[int, int]]:
    answer = client.ask(ApiVersionsRequest("test", "1"), 4, ApiVersionsResponse)
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def test_requests_of_every_server_include_no_experiment() -> None:
    assert max(REQUESTS) < FIRST_KEY
    assert load([]).apis == {}
    whole = load(BUILT_IN)
    assert len(whole.apis) == 9
    assert set(whole.apis) == set(whole.rows)
    assert min(whole.apis) >= FIRST_KEY


def test_a_server_without_experiments_does_not_import_them() -> None:
    program = """
import sys
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.compose import make_cluster
from kafka_shim.broker.topics import Node
from kafka_shim import cli
import kafka_shim.control.run, kafka_shim.testing.kit, kafka_shim.lab.simulator
make_cluster([Node(1, "localhost", 9092)], ClusterConfig())
print([name for name in sys.modules if name.startswith("kafka_shim.experiments")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "[]\n", done.stderr


def test_the_apis_of_an_experiment_are_advertised_and_served_only_then() -> None:
    with CoordinatorServer() as server, Client(server.bootstrap) as client:
        assert advertised(client) == PROFILES[DEFAULT_RELEASE]
        for key in load(BUILT_IN).apis:
            with Client(server.bootstrap) as other:
                other.socket.sendall(frame(encode_request_header(key, 0, 1, "test") + bytes(16)))
                assert other.is_closed_by_server()
    for name in BUILT_IN:
        own = load([name])
        with CoordinatorServer(experimental=[name]) as server, Client(server.bootstrap) as client:
            assert advertised(client) == PROFILES[DEFAULT_RELEASE] | dict.fromkeys(own.apis, (0, 0))
            for api in own.apis.values():
                assert isinstance(client.ask(api.request(), 0, api.response), api.response)
                with Client(server.bootstrap) as other:
                    other.socket.sendall(frame(encode_request_header(api.key, 1, 1, "test") + bytes(16)))
                    assert other.is_closed_by_server()


def test_every_row_names_the_subjects_of_a_request() -> None:
    whole = load(BUILT_IN)
    for key, row in whole.rows.items():
        request = whole.apis[key].request()
        assert isinstance(row.groups_of(request), list)
        assert row.transactional_ids_of(request) == []
        if hasattr(request, "member_id"):
            request.member_id = "m"
            assert row.sender(request).member_id == "m"


def test_the_command_line_offers_our_own_experiments() -> None:
    (option,) = [each for each in serve.params if each.name == "experimental"]
    assert all(name in option.help for name in BUILT_IN)  # type: ignore[attr-defined]


def test_an_unknown_experiment_is_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"^There is no experiment 'none'; there are: client-assignors"):
        load(["none"])
    with pytest.raises(ValueError, match="There is no experiment 'none'"):
        CoordinatorServer(experimental=["none"])
    with pytest.raises(ValueError, match="experimental must be a list of names"):
        CoordinatorServer(experimental="designs")


def test_members_cannot_compute_where_the_release_has_no_consumer_groups() -> None:
    own = load(["client-assignors"])
    with CoordinatorServer(release="3.9", experimental=["client-assignors"]) as server:
        for api in own.apis.values():
            with Client(server.bootstrap) as client:
                assert client.ask(api.request(), 0, api.response).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_share_groups_of_an_extension_keep_their_progress_in_the_states_of_the_process() -> None:
    class Own(ShareGroup):
        pass

    states = SharePersister()
    kinds = Extension(kinds=[SHARE._replace(make=Own)]).all_kinds(states)
    group = kinds.by_name["share"].make("g", Cluster().service.shards[0])
    assert isinstance(group, Own)
    assert group.share_states is states

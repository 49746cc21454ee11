"""The control API over HTTP: operations, refusals and the token."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any, get_args

import httpx
import pytest
from confluent_kafka import Consumer

from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.control.api import operations
from kafka_shim.control.groups import MEMBERS, TURN, described
from kafka_shim.control.openapi import openapi
from kafka_shim.control.operations.groups import GroupState, GroupType
from kafka_shim.control.server import serve_control
from kafka_shim.experiments.registered.kind import KIND as REGISTERED
from kafka_shim.groups.kinds import KINDS
from kafka_shim.lab.killed import Killed
from kafka_shim.persistence.batch import Batch, Record
from kafka_shim.server.cluster import Cluster
from kafka_shim.testing import CoordinatorServer, open_coordinator, polling
from tests.hostile.serving import Peer
from tests.waiting import turns_of_others

OPERATIONS = operations(lab=True)


@pytest.fixture(scope="module")
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 4}, brokers=2, control=True) as server:
        yield server


@pytest.fixture
def http(server: CoordinatorServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.control_url, timeout=20) as client:
        yield client


def answer_to(http: httpx.Client, method: str, path: str, status: int = 200, **body: Any) -> Any:
    answer = http.request(method, path, json=body if method == "POST" else None)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_group_with_many_offsets_is_described_in_turns() -> None:
    partitions = [OffsetCommitRequestPartition(index, index) for index in range(2000)]

    async def turns_meanwhile(cluster: Cluster) -> int:
        async with turns_of_others() as turns:
            assert await described(cluster, "many") is not None
        return turns()

    with CoordinatorServer(topics={"wide": 2000}, control=True) as server:
        host, _, port = server.bootstrap.partition(":")
        with Peer(socket.create_connection((host, int(port)))) as peer:
            topic = OffsetCommitRequestTopic("wide", partitions=partitions)
            (answer,) = peer.ask(OffsetCommitRequest("many", topics=[topic]), 8).topics
        assert {each.error_code for each in answer.partitions} == {0}
        assert server.wait(turns_meanwhile, server.kit.cluster) > 2000 // TURN // 2
        offsets = httpx.get(f"{server.control_url}/v1/groups/many").json()["offsets"]
    assert [(each["partition"], each["offset"], each["lag"]) for each in offsets] == [(n, n, -n) for n in range(2000)]


def test_a_group_is_awaited_rewound_and_deleted(server: CoordinatorServer, http: httpx.Client) -> None:
    puppet = server.puppet("alive", ["orders"], client_id="one")
    found = answer_to(http, "POST", "/v1/groups/alive/await", **{"for": "stable", "members": ["one"]})
    assert found["members"][0]["assignment"] == {"orders": [0, 1, 2, 3]}
    puppet.commit({("orders", 2): 9})
    body = {"for": "committed", "topic": "orders", "partition": 2, "at_least": 9}
    assert answer_to(http, "POST", "/v1/groups/alive/await", **body) == {"offset": 9}
    offsets = [{"topic": "orders", "partition": 2, "offset": 4}]
    rewound = answer_to(http, "POST", "/v1/groups/alive/rewind", offsets=offsets, timeout=10)
    assert rewound == {"group": "alive", "removed": 1, "over": True}
    answer_to(http, "POST", "/v1/groups/alive/await", **{"for": "stable", "members": 1, "generation": 3})
    assert answer_to(http, "GET", "/v1/groups/alive")["offsets"][0]["offset"] == 4
    assert answer_to(http, "DELETE", "/v1/groups/alive", 409)["error"] == "NON_EMPTY_GROUP"
    puppet.leave()
    answer_to(http, "POST", "/v1/groups/alive/await", **{"for": "empty"})
    answer_to(http, "DELETE", "/v1/groups/alive")
    assert answer_to(http, "GET", "/v1/groups/alive", 404)["error"] == "GROUP_ID_NOT_FOUND"


def test_consumers_are_awaited_over_http(server: CoordinatorServer, http: httpx.Client) -> None:
    settings = {"bootstrap.servers": server.bootstrap, "group.id": "readers", "client.id": "one"}
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    with closing(consumer), polling(consumer) as polled:
        found = answer_to(http, "POST", "/v1/groups/readers/await", **{"for": "consuming", "members": ["one"]})
        assert found["members"][0]["assignment"] == {"orders": [0, 1, 2, 3]}
        server.produce("orders", "a", partition=0)
        polled.wait_records(1)
    server.puppet("idle", ["orders"], client_id="puppet")
    server.group("idle").stable(members=1)
    refused = answer_to(http, "POST", "/v1/groups/idle/await", 409, **{"for": "consuming", "timeout": 0.05})
    assert "puppet does not fetch orders-0 yet." in str(refused)


def test_the_api_shows_the_lag_and_the_kind_of_a_group(server: CoordinatorServer, http: httpx.Client) -> None:
    puppet = server.consumer_puppet("behind", ["orders"])
    server.group("behind").stable(members=1)
    server.produce("orders", "a", "b", "c", partition=1)
    puppet.commit({("orders", 1): 1, ("orders", 2): 87, ("orders", 3): 0})
    server.group("behind").committed("orders", 2, at_least=87)
    found = answer_to(http, "GET", "/v1/groups/behind")
    assert (found["type"], found["state"]) == ("consumer", "Stable")
    assert [(each["partition"], each["lag"]) for each in found["offsets"]] == [(1, 2), (2, -87), (3, 0)]
    everything = server.lag("behind")
    assert found["uncommitted"] == [{"topic": "orders", "partition": 0, "lag": everything["orders", 0]}]


def test_offsets_are_set_before_a_group_has_members(server: CoordinatorServer, http: httpx.Client) -> None:
    answer_to(http, "POST", "/v1/groups", group="ledger")
    offsets = [{"topic": "orders", "partition": 0, "offset": 17}]
    answer_to(http, "POST", "/v1/groups/ledger/rewind", offsets=offsets)
    found = answer_to(http, "GET", "/v1/groups/ledger")
    assert [(each["partition"], each["offset"]) for each in found["offsets"]] == [(0, 17)]
    puppet = server.puppet("ledger", ["orders"])
    server.group("ledger").stable(members=1)
    puppet.commit({("orders", 0): 18})
    assert server.group("ledger").committed("orders", 0, at_least=18) == 18


def test_the_document_has_every_kind_of_group_and_every_state() -> None:
    assert {kind.name for kind in KINDS} | {REGISTERED.name} == set(get_args(GroupType))
    assert {state for kind in (*KINDS, REGISTERED) for state in kind.states} == set(get_args(GroupState))


def test_an_await_in_vain_tells_the_story(http: httpx.Client) -> None:
    answer = answer_to(http, "POST", "/v1/groups/nobody/await", 409, **{"for": "stable", "members": 1, "timeout": 0.01})
    assert answer["error"] == "NOT_REACHED"
    assert "nobody is Dead" in answer["message"]


def test_an_ephemeral_group_goes_with_its_last_member(server: CoordinatorServer, http: httpx.Client) -> None:
    answer_to(http, "POST", "/v1/groups", group="brief", ephemeral=True)
    assert answer_to(http, "GET", "/v1/groups/brief")["state"] == "Empty"
    assert answer_to(http, "POST", "/v1/groups", 409, group="brief")["message"] == "There is such a group already."
    puppet = server.puppet("brief", ["orders"])
    server.group("brief").stable(members=1)
    puppet.leave()
    server.group("brief").next("group", change="deleted")
    answer_to(http, "GET", "/v1/groups/brief", 404)


def test_events_have_the_bytes_of_a_request_while_they_are_read(server: CoordinatorServer, http: httpx.Client) -> None:
    with http.stream("GET", "/v1/events", params={"frames": "true", "group": "watched"}) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        server.puppet("watched", ["orders"], client_id="one")
        events = (json.loads(line[6:]) for line in lines if line.startswith("data: "))
        join = next(event for event in events if event["event"] == "exchange" and not event["error"])
        where = {"connection": join["conn"], "correlation_id": join["correlation_id"], "arrived": join["arrived"]}
        found = http.get("/v1/frames", params=where).json()
        assert (found["api"], found["client_id"], found["concerns"]) == ("JoinGroup", "one", ["READ of group watched"])
        assert [cell["does"] for cell in found["row"]["cells"] if cell["here"]] == ["add"]
        pieces = found["request"]["pieces"]
        assert pieces[-1]["end"] == len(bytes.fromhex(found["request"]["hex"]))
        assert {"group_id": "'watched'", "api_key": "11 JoinGroup"}.items() <= {
            piece["path"]: piece["text"] for piece in pieces
        }.items()
    wrong = http.get("/v1/frames", params={**where, "arrived": 1.5})
    assert (wrong.status_code, wrong.json()["error"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("value", "headers", "in_base64"),
    [("\0" * (10 << 20), {}, True), ("v", {str(number): None for number in range(70_000)}, True), ("v", {}, False)],
    ids=["large value", "many headers", "small"],
)
def test_an_answer_has_few_large_records(
    server: CoordinatorServer,
    http: httpx.Client,
    monkeypatch: pytest.MonkeyPatch,
    value: str,
    headers: dict[str, None],
    in_base64: bool,
) -> None:
    answer_to(http, "POST", "/v1/topics", topic="large")
    try:
        server.produce("large", value, value, value, value, headers=headers, compression="zstd")
        decoded: list[int] = []
        records_of = Batch.decoded

        def counted(batch: Batch, unpacked: bytes) -> list[Record]:
            decoded.append(len(unpacked))
            return records_of(batch, unpacked)

        monkeypatch.setattr(Batch, "decoded", counted)
        for most, more in ((1, True), (1000, in_base64)):
            decoded.clear()
            found = answer_to(http, "GET", f"/v1/topics/large/records?most={most}")
            assert (len(found["records"]), found["more"]) == (1 if more else 4, more)
            assert found["records"][0]["base64"] is in_base64
            assert len(decoded) == (2 if more else 4)
    finally:
        answer_to(http, "DELETE", "/v1/topics/large")


def test_a_group_is_divided_by_every_assignor(http: httpx.Client) -> None:
    members = {"before": ["a", "b"], "after": ["a", "b", "c"]}
    found = answer_to(http, "POST", "/v1/assignments", topics={"orders": 6}, **members)["divisions"]
    assert [(each["assignor"], each["moved"], each["needed"]) for each in found] == [
        ("range", 3, 2),
        ("roundrobin", 4, 2),
        ("sticky", 2, 2),
        ("cooperative-sticky", 2, 2),
        ("uniform", 2, 2),
    ]
    for wrong in ({"before": []}, {"after": ["a", "a"]}, {"topics": {"orders": 100_000}}):
        answer_to(http, "POST", "/v1/assignments", 400, **{"topics": {"orders": 6}, **members, **wrong})


def test_a_lesson_is_played(http: httpx.Client) -> None:
    listed = answer_to(http, "GET", "/v1/lessons")["lessons"]
    assert [each["number"] for each in listed] == list(range(1, len(listed) + 1))
    played = answer_to(http, "GET", "/v1/lessons/fencing")
    commit = played["steps"][1]
    assert [option["text"] for option in commit["options"] if option["right"]] == ["UNKNOWN_MEMBER_ID (25)"]
    shown = [each for each in played["frames"] if commit["bytes"][0].items() <= each.items()]
    assert [each["api"] for each in shown] == ["OffsetCommit"]
    assert "<p>" in played["intro"]
    answer_to(http, "GET", "/v1/lessons/%2Fetc%2Fpasswd", 404)


def test_faults_barriers_and_time(server: CoordinatorServer, http: httpx.Client) -> None:
    fault = answer_to(
        http, "POST", "/v1/faults", action="error", api="OffsetCommit", error="NOT_COORDINATOR", group="f"
    )
    barrier = answer_to(http, "POST", "/v1/barriers", point="leader-sync-arrived", group="f")["barrier"]
    puppet = server.puppet("f", ["orders"], session_timeout=45)
    held = answer_to(http, "POST", f"/v1/barriers/{barrier}/await")["held"]
    assert [each["api"] for each in held] == ["SyncGroup"]
    assert answer_to(http, "POST", f"/v1/barriers/{barrier}/release") == {"released": 1}
    answer_to(http, "DELETE", f"/v1/barriers/{barrier}")
    answer_to(http, "POST", "/v1/groups/f/await", **{"for": "stable", "members": 1})
    puppet.commit({("orders", 0): 1})
    answer_to(http, "POST", "/v1/groups/f/await", **{"for": "event", "event": "exchange", "fields": {"error": 16}})
    assert answer_to(http, "DELETE", f"/v1/faults/{fault['fault']}")["fired"] == 1
    answer_to(http, "POST", "/v1/clock", frozen=True)
    puppet.silence()
    assert answer_to(http, "POST", "/v1/clock", advance=46)["frozen"] is True
    answer_to(
        http, "POST", "/v1/groups/f/await", **{"for": "event", "event": "member", "fields": {"change": "expired"}}
    )
    assert answer_to(http, "POST", "/v1/clock", frozen=False)["frozen"] is False


def test_brokers_and_topics(server: CoordinatorServer, http: httpx.Client) -> None:
    answer_to(http, "POST", "/v1/topics", topic="made", partitions=3)
    assert {"topic": "made", "partitions": 3} in answer_to(http, "GET", "/v1/topics")["topics"]
    answer_to(http, "POST", "/v1/topics", 409, topic="made")
    assert answer_to(http, "POST", "/v1/topics/made", partitions=5) == {"topic": "made", "partitions": 5}
    assert len(answer_to(http, "GET", "/v1/topics/made")["partitions"]) == 5
    assert answer_to(http, "POST", "/v1/topics/made", 409, partitions=5)["error"] == "INVALID_PARTITIONS"
    answer_to(http, "POST", "/v1/topics/none", 404, partitions=5)
    answer_to(http, "DELETE", "/v1/topics/made")
    answer_to(http, "DELETE", "/v1/topics/made", 404)
    moved = answer_to(http, "POST", "/v1/groups/b/move", broker=3 - server.coordinator_of("b"))
    assert moved["coordinator"] == server.coordinator_of("b")
    stopped = answer_to(http, "POST", "/v1/brokers/2", do="kill")["brokers"]
    assert [broker["up"] for broker in stopped] == [True, False]
    assert [broker["up"] for broker in answer_to(http, "POST", "/v1/brokers/2", do="restart")["brokers"]] == [
        True,
        True,
    ]


def test_settings_are_set(server: CoordinatorServer, http: httpx.Client) -> None:
    answer_to(http, "POST", "/v1/topics", topic="set", config={"cleanup.policy": "compact", "retention.ms": 1000})
    answer_to(http, "POST", "/v1/config", topic="set", config={"retention.ms": None, "max.message.bytes": 5000.0})
    config = answer_to(http, "GET", "/v1/topics/set")["config"]
    assert config == {"cleanup.policy": "compact", "max.message.bytes": "5000"}
    done = answer_to(http, "POST", "/v1/config", group="g", config={"consumer.session.timeout.ms": 50_000})
    assert repr(done["config"]) == "{'consumer.session.timeout.ms': 50000}"
    refused = answer_to(http, "POST", "/v1/config", 409, topic="set", config={"retention": 1})
    assert refused["error"] == "INVALID_CONFIG"
    assert "did you mean 'retention.ms'?" in refused["message"]
    answer_to(http, "POST", "/v1/topics", 409, topic="unset", config={"retention": 1})
    answer_to(http, "GET", "/v1/topics/unset", 404)


def test_clients_are_disconnected_and_expired(server: CoordinatorServer, http: httpx.Client) -> None:
    puppet = server.puppet("cut", ["orders"], client_id="cut-1", session_timeout=45)
    server.group("cut").stable(members=1)
    assert answer_to(http, "POST", "/v1/disconnect", client_id="cut-*")["connections"] >= 1
    server.group("cut").stable(members=1)
    puppet.silence()
    answer_to(http, "POST", "/v1/groups/cut/expire", member="cut-1")
    server.group("cut").empty()
    refused = answer_to(http, "POST", "/v1/groups/cut/expire", 409, member="cut-1")
    assert refused["message"].startswith("No session of 'cut-1' runs in the group 'cut'.")


def test_clients_are_killed_and_revived(server: CoordinatorServer, http: httpx.Client) -> None:
    server.puppet("dead", ["orders"], client_id="dead-1", session_timeout=45, heartbeat_interval=0.01)
    server.group("dead").stable(members=1)
    refused = answer_to(http, "POST", "/v1/kill", 409, client_id="dead-2")
    assert refused["message"] == "No client 'dead-2' is connected; did you mean 'dead-1'?"
    assert answer_to(http, "POST", "/v1/kill", client_id="dead-*") == {"client_id": "dead-*"}
    answer_to(http, "POST", "/v1/groups/dead/expire", member="dead-1")
    server.group("dead").empty()
    refused = answer_to(http, "POST", "/v1/revive", 409, client_id="dead-1")
    assert refused["message"] == "'dead-1' was not killed; did you mean 'dead-*'?"
    (killed,) = [each for each in server.kit.interception.intercepts if isinstance(each, Killed)]
    server.wait(server.kit.until, lambda: bool(killed.connections), "a heartbeat to drop")
    assert answer_to(http, "POST", "/v1/revive", client_id="dead-*")["connections"] == 1
    server.group("dead").stable(members=1)


def test_a_wait_that_no_group_of_its_kind_ends_is_a_conflict(server: CoordinatorServer, http: httpx.Client) -> None:
    server.streams_puppet("flow", ["orders"])
    server.group("flow").stable(members=1)
    refused = answer_to(http, "POST", "/v1/groups/flow/await", 409, **{"for": "consuming"})
    assert refused == {
        "error": "NOT_REACHED",
        "message": "flow is a streams group: only classic and consumer groups have positions.",
    }


def test_no_commit_is_awaited_over_http(server: CoordinatorServer, http: httpx.Client) -> None:
    server.puppet("idle-2", ["orders"], heartbeat_interval=0.01)
    server.group("idle-2").stable(members=1)
    found = answer_to(http, "POST", "/v1/groups/idle-2/await", **{"for": "no-commit", "heartbeats": 2})
    assert found["state"] == "Stable"


def test_the_story_and_the_trace_are_read(server: CoordinatorServer, http: httpx.Client) -> None:
    newest = answer_to(http, "GET", "/v1/server")["newest"]
    server.puppet("told", ["orders"], client_id="teller")
    server.group("told").stable(members=1)
    story = answer_to(http, "GET", f"/v1/story?since={newest}")["story"]
    assert any("teller joins" in line for line in story)
    begun, *events = [json.loads(line) for line in http.get("/v1/trace").text.splitlines()]
    assert (begun["event"], len(begun["nodes"])) == ("trace", 2)
    assert begun["limits"]["group.max.size"] == 2**31 - 1
    assert [each["seq"] for each in events] == sorted(each["seq"] for each in events)
    assert {"told"} <= {each.get("group") for each in events}


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        (
            "/v1/groups/g/await",
            {"for": "stable", "memebrs": 1},
            "'memebrs' is not a field; did you mean 'members'? There are for, generation, members, owners, timeout.",
        ),
        ("/v1/topics", {"name": "a"}, "'name' is not a field; there are config, partitions, topic."),
        (
            "/v1/simulations",
            {"topics": {}, "seconds": 1, "steps": [{"at": 1, "member": 0, "acts": {}}]},
            "'acts' is not a field; did you mean 'act'? There are act, at, member.",
        ),
    ],
)
def test_an_unknown_field_is_answered_with_the_fields_there_are(
    http: httpx.Client, path: str, body: dict[str, Any], sentence: str
) -> None:
    assert answer_to(http, "POST", path, 400, **body)["message"] == sentence


def test_events_are_streamed(server: CoordinatorServer, http: httpx.Client) -> None:
    with http.stream("GET", "/v1/events?group=streamed") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        server.puppet("streamed", ["orders"])
        events = (json.loads(line[6:]) for line in lines if line.startswith("data: "))
        assert next(event for event in events if event["event"] == "assignment")["group"] == "streamed"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/faults", b"{", 400),
        ("POST", "/v1/faults", b"[]", 400),
        ("POST", "/v1/faults", b'{"action": "explode"}', 400),
        ("POST", "/v1/faults", b'{"action": "drop", "colour": 1}', 400),
        ("POST", "/v1/faults", b'{"action": "drop", "times": 1e999}', 400),
        ("POST", "/v1/faults", b'{"action": "delay", "seconds": -1}', 400),
        ("DELETE", "/v1/faults/9999", b"", 404),
        ("DELETE", "/v1/faults/x", b"", 404),
        ("POST", "/v1/barriers", b'{"point": "nowhere"}', 400),
        ("POST", "/v1/clock", b'{"advance": -1}', 400),
        ("POST", "/v1/clock", b'{"advance": 1e300}', 400),
        ("POST", "/v1/topics", b'{"topic": "a/b"}', 400),
        ("POST", "/v1/topics", b'{"topic": "t", "partitions": 0}', 400),
        ("POST", "/v1/groups", b'{"group": ""}', 400),
        ("POST", "/v1/groups/x/rewind", b'{"offsets": [{"topic": 1}]}', 400),
        ("POST", "/v1/groups/x/rewind", b'{"offsets": []}', 404),
        ("POST", "/v1/groups/x/await", b'{"for": "rain"}', 400),
        ("POST", "/v1/groups/x/await", b'{"for": "event", "fields": {"timeout": 1}}', 400),
        ("POST", "/v1/groups/x/await", b'{"for": "stable", "generation": -1, "timeout": 0.01}', 400),
        ("POST", "/v1/brokers/7", b'{"do": "stop"}', 404),
        ("POST", "/v1/brokers/1", b'{"do": "dance"}', 400),
        ("DELETE", "/v1/topics/__consumer_offsets", b"", 404),
        ("PUT", "/v1/topics", b"", 405),
    ],
)
def test_an_impossible_body_is_refused_in_one_sentence_and_changes_nothing(
    server: CoordinatorServer, http: httpx.Client, method: str, path: str, body: bytes, status: int
) -> None:
    def state() -> Any:
        return (http.get("/v1/topics").json(), http.get("/v1/brokers").json(), http.get("/v1/faults").json())

    before = state()
    answer = http.request(method, path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.json()["message"].endswith((".", "?", "]"))
    assert state() == before


def test_the_document_describes_every_operation(http: httpx.Client) -> None:
    document = answer_to(http, "GET", "/v1/openapi.json")
    assert document == openapi(OPERATIONS)
    documented = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert documented == {(each.method, each.path) for each in OPERATIONS}


async def test_a_request_without_the_token_is_refused() -> None:
    async with open_coordinator() as kit:
        url = await kit.serve_control("127.0.0.1", 0, "s3cret")
        async with httpx.AsyncClient(base_url=url) as http:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"}):
                assert (await http.get("/v1/topics", headers=headers)).status_code == 401
            assert (await http.get("/v1/topics", headers={"Authorization": "Bearer s3cret"})).status_code == 200
            assert (await http.get("/health")).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "example.com", "10.0.0.1", "localhost.example.com"])
@pytest.mark.parametrize("token", [None, ""])
async def test_a_server_without_a_token_does_not_listen_beyond_loopback(host: str, token: str | None) -> None:
    async with open_coordinator() as kit:
        with pytest.raises(ValueError, match="needs a token"):
            await serve_control(kit.server, host, 0, token)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
async def test_a_server_on_loopback_needs_no_token(host: str) -> None:
    async with open_coordinator() as kit:
        url = await kit.serve_control(host, 0)
        async with httpx.AsyncClient(base_url=url) as http:
            assert (await http.get("/v1/topics")).status_code == 200


async def test_a_server_with_a_token_answers_under_any_name_and_documents_the_token() -> None:
    async with open_coordinator() as kit:
        url = await kit.serve_control("0.0.0.0", 0, "s3cret")
        headers = {"Authorization": "Bearer s3cret", "Host": "kafka.example.com"}
        async with httpx.AsyncClient(base_url=url.replace("0.0.0.0", "127.0.0.1"), headers=headers) as http:
            document = (await http.get("/v1/openapi.json")).json()
            assert document == openapi(OPERATIONS, with_token=True)
            assert document["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}


def test_members_of_a_group_are_described_in_turns() -> None:
    async def described_in_turns(server: CoordinatorServer) -> tuple[Any, int]:
        async with turns_of_others() as turns:
            description = await described(server.kit.cluster, "crowd")
        return description, turns()

    with CoordinatorServer(topics={"orders": 4}) as server:
        for number in range(100):
            server.puppet("crowd", ["orders"], client_id=f"c{number}")
        server.group("crowd").stable(members=100)
        description, turns = server.wait(described_in_turns, server)
    assert len(description["members"]) == 100
    assert {each["subscription"]["topics"][0] for each in description["members"]} == {"orders"}
    assert sum(len(each["assignment"]) for each in description["members"]) == 4
    assert {each["partition"] for each in description["uncommitted"]} == {0, 1, 2, 3}
    assert turns >= 100 // MEMBERS == 5

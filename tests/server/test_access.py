"""Permissions of each API, on a running server with ACLs."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_shim.apis.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kafka_shim.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from kafka_shim.apis.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kafka_shim.apis.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafka_shim.apis.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_shim.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafka_shim.apis.profiles import PROFILES
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import Message, Struct
from kafka_shim.apis.wire.types import Array, Nested
from kafka_shim.persistence.batch import Record, write_batch
from kafka_shim.security.authorizer import ALLOW, DENY, LITERAL, PREFIXED, Acl
from kafka_shim.security.config import STANDARD_AUTHORIZER
from kafka_shim.security.operations import CLUSTER_NAME, Operation, Resource
from kafka_shim.server.access import ACCESS
from kafka_shim.testing import CoordinatorServer
from tests.server.test_secured import choose, prove
from tests.server.wire import Client

CONFIG = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin",
}
RELEASE = max(PROFILES, key=lambda release: tuple(map(int, release.split("."))))
USERS = {"admin": "a", "alice": "a", "nobody": "a"}
TOPIC, GROUP, CLUSTER = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER
NO_ERROR_WANTED = {ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER}
"""APIs that need no right."""


@pytest.fixture(scope="module")
def shared() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 2, "secret": 1}, release=RELEASE, config=CONFIG, users=USERS) as made:
        made.produce("orders", b"1", partition=0)
        made.produce("secret", b"2", partition=0)
        yield made


@pytest.fixture
def server(shared: CoordinatorServer) -> Iterator[CoordinatorServer]:
    yield shared
    shared.call(lambda: setattr(shared.kit.cluster.topics.settings, "acls", ()))


def let(server: CoordinatorServer, *acls: tuple[Any, ...], permission: int = ALLOW, user: str = "User:alice") -> None:
    """Add ACLs, each with its type, name and operation, as an administrator of the server's process."""
    made = tuple(Acl(resource, name, LITERAL, user, "*", operation, permission) for resource, name, operation in acls)
    settings = server.server.cluster.topics.settings
    server.call(lambda: setattr(settings, "acls", settings.acls + made))


class As(Client):
    """A connection of a user."""

    def __init__(self, server: CoordinatorServer, user: str) -> None:
        super().__init__(server.bootstrap)
        assert choose(self).error_code == 0
        assert prove(self, f"\0{user}\0a".encode()).error_code == 0


@pytest.fixture
def alice(server: CoordinatorServer) -> Iterator[As]:
    with As(server, "alice") as client:
        yield client


def sample(cls: type[Struct] | type[Message], version: int) -> Any:
    """A request that names something everywhere."""
    values = {}
    for field in cls.fields:
        if version not in field.versions:
            continue
        of = field.type
        if isinstance(of, Array):
            element = of.element
            if isinstance(element, Nested):
                values[field.name] = [sample(element.struct, version)]
            elif element.name == "string":
                values[field.name] = ["orders"]
            elif element.name in ("int8", "int16", "int32", "int64"):
                values[field.name] = [0]
        elif field.name == "resource_type":
            values[field.name] = 2  # a topic, in the requests for configurations
        elif of is not None and getattr(of, "name", "") == "string" and field.name != "cluster_id":
            values[field.name] = "orders"
    return cls(**values)


def error_codes(message: Any) -> list[int]:
    codes = []
    for field in type(message).fields:
        value = getattr(message, field.name)
        if field.name.endswith("error_code") and field.name != "topic_config_error_code":
            codes.append(value)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Struct):
                codes += error_codes(each)
    return codes


@pytest.mark.parametrize("key", [key for key in PROFILES[RELEASE] if key not in (17, 36)])
def test_a_user_without_rights_gets_nothing(server: CoordinatorServer, key: int) -> None:
    api = APIS[key]
    version = PROFILES[RELEASE][key][1]
    with As(server, "nobody") as client:
        answer = client.ask(sample(api.request, version), version, api.response)
    if key in NO_ERROR_WANTED:
        return
    codes = error_codes(answer)
    content = [value for value in vars_of(answer).values() if isinstance(value, list) and value]
    assert any(codes) or not content, answer
    refused = {29, 30, 31, 53}
    assert not content or {code for code in codes if code} <= refused, answer


def vars_of(message: Any) -> dict[str, Any]:
    return {
        field.name: getattr(message, field.name)
        for field in type(message).fields
        if field.name not in ("brokers", "node_endpoints", "unknown_state_filters")
    }


def test_every_api_has_its_access() -> None:
    internal = {
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    }
    assert {key for key in APIS if key not in ACCESS} <= internal


def heartbeat(client: Client) -> int:
    answer: HeartbeatResponse = client.ask(HeartbeatRequest("g", 1, "m"), 4, HeartbeatResponse)
    return answer.error_code


def test_a_change_counts_for_the_next_request(server: CoordinatorServer, alice: As) -> None:
    assert [heartbeat(alice), heartbeat(alice)] == [30, 30]
    let(server, (GROUP, "g", Operation.READ))
    assert [heartbeat(alice), heartbeat(alice), heartbeat(alice)] == [25, 25, 25]
    let(server, (GROUP, "g", Operation.READ), permission=DENY)
    assert [heartbeat(alice), heartbeat(alice)] == [30, 30]


def test_a_remembered_heartbeat_of_the_new_protocol_loses_its_right(server: CoordinatorServer, alice: As) -> None:
    let(server, (GROUP, "new", Operation.READ), (TOPIC, "orders", Operation.DESCRIBE))
    first = ConsumerGroupHeartbeatRequest(
        group_id="new", member_id="m", rebalance_timeout_ms=1000, subscribed_topic_names=["orders"], topic_partitions=[]
    )
    joined = alice.ask(first, 1, ConsumerGroupHeartbeatResponse)
    assert joined.error_code == 0
    bare = ConsumerGroupHeartbeatRequest(group_id="new", member_id="m", member_epoch=joined.member_epoch)
    for _ in range(3):
        assert alice.ask(bare, 1, ConsumerGroupHeartbeatResponse).error_code == 0
    let(server, (GROUP, "new", Operation.READ), permission=DENY)
    assert alice.ask(bare, 1, ConsumerGroupHeartbeatResponse).error_code == 30


def test_a_heartbeat_that_names_a_denied_topic_leaves_no_member(server: CoordinatorServer, alice: As) -> None:
    let(server, (GROUP, "fresh", Operation.READ), (TOPIC, "orders", Operation.DESCRIBE))
    request = ConsumerGroupHeartbeatRequest(
        group_id="fresh",
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["orders", "secret"],
        topic_partitions=[],
    )
    answer = alice.ask(request, 1, ConsumerGroupHeartbeatResponse)
    assert (answer.error_code, answer.member_epoch) == (29, 0)
    assert "fresh" not in server.call(lambda: [each.group_id for each in _listed(server)])


def _listed(server: CoordinatorServer) -> Any:
    return server.server.cluster.nodes[1].groups.list([], []).groups


def commit(*topics: str, generation: int = -1) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        "g",
        generation,
        "",
        None,
        -1,
        [OffsetCommitRequestTopic(name, bytes(16), [OffsetCommitRequestPartition(0, 1)]) for name in topics],
    )


def test_denied_topics_come_back_and_the_rest_is_committed(server: CoordinatorServer, alice: As) -> None:
    let(server, (GROUP, "g", Operation.READ), (TOPIC, "orders", Operation.READ))
    for _ in range(3):
        answer = alice.ask(commit("orders", "secret"), 9, OffsetCommitResponse)
        assert {each.name: each.partitions[0].error_code for each in answer.topics} == {"orders": 0, "secret": 29}
    # No topic is left, so the group is not asked for the generation.
    answer = alice.ask(commit("secret", generation=9), 9, OffsetCommitResponse)
    assert [each.partitions[0].error_code for each in answer.topics] == [29]
    asked = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                "g", None, -1, [OffsetFetchRequestTopics(name, bytes(16), [0]) for name in ("orders", "secret")]
            ),
            OffsetFetchRequestGroup("h", None, -1, None),
        ]
    )
    first, *others = sorted(alice.ask(asked, 9, OffsetFetchResponse).groups, key=lambda each: each.group_id)
    assert {
        each.name: (each.partitions[0].committed_offset, each.partitions[0].error_code) for each in first.topics
    } == {
        "orders": (1, 0),
        "secret": (-1, 29),
    }
    assert [(each.group_id, each.error_code) for each in others] == [("h", 30)]


def test_denied_topics_are_not_compared_with_each_other(
    server: CoordinatorServer, alice: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    let(server, (GROUP, "g", Operation.READ), (TOPIC, "t1", Operation.READ))
    comparisons = 0

    def is_same(one: OffsetFetchRequestTopics, other: object) -> bool:
        nonlocal comparisons
        comparisons += 1
        return one is other

    monkeypatch.setattr(OffsetFetchRequestTopics, "__eq__", is_same)
    names = [f"t{number}" for number in range(40)]
    topics = [OffsetFetchRequestTopics(name, bytes(16), [0]) for name in names]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", None, -1, topics)])
    (group,) = alice.ask(asked, 9, OffsetFetchResponse).groups
    codes = {each.name: each.partitions[0].error_code for each in group.topics}
    assert codes == dict.fromkeys(names, 29) | {"t1": 0}
    assert comparisons == 0


def test_long_transaction_gets_no_partition_of_a_denied_topic(server: CoordinatorServer, alice: As) -> None:
    let(server, (Resource.TRANSACTIONAL_ID, "id", Operation.WRITE), (TOPIC, "orders", Operation.WRITE))
    given = alice.ask(InitProducerIdRequest("id", 60_000), 4, InitProducerIdResponse)
    batch = write_batch(
        [Record(0, 1_700_000_000_000, None, b"value")],
        producer_id=given.producer_id, producer_epoch=given.producer_epoch, base_sequence=0, transactional=True,
    )  # fmt: skip
    topics = [
        TopicProduceData(name, partition_data=[PartitionProduceData(0, batch) for _ in range(20)])
        for name in ("secret", "orders")
    ]
    answer = alice.ask(ProduceRequest("id", -1, 1000, topics), 12, ProduceResponse)
    errors = {each.name: [of.error_code for of in each.partition_responses] for each in answer.responses}
    assert errors == {"secret": [29] * 20, "orders": [0] * 20}
    shards = next(iter(server.server.cluster.nodes.values())).groups.shards.values()
    (transaction,) = [each.transactions["id"] for each in shards if "id" in each.transactions]
    assert list(transaction.partitions) == [("orders", 0)]
    refused = alice.ask(ProduceRequest("other", -1, 1000, topics), 12, ProduceResponse)
    assert {of.error_code for each in refused.responses for of in each.partition_responses} == {53}


def test_a_fetch_is_checked_every_time(server: CoordinatorServer, alice: As) -> None:
    let(server, (TOPIC, "orders", Operation.READ))

    def fetch(epoch: int, session: int = 0) -> FetchResponse:
        topics = [FetchTopic(name, bytes(16), [FetchPartition(0, fetch_offset=0, partition_max_bytes=99)])
                  for name in ("orders", "secret")]  # fmt: skip
        request = FetchRequest(max_wait_ms=0, min_bytes=0, session_id=session, session_epoch=epoch, topics=topics)
        answer: FetchResponse = alice.ask(request, 12, FetchResponse)
        return answer

    for epoch in (0, -1, -1):
        answer = fetch(epoch)
        found = {
            each.topic: (each.partitions[0].error_code, bool(each.partitions[0].records)) for each in answer.responses
        }
        assert (found, answer.session_id) == ({"orders": (0, True), "secret": (29, False)}, 0)
    let(server, (TOPIC, "orders", Operation.READ), permission=DENY)
    assert {each.partitions[0].error_code for each in fetch(-1).responses} == {29}
    assert fetch(1, session=7).error_code == 70


def test_metadata_hides_and_refuses_topics(server: CoordinatorServer, alice: As) -> None:
    let(server, (TOPIC, "orders", Operation.WRITE))

    def topics(names: list[str] | None) -> dict[str | None, int]:
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer = alice.ask(MetadataRequest(topics=asked), 12, MetadataResponse)
        return {each.name: each.error_code for each in answer.topics}

    assert topics(None) == {"orders": 0}
    assert topics(["orders", "secret", "absent"]) == {"orders": 0, "secret": 29, "absent": 29}
    let(server, (TOPIC, "orders", Operation.DESCRIBE), permission=DENY)
    assert topics(None) == {}


def test_operations_are_those_of_the_user(server: CoordinatorServer, alice: As) -> None:
    let(server, (GROUP, "g", Operation.READ))
    described = alice.ask(DescribeGroupsRequest(["g", "h"], True), 5, DescribeGroupsResponse).groups
    assert [(each.group_id, each.error_code, each.authorized_operations) for each in described] == [
        ("h", 30, -(2**31)),
        ("g", 0, 1 << Operation.READ | 1 << Operation.DESCRIBE),
    ]
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert alice.ask(asked, 1, DescribeClusterResponse).cluster_authorized_operations == 0
    let(server, (CLUSTER, CLUSTER_NAME, Operation.ALTER))
    expected = 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    assert alice.ask(asked, 1, DescribeClusterResponse).cluster_authorized_operations == expected
    with As(server, "admin") as admin:
        assert admin.ask(asked, 1, DescribeClusterResponse).cluster_authorized_operations == 8096
        (group,) = admin.ask(DescribeGroupsRequest(["g"], True), 5, DescribeGroupsResponse).groups
        assert group.authorized_operations == 3400


def test_lists_leave_out_what_a_user_may_not_see(server: CoordinatorServer, alice: As) -> None:
    server.seed_offsets("visible", {("orders", 0): 1})
    server.seed_offsets("hidden", {("orders", 0): 1})
    let(server, (GROUP, "visible", Operation.DESCRIBE))
    assert [each.group_id for each in alice.ask(ListGroupsRequest(), 5, ListGroupsResponse).groups] == ["visible"]
    let(server, (CLUSTER, CLUSTER_NAME, Operation.DESCRIBE))
    assert len(alice.ask(ListGroupsRequest(), 5, ListGroupsResponse).groups) >= 2


def creation(resource: int, name: str, operation: int, *, pattern: int = LITERAL, principal: str = "User:alice") -> Any:
    return AclCreation(resource, name, pattern, principal, "*", operation, ALLOW)


def test_administrators_create_describe_and_delete_acls(server: CoordinatorServer, alice: As) -> None:
    creations = [
        creation(GROUP, "g", Operation.READ),
        creation(GROUP, "g", Operation.READ),
        creation(TOPIC, "ord", Operation.READ, pattern=PREFIXED),
        creation(CLUSTER, "other", Operation.ALTER),
        creation(TOPIC, "", Operation.READ),
        creation(TOPIC, "t", Operation.READ, principal="alice"),
    ]
    assert {each.error_code for each in alice.ask(CreateAclsRequest(creations), 3, CreateAclsResponse).results} == {31}
    with As(server, "admin") as admin:
        results = admin.ask(CreateAclsRequest(creations), 3, CreateAclsResponse).results
        assert [each.error_code for each in results] == [0, 0, 0, 42, 42, 42]
        assert results[3].error_message == "The only valid name for the CLUSTER resource is kafka-cluster"
        assert heartbeat(alice) == 25
        everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
        resources = admin.ask(everything, 3, DescribeAclsResponse).resources
        assert [(each.resource_type, each.resource_name, len(each.acls)) for each in resources] == [
            (GROUP, "g", 1),
            (TOPIC, "ord", 1),
        ]
        affecting = DescribeAclsRequest(TOPIC, "orders", 2, None, None, 1, 1)
        assert [each.resource_name for each in admin.ask(affecting, 3, DescribeAclsResponse).resources] == ["ord"]
        filters = [DeleteAclsFilter(GROUP, "g", 3, None, None, 1, 1), DeleteAclsFilter(GROUP, "x", 3, None, None, 1, 1)]
        deleted = admin.ask(DeleteAclsRequest(filters), 3, DeleteAclsResponse).filter_results
        assert [(each.error_code, len(each.matching_acls)) for each in deleted] == [(0, 1), (0, 0)]
    assert heartbeat(alice) == 30


def test_acls_survive_a_restart(tmp_path: Any) -> None:
    from kafka_shim.persistence.stores import open_store

    path = f"sqlite:{tmp_path / 'store.db'}"
    for is_first in (True, False):
        store = open_store(path, 50)
        with CoordinatorServer(config=CONFIG, users=USERS, store=store) as server:
            if is_first:
                with As(server, "admin") as admin:
                    request = CreateAclsRequest([creation(GROUP, "g", Operation.READ)])
                    assert admin.ask(request, 3, CreateAclsResponse).results[0].error_code == 0
            with As(server, "alice") as alice:
                assert heartbeat(alice) == 25
                assert heartbeat(alice) == 25
        store.close()


def test_a_test_changes_acls_by_name(server: CoordinatorServer, alice: As) -> None:
    server.allow("alice", "READ", group="g", prefix="true")
    assert heartbeat(alice) == 25
    server.deny("*", "READ", group="*")
    assert heartbeat(alice) == 30
    server.clear_acls()
    with pytest.raises(ValueError, match="operation must be one of"):
        server.allow("alice", "SING")
    with pytest.raises(ValueError, match="A resource is one of"):
        server.allow("alice", "READ", song="x")

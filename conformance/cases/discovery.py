"""Cases about ApiVersions, FindCoordinator and Metadata."""

from __future__ import annotations

import struct

from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.profiles import FEATURES, PROFILES
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.probe_requests import GROUP_KEYS, probe_request
from kafka_shim.conformance.protocol import BY_KEY
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level
from kafka_shim.conformance.wire import header

ZERO_ID = bytes(16)


# -- ApiVersions


@case("apiversions/table/1", "Every version answers the same table, without error", source="KIP-35", api="ApiVersions")
def table(t: Trial) -> None:
    answer = t.call(ApiVersionsRequest("conformance", "1"))
    t.expect(answer, error_code=0)
    t.equal(
        {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}, t.peer.versions, "the table"
    )


@case("apiversions/table/2", "An API is listed once, its least version not above its most", source="KIP-35")
def well_formed(t: Trial) -> None:
    answer = t.call(ApiVersionsRequest("conformance", "1"))
    keys = [each.api_key for each in answer.api_keys]
    t.equal(len(set(keys)), len(keys), "number of different keys")
    for each in answer.api_keys:
        t.check(0 <= each.min_version <= each.max_version, f"versions of key {each.api_key}: {each!r}")


@case(
    "apiversions/table/3", "No version is advertised that the protocol does not have", source="survey rdkafka-mock 14"
)
def exists(t: Trial) -> None:
    for key in GROUP_KEYS:
        if key in t.peer.versions:
            newest = BY_KEY[key].request.versions[-1]
            t.check(t.peer.versions[key][1] <= newest, f"{BY_KEY[key].name} is advertised to {t.peer.versions[key][1]}")


@case("apiversions/table/4", "The APIs of a group member are all there", source="semantics 1")
def members_apis(t: Trial) -> None:
    missing = [BY_KEY[key].name for key in (3, 8, 9, 10, 11, 12, 13, 14, 18) if key not in t.peer.versions]
    t.equal(missing, [], "APIs that are missing")


@case(
    "apiversions/table/5",
    "The ranges of all APIs are those of Apache Kafka",
    source="semantics 1; proved on 4.2, 4.3 and 4.4",
    level=Level.MAY,
)
def ranges(t: Trial) -> None:
    expected = PROFILES[t.peer.release]
    t.equal({key: t.peer.versions.get(key) for key in expected}, expected, "ranges")


@case(
    "apiversions/table/6",
    "Every advertised group API answers in every version it advertises",
    source="survey rdkafka-mock 14; declared against served",
)
def served(t: Trial) -> None:
    for key in GROUP_KEYS:
        low, high = t.peer.versions.get(key, (1, 0))
        for version in range(low, min(high, BY_KEY[key].request.versions[-1]) + 1):
            t.call(probe_request(key, version, t.group), version)


@case(
    "apiversions/place/1",
    "The ids of another cluster or broker are answered 129, only one of both ids 42, and neither has ranges",
    source="KIP-1242; proved on 4.4",
    api="ApiVersions",
    versions=(5, 5),
    since="4.4",
)
def misrouted(t: Trial) -> None:
    metadata = t.call(MetadataRequest([]), 9)
    broker = metadata.brokers[0]
    cluster_id, node_id = metadata.cluster_id, broker.node_id
    for ids, error in (
        ((cluster_id, node_id), E.NONE),
        ((None, -1), E.NONE),
        ((cluster_id, -1), E.INVALID_REQUEST),
        ((None, node_id), E.INVALID_REQUEST),
        (("another", -1), E.INVALID_REQUEST),
        (("another", node_id), E.REBOOTSTRAP_REQUIRED),
        ((cluster_id, node_id + 1000), E.REBOOTSTRAP_REQUIRED),
    ):
        wire = t.connect_to(t.peer.entry.at(broker.host, broker.port))
        answer = wire.call(ApiVersionsRequest("conformance", "1", *ids), t.version)
        t.equal((answer.error_code, bool(answer.api_keys)), (error, error == E.NONE), f"the answer to {ids}")


@case(
    "apiversions/place/2",
    "A request without the ids at its end closes the connection: version 5 has them always",
    source="KIP-1242; proved on 4.4",
    since="4.4",
)
def short(t: Trial) -> None:
    software = b"\x0cconformance\x021"
    for body in (software, software + b"\x00", software + b"\x00\xff\xff", software + b"\x00\xff\xff\xff\xff"):
        wire = t.connect("short")
        wire.send_frame(header(18, 5, 1, "conformance", flexible=True) + body, f"ApiVersionsRequest v5 cut: {body!r}")
        t.check(wire.wait_closed(), "answered instead of closed")
    t.expect(t.call(ApiVersionsRequest(), 0), error_code=0)


def fallback(t: Trial, version: int) -> bytes:
    """Return the answer to a version of ApiVersions that the target does not have."""
    wire = t.connect("newer")
    body = b"\x0cconformance\x021\x00"
    wire.send_frame(header(18, version, 77, "conformance", flexible=True) + body, f"ApiVersionsRequest v{version}")
    data = wire.receive_frame()
    t.equal(data[:4], struct.pack(">i", 77), "the correlation id")
    return data[4:]


@case(
    "apiversions/fallback/1",
    "A version the target does not have is answered in the form of version 0 with UNSUPPORTED_VERSION (35)",
    source="KIP-511; semantics 1; survey rdkafka-mock 25",
)
def unknown_version(t: Trial) -> None:
    high = t.peer.versions[18][1]
    for version in (high + 1, 99):
        answer, end = ApiVersionsResponse.decoder(0)(body := fallback(t, version), 0)
        t.equal(end, len(body), "length of a version 0 body")
        t.expect(answer, error_code=E.UNSUPPORTED_VERSION)


@case(
    "apiversions/fallback/2",
    "The answer to an unknown version lists the versions of ApiVersions",
    source="KIP-511; semantics 1",
)
def says_own_range(t: Trial) -> None:
    answer = ApiVersionsResponse.decode(fallback(t, t.peer.versions[18][1] + 1), 0)
    own = [(each.min_version, each.max_version) for each in answer.api_keys if each.api_key == 18]
    t.equal(own, [t.peer.versions[18]], "its entry for ApiVersions")


@case(
    "apiversions/fallback/3",
    "Only ApiVersions itself is in that answer",
    source="proved on Apache Kafka 4.2",
    level=Level.MAY,
)
def only_itself(t: Trial) -> None:
    answer = ApiVersionsResponse.decode(fallback(t, 99), 0)
    t.equal([each.api_key for each in answer.api_keys], [18], "keys")


@case("apiversions/fallback/4", "After that answer the connection goes on", source="KIP-511")
def goes_on(t: Trial) -> None:
    wire = t.connect("newer")
    wire.send_frame(
        header(18, 99, 1, "conformance", flexible=True) + b"\x0cconformance\x021\x00", "ApiVersionsRequest v99"
    )
    wire.receive_frame()
    t.expect(wire.call(ApiVersionsRequest(), 0), error_code=0)


@case(
    "apiversions/software/1",
    "A software name or version that is none is an invalid request (42)",
    source="KIP-511",
    api="ApiVersions",
    versions=(3, 4),
    level=Level.SHOULD,
)
def software(t: Trial) -> None:
    for name, number in (("", "1"), ("conformance", ""), ("a!", "1"), ("-a", "1"), ("a", "1 2")):
        t.expect(t.call(ApiVersionsRequest(name, number)), error_code=E.INVALID_REQUEST, api_keys=[])


@case(
    "apiversions/features/1",
    "group.version is finalized where consumer groups are served",
    source="KIP-584, KIP-848",
    api="ApiVersions",
    versions=(3, 4),
    level=Level.SHOULD,
)
def features(t: Trial) -> None:
    if 68 not in t.peer.versions:
        return
    answer = t.call(ApiVersionsRequest("conformance", "1"))
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    t.check(levels.get("group.version", 0) >= 1, f"finalized features are {levels}")


@case(
    "apiversions/features/2",
    "A new cluster has the features of its release, each finalized at the highest level: share.version 2 from 4.4 on",
    source="KIP-584; semantics 4.10",
    api="ApiVersions",
    versions=(4, 5),
    level=Level.MAY,
    since="4.2",
)
def levels_of_release(t: Trial) -> None:
    answer = t.call(ApiVersionsRequest("conformance", "1"))
    expected = {each.name: (each.lowest, each.highest, each.finalized or None) for each in FEATURES[t.peer.release]}
    final = {each.name: each.max_version_level for each in answer.finalized_features}
    got = {each.name: (each.min_version, each.max_version, final.get(each.name)) for each in answer.supported_features}
    t.equal({name: got.get(name) for name in expected}, expected, "features, their levels, and the finalized one")


@case("apiversions/again/1", "ApiVersions may be sent at any time, not only first", source="KIP-35", api="ApiVersions")
def again(t: Trial) -> None:
    wire = t.connect()
    wire.call(MetadataRequest([]), t.version_of("Metadata"))
    t.expect(wire.call(ApiVersionsRequest("conformance", "1"), t.version), error_code=0)


# -- FindCoordinator


def find(t: Trial, *keys: str, key_type: int = 0) -> list[tuple[str, int, int, str, int]]:
    """Send FindCoordinator; return (key, error, node, host, port) for each key."""
    if t.version <= 3:
        coordinators = []
        for key in keys:
            answer = t.call(FindCoordinatorRequest(key, key_type))
            coordinators.append((key, answer.error_code, answer.node_id, answer.host, answer.port))
        return coordinators
    answer = t.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys)))
    return [(each.key, each.error_code, each.node_id, each.host, each.port) for each in answer.coordinators]


@case(
    "find/group/1", "The coordinator of a group is a broker of the cluster", source="semantics 1", api="FindCoordinator"
)
def finds(t: Trial) -> None:
    ((_, error, node, host, port),) = find(t, t.group)
    t.equal(error, 0, "the error")
    brokers = t.call(MetadataRequest([])).brokers
    t.check(
        (node, host, port) in [(each.node_id, each.host, each.port) for each in brokers],
        f"{(node, host, port)} is no broker",
    )


@case(
    "find/group/2",
    "A group that does not exist has a coordinator, the same every time",
    source="semantics 1",
    api="FindCoordinator",
)
def always_the_same(t: Trial) -> None:
    t.equal(find(t, "no-such-group"), find(t, "no-such-group"), "the coordinator")


@case(
    "find/group/3",
    "The empty group id has a coordinator",
    source="semantics 1",
    api="FindCoordinator",
    level=Level.SHOULD,
)
def empty_id(t: Trial) -> None:
    t.equal(find(t, "")[0][1], 0, "the error")


@case(
    "find/batch/1",
    "From v4 a request has several keys, and each is answered by its key",
    source="KIP-699",
    api="FindCoordinator",
    versions=(4, 6),
)
def batch(t: Trial) -> None:
    keys = [f"{t.group}-{n}" for n in range(5)]
    t.equal([(key, error) for key, error, *_ in find(t, *keys)], [(key, 0) for key in keys], "answers")


@case(
    "find/batch/2",
    "A request without keys gets an answer without keys",
    source="KIP-699",
    api="FindCoordinator",
    versions=(4, 6),
    level=Level.SHOULD,
)
def no_keys(t: Trial) -> None:
    t.equal(find(t), [], "answers")


@case(
    "find/type/1",
    "A kind of coordinator that does not exist is an invalid request (42): no node",
    source="semantics 1",
    api="FindCoordinator",
    versions=(1, 6),
)
def unknown_type(t: Trial) -> None:
    ((_, error, node, host, port),) = find(t, "key", key_type=9)
    t.equal((error, node, host, port), (E.INVALID_REQUEST, -1, "", -1), "the answer")


@case(
    "find/type/2",
    "A share coordinator takes version 6 and a key of group, topic id and partition (42)",
    source="KIP-932; semantics 1.5 step 4; proved on Apache Kafka 4.2.2",
    api="FindCoordinator",
    versions=(4, 6),
    level=Level.MAY,
)
def share(t: Trial) -> None:
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    keys = [
        *("", "key", "group:topic:0", "group::0", f"group:{topic_id}", f":{topic_id}:0", f" :{topic_id}:0"),
        *(f"group:{topic_id}:x", f"group:{topic_id}: 0", f"group:{topic_id}:99999999999", f"group:{topic_id}A:0"),
    ]
    if t.version < 6:
        keys.append(f"group:{topic_id}:0")
    for answer in t.call(FindCoordinatorRequest(key_type=2, coordinator_keys=keys)).coordinators:
        t.expect(answer, node_id=-1, host="", port=-1, error_code=E.INVALID_REQUEST, error_message="")


@case(
    "find/type/3",
    "The key of a share coordinator may have colons in the name of the group",
    source="KIP-932; semantics 1.5 step 4; proved on Apache Kafka 4.2.2",
    api="FindCoordinator",
    versions=(6, 6),
    level=Level.MAY,
)
def share_key(t: Trial) -> None:
    keys = [f"{group}:AAAAAAAAAAAAAAAAAAAAAQ:{partition}" for group, partition in (("a", 0), ("a:b", 0), ("a", "0:"))]
    for answer in t.call(FindCoordinatorRequest(key_type=2, coordinator_keys=keys)).coordinators:
        t.expect(answer, error_code={0, E.COORDINATOR_NOT_AVAILABLE})


@case(
    "find/message/1",
    "Where there is no error there is no message, or the word NONE",
    source="semantics 1",
    api="FindCoordinator",
    versions=(1, 3),
    level=Level.SHOULD,
)
def message(t: Trial) -> None:
    t.expect(t.call(FindCoordinatorRequest(t.group)), error_message={None, "", "NONE"})


@case("find/group/4", "A coordinator that is found coordinates", source="semantics 1", api="FindCoordinator")
def coordinates(t: Trial) -> None:
    find(t, t.group)
    (member,) = t.stable(1)
    t.equal(member.heartbeat(), 0, "a heartbeat")


# -- Metadata


@case("metadata/brokers/1", "Every broker of the answer listens at its address", source="semantics 1", api="Metadata")
def brokers(t: Trial) -> None:
    answer = t.call(MetadataRequest([]))
    t.check(len(answer.brokers) >= 1, "there is no broker")
    for broker in answer.brokers:
        t.expect(t.connect_to(t.peer.entry.at(broker.host, broker.port)).call(ApiVersionsRequest(), 0), error_code=0)


@case(
    "metadata/topic/1",
    "A topic comes with its partitions, and with its id from v10",
    source="semantics 1",
    api="Metadata",
)
def topic(t: Trial) -> None:
    name = t.topic(3)
    (topic,) = t.call(MetadataRequest([MetadataRequestTopic(name=name)], t.version < 4)).topics
    t.expect(topic, error_code=0, name=name, is_internal=False)
    t.equal(sorted(each.partition_index for each in topic.partitions), [0, 1, 2], "partitions")
    t.equal({each.error_code for each in topic.partitions}, {0}, "errors of the partitions")
    t.check((topic.topic_id != ZERO_ID) == (t.version >= 10), f"the topic id is {topic.topic_id.hex()}")


@case(
    "metadata/topic/2",
    "An unknown topic that may not be created is answered 3",
    source="semantics 1",
    api="Metadata",
    versions=(4, 13),
)
def unknown(t: Trial) -> None:
    (topic,) = t.call(MetadataRequest([MetadataRequestTopic(name="no-such")], False)).topics
    t.expect(topic, error_code=E.UNKNOWN_TOPIC_OR_PARTITION, name="no-such", partitions=[])


@case("metadata/topic/3", "A topic is found by its id", source="KIP-516", api="Metadata", versions=(12, 13))
def by_id(t: Trial) -> None:
    name = t.topic(3)
    (topic,) = t.call(MetadataRequest([MetadataRequestTopic(t.topic_id(name), None)], False)).topics
    t.expect(topic, error_code=0, name=name, topic_id=t.topic_id(name))


@case(
    "metadata/topic/4",
    "An unknown topic id is answered 100",
    source="KIP-516",
    api="Metadata",
    versions=(12, 13),
)
def unknown_id(t: Trial) -> None:
    (topic,) = t.call(MetadataRequest([MetadataRequestTopic(b"\7" * 16, None)], False)).topics
    t.expect(topic, error_code=E.UNKNOWN_TOPIC_ID, name=None, topic_id=b"\7" * 16, partitions=[])


@case(
    "metadata/topic/5",
    "No list of topics means all of them; an empty list, none",
    source="semantics 1",
    api="Metadata",
    versions=(1, 13),
)
def all_or_none(t: Trial) -> None:
    name = t.topic(3)
    t.check(
        name
        in [
            each.name
            for each in t.call(MetadataRequest(None, False) if t.version >= 4 else MetadataRequest(None)).topics
        ],
        "the topic is missing",
    )
    t.equal(t.call(MetadataRequest([])).topics, [], "topics of an empty list")


@case(
    "metadata/topic/6",
    "In version 0 an empty list means all topics",
    source="semantics 1",
    api="Metadata",
    versions=(0, 0),
)
def empty_means_all(t: Trial) -> None:
    name = t.topic(3)
    t.check(name in [each.name for each in t.call(MetadataRequest([])).topics], "the topic is missing")


@case(
    "metadata/cluster/1",
    "The cluster has an id and a controller",
    source="semantics 1",
    api="Metadata",
    versions=(2, 13),
)
def cluster(t: Trial) -> None:
    answer = t.call(MetadataRequest([]))
    t.check(bool(answer.cluster_id), "there is no cluster id")
    t.check(
        answer.controller_id in [each.node_id for each in answer.brokers], f"the controller is {answer.controller_id}"
    )

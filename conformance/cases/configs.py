"""Cases about configurations: AlterConfigs, ListConfigResources, DescribeConfigs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafka_shim.apis.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafka_shim.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from kafka_shim.apis.incremental_alter_configs import AlterableConfig as IncrementalConfig
from kafka_shim.apis.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from kafka_shim.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_shim.apis.list_config_resources import ListConfigResourcesRequest
from kafka_shim.apis.metadata import MetadataRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import Body, case
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Failed, Level

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
OF_TOPIC, OF_BROKER, OF_BROKERS, STATIC, DEFAULT = 1, 2, 3, 4, 5
LONG = 5
SOURCE = "semantics 6.3"

alter_case = partial(
    case, api="AlterConfigs", source=SOURCE, level=Level.SHOULD, uses=("CreateTopics", "DescribeConfigs")
)
incremental_case = partial(case, api="IncrementalAlterConfigs", source=SOURCE, level=Level.SHOULD)
list_case = partial(case, api="ListConfigResources", source=SOURCE, level=Level.SHOULD)


def describe_case(id: str, title: str, versions: tuple[int, int] = (1, 4), **options: Any) -> Callable[[Body], Body]:
    """Register a case about DescribeConfigs.

    A case that changes a broker runs in one version only, because cells run side by side.
    """
    return case(id, title, api="DescribeConfigs", source=SOURCE, level=Level.SHOULD, versions=versions, **options)


def alter(t: Trial, kind: int, name: str, values: dict[str, str | None], *, validate_only: bool = False) -> int:
    """Send AlterConfigs for one resource; return its error."""
    resource = AlterConfigsResource(kind, name, [AlterableConfig(*each) for each in values.items()])
    (answer,) = t.call(AlterConfigsRequest([resource], validate_only)).responses
    t.expect(answer, resource_type=kind, resource_name=name)
    t.check((answer.error_code == 0) == (not answer.error_message), f"the message is {answer.error_message!r}")
    return int(answer.error_code)


def described(
    t: Trial, kind: int, name: str, *keys: str, documented: bool = False
) -> dict[str, DescribeConfigsResourceResult]:
    """Return the values of one resource by name; all of them without `keys`."""
    resource = DescribeConfigsResource(kind, name, list(keys) or None)
    (answer,) = t.call(DescribeConfigsRequest([resource], True, documented)).results
    t.expect(answer, error_code=0, resource_type=kind, resource_name=name)
    return {each.name: each for each in answer.configs}


def own(t: Trial, topic: str) -> dict[str, str | None]:
    """Return the values set on the topic itself."""
    return {name: each.value for name, each in described(t, TOPIC, topic).items() if each.config_source == OF_TOPIC}


@alter_case("alter-configs/topic/1", "Values that are not named go back to their defaults")
def replaced(t: Trial) -> None:
    topic = t.new_topic(1)
    t.equal(alter(t, TOPIC, topic, {"retention.ms": "600000", "segment.ms": "70000"}), 0, "the error")
    values: dict[str, str | None] = {"retention.ms": "600000", "segment.ms": "70000"}
    t.until(lambda: own(t, topic), lambda got: got == values, "the values never came")
    t.equal(alter(t, TOPIC, topic, {"segment.ms": "80000"}), 0, "the error")
    t.until(lambda: own(t, topic), lambda got: got == {"segment.ms": "80000"}, "the values never came")
    t.equal(alter(t, TOPIC, topic, {}), 0, "the error")
    t.until(lambda: own(t, topic), lambda got: not got, "the values never went")


@alter_case("alter-configs/topic/2", "A request that only validates changes nothing")
def validated(t: Trial) -> None:
    topic = t.new_topic(1)
    t.equal(alter(t, TOPIC, topic, {"retention.ms": "600000"}, validate_only=True), 0, "the error")
    t.equal(own(t, topic), {}, "the topic's own values")
    refused = alter(t, TOPIC, topic, {"retention.ms": "never"}, validate_only=True)
    t.equal(refused, E.INVALID_CONFIG, "the error of a value that cannot be")


@alter_case(
    "alter-configs/refused/1",
    "A name that is none and a value that cannot be: INVALID_CONFIG (40); a null value: INVALID_REQUEST (42)",
)
def bad_values(t: Trial) -> None:
    topic = t.new_topic(1)
    t.equal(alter(t, TOPIC, topic, {"no.such.config": "1"}), E.INVALID_CONFIG, "the error of an unknown name")
    t.equal(alter(t, TOPIC, topic, {"retention.ms": "never"}), E.INVALID_CONFIG, "the error of no number")
    t.equal(alter(t, TOPIC, topic, {"retention.ms": None}), E.INVALID_REQUEST, "the error of null")


@alter_case(
    "alter-configs/refused/2",
    "No such topic: UNKNOWN_TOPIC_OR_PARTITION (3); no name or a type without configuration: INVALID_REQUEST (42)",
)
def bad_resources(t: Trial) -> None:
    t.equal(alter(t, TOPIC, f"{t.group}-none", {}), E.UNKNOWN_TOPIC_OR_PARTITION, "the error of no topic")
    for kind, name in ((TOPIC, ""), (GROUP, ""), (9, "x"), (BROKER_LOGGER, "1"), (BROKER, "x")):
        t.equal(alter(t, kind, name, {}), E.INVALID_REQUEST, f"the error of type {kind} {name!r}")


@alter_case("alter-configs/group/1", "A group's values are replaced as a topic's are", uses=("DescribeConfigs",))
def group(t: Trial) -> None:
    def session() -> str | None:
        return described(t, GROUP, t.group)["consumer.session.timeout.ms"].value

    default = session()
    t.equal(alter(t, GROUP, t.group, {"consumer.session.timeout.ms": "50000"}), 0, "the error")
    t.until(session, lambda got: got == "50000", "the value never came")
    t.equal(alter(t, GROUP, t.group, {}), 0, "the error")
    t.until(session, lambda got: got == default, "the value never went")


def resources(t: Trial, *types: int) -> list[tuple[int, str]]:
    answer = t.expect(t.call(ListConfigResourcesRequest(list(types))), error_code=0)
    return [(each.resource_type, each.resource_name) for each in answer.config_resources]


@list_case("config-resources/list/1", "Topics, brokers and their loggers are listed; version 0 lists none of them")
def listed(t: Trial) -> None:
    topic = t.topic(3)
    pairs = resources(t)
    if t.version == 0:
        t.check({kind for kind, _ in pairs} <= {CLIENT_METRICS}, f"version 0 lists client metrics alone, not {pairs}")
        return
    t.check((TOPIC, topic) in pairs, "the topic is not listed")
    nodes = {str(each.node_id) for each in t.call(MetadataRequest([])).brokers}
    for kind in (BROKER, BROKER_LOGGER):
        t.equal({name for each, name in pairs if each == kind}, nodes, f"resources of type {kind}")


@list_case("config-resources/list/2", "Only the types in the request", versions=(1, 1))
def of_types(t: Trial) -> None:
    t.topic(3)
    t.equal({kind for kind, _ in resources(t, BROKER)}, {BROKER}, "types")
    t.equal({kind for kind, _ in resources(t, BROKER, TOPIC)}, {BROKER, TOPIC}, "types")


@list_case("config-resources/list/3", "A type without configuration: UNSUPPORTED_VERSION (35)", versions=(1, 1))
def no_type(t: Trial) -> None:
    answer = t.call(ListConfigResourcesRequest([TOPIC, 99]))
    t.equal((int(answer.error_code), answer.config_resources), (E.UNSUPPORTED_VERSION, []), "error and resources")


@list_case(
    "config-resources/list/4",
    "A group is listed when it has values of its own",
    versions=(1, 1),
    uses=("AlterConfigs",),
)
def groups(t: Trial) -> None:
    t.check((GROUP, t.group) not in resources(t, GROUP), "a group without values is listed")
    t.equal(alter(t, GROUP, t.group, {"consumer.session.timeout.ms": "50000"}), 0, "the error")
    t.until(lambda: resources(t, GROUP), lambda got: (GROUP, t.group) in got, "the group is not listed")
    t.equal(alter(t, GROUP, t.group, {}), 0, "the error")


def a_broker(t: Trial) -> str:
    """Return the id of the default broker for requests."""
    listening = t.peer.routes.coordinator(t.group)
    for each in t.call(MetadataRequest([])).brokers:
        if (each.host, each.port) == (listening.host, listening.port) or t.peer.routes.is_alone:
            return str(each.node_id)
    raise Failed("the broker of this connection is not in the cluster")


@describe_case("describe-configs/broker/1", "A broker describes its id and the addresses for clients")
def identity(t: Trial) -> None:
    node = a_broker(t)
    values = described(t, BROKER, node, "node.id", "advertised.listeners", "log.retention.hours")
    t.equal(set(values), {"node.id", "advertised.listeners", "log.retention.hours"}, "names")
    t.expect(values["node.id"], value=node, config_source=STATIC, read_only=True)
    t.expect(values["advertised.listeners"], config_source=STATIC, read_only=True)
    t.check("://" in (values["advertised.listeners"].value or ""), "where the broker is reached is no address")
    t.expect(values["log.retention.hours"], value="168", config_source=DEFAULT, is_sensitive=False)


@describe_case(
    "describe-configs/broker/2",
    "A value for one broker goes before one for all, and both before the default",
    versions=(4, 4),
    uses=("IncrementalAlterConfigs",),
)
def precedence(t: Trial) -> None:
    node, name = a_broker(t), "log.cleaner.delete.retention.ms"
    try:
        t.equal((put(t, "", name, "9000"), put(t, node, name, "8000")), (0, 0), "the errors")
        values = t.until(
            lambda: described(t, BROKER, node, name)[name], lambda got: got.value == "8000", "the value never came"
        )
        synonyms = [(each.value, each.source) for each in values.synonyms]
        t.equal(synonyms, [("8000", OF_BROKER), ("9000", OF_BROKERS), ("86400000", DEFAULT)], "values and sources")
    finally:
        for each in (node, ""):
            put(t, each, name, None)


@describe_case(
    "describe-configs/broker/3",
    "Threads of a running broker may double, and no more (42)",
    versions=(4, 4),
    uses=("IncrementalAlterConfigs",),
)
def threads(t: Trial) -> None:
    node, name = a_broker(t), "background.threads"
    now = int(described(t, BROKER, node, name)[name].value or 0)
    try:
        t.equal(put(t, node, name, str(2 * now + 1)), E.INVALID_REQUEST, "the error of more than the double")
        t.equal(put(t, node, name, str(2 * now)), 0, "the error of the double")
    finally:
        put(t, node, name, None)


@describe_case(
    "describe-configs/topic/1",
    "From version 3 on types, and documentation if the request includes it",
    uses=("CreateTopics",),
)
def documentation(t: Trial) -> None:
    topic = t.topic(3)
    plain = described(t, TOPIC, topic, "retention.ms")["retention.ms"]
    documented = described(t, TOPIC, topic, "retention.ms", documented=t.version >= 3)["retention.ms"]
    t.expect(plain, documentation={None, ""}, config_type=LONG if t.version >= 3 else 0)
    t.equal(bool(documented.documentation), t.version >= 3, "whether there is documentation")


def put(t: Trial, broker: str, name: str, value: str | None) -> int:
    """Set a value of a broker, or delete it; return the error."""
    config = IncrementalConfig(name, 1 if value is None else 0, value)
    request = IncrementalAlterConfigsRequest([IncrementalResource(BROKER, broker, [config])])
    return int(t.call(request).responses[0].error_code)


def change(t: Trial, kind: int, name: str, **values: str) -> int:
    """Set values of a resource, their dots as underscores; return the error."""
    configs = [IncrementalConfig(each.replace("_", "."), 0, value) for each, value in values.items()]
    request = IncrementalAlterConfigsRequest([IncrementalResource(kind, name, configs)])
    return int(t.call(request).responses[0].error_code)


@describe_case(
    "describe-configs/group/1",
    "A value of a group has itself for a source, or the default, never both before 4.3",
    versions=(4, 4),
    uses=("IncrementalAlterConfigs",),
)
def sources_of_group(t: Trial) -> None:
    t.equal(change(t, GROUP, t.group, share_auto_offset_reset="earliest"), 0, "the error")
    values = t.until(
        lambda: described(t, GROUP, t.group),
        lambda got: got["share.auto.offset.reset"].value == "earliest",
        "the value never came",
    )
    own = [8, DEFAULT] if t.rules.group_synonyms_of_broker else [8]
    for name, expected in (("share.auto.offset.reset", own), ("share.session.timeout.ms", [DEFAULT])):
        t.equal([each.source for each in values[name].synonyms], expected, f"the sources of {name}")


@incremental_case(
    "incremental-alter-configs/group/1",
    "Where a share group begins is earliest, latest or a duration of 64 bits of seconds, else 40",
    source="KIP-932; semantics 4.13 step 14",
)
def offset_reset(t: Trial) -> None:
    for valid in ("earliest", "latest", "by_duration:PT1H", "by_duration:pt1.5s", "by_duration:P106751991167300D"):
        t.equal(change(t, GROUP, t.group, share_auto_offset_reset=valid), 0, f"the error of {valid}")
    unknown = ("nonsense", "LATEST", "", "by_duration:", "by_duration:PT", "by_duration:-PT1H", "by_duration:P1Y")
    for each in (*unknown, "by_duration:P106751991167301D"):
        t.equal(change(t, GROUP, t.group, share_auto_offset_reset=each), E.INVALID_CONFIG, f"the error of {each}")


@incremental_case(
    "incremental-alter-configs/group/2",
    "A group has an assignment interval, and a share group limits of its own, within the broker's bounds, else 40",
    uses=("DescribeConfigs",),
    since="4.3",
)
def limits_of_group(t: Trial) -> None:
    for name in ("consumer_assignment_interval_ms", "share_assignment_interval_ms", "streams_assignment_interval_ms"):
        t.equal(change(t, GROUP, t.group, **{name: "15000"}), 0, f"the error of the longest {name}")
        t.equal(change(t, GROUP, t.group, **{name: "15001"}), E.INVALID_CONFIG, f"the error of a longer {name}")
        t.equal(change(t, GROUP, t.group, **{name: "-1"}), E.INVALID_CONFIG, f"the error of a negative {name}")
    for name, least, most in (("share_delivery_count_limit", 2, 10), ("share_partition_max_record_locks", 100, 4000)):
        for value, error in ((least - 1, 40), (least, 0), (most, 0), (most + 1, 40)):
            t.equal(change(t, GROUP, t.group, **{name: str(value)}), error, f"the error of {name} {value}")
    t.equal(change(t, GROUP, t.group, share_renew_acknowledge_enable="false"), 0, "the error of no renewals")
    values = t.until(
        lambda: described(t, GROUP, t.group),
        lambda got: got["share.renew.acknowledge.enable"].value == "false",
        "the value never came",
    )
    for name, sources in (
        ("share.delivery.count.limit", [("share.delivery.count.limit", 8), ("group.share.delivery.count.limit", 5)]),
        ("share.renew.acknowledge.enable", [("share.renew.acknowledge.enable", each) for each in (8, DEFAULT)]),
    ):
        t.equal([(each.name, each.source) for each in values[name].synonyms], sources, f"the sources of {name}")


@incremental_case(
    "incremental-alter-configs/topic/1",
    "The least compaction lag is not above the greatest, and there is no remote storage where the broker has none (40)",
    uses=("CreateTopics",),
)
def conflicts(t: Trial) -> None:
    topic = t.new_topic(1)
    conflict = {"min_compaction_lag_ms": "10", "max_compaction_lag_ms": "9"}
    t.equal(change(t, TOPIC, topic, **conflict), E.INVALID_CONFIG, "the error of lags that conflict")
    t.equal(change(t, TOPIC, topic, **conflict | {"max_compaction_lag_ms": "10"}), 0, "the error of equal lags")
    t.equal(change(t, TOPIC, topic, remote_storage_enable="true"), E.INVALID_CONFIG, "the error of remote storage")
    t.equal(change(t, TOPIC, topic, remote_storage_enable="false"), 0, "the error of none")

"""Configurations as administrators list, replace and describe them: AlterConfigs, ListConfigResources,
DescribeConfigs."""

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
list_case = partial(case, api="ListConfigResources", source=SOURCE, level=Level.SHOULD)


def describe_case(id: str, title: str, versions: tuple[int, int] = (1, 4), **options: Any) -> Callable[[Body], Body]:
    """A case about DescribeConfigs. Those that change a broker run in one version: cells run side by side."""
    return case(id, title, api="DescribeConfigs", source=SOURCE, level=Level.SHOULD, versions=versions, **options)


def alter(t: Trial, kind: int, name: str, values: dict[str, str | None], *, validate_only: bool = False) -> int:
    """AlterConfigs of one resource; its error."""
    resource = AlterConfigsResource(kind, name, [AlterableConfig(*each) for each in values.items()])
    (answer,) = t.call(AlterConfigsRequest([resource], validate_only)).responses
    t.expect(answer, resource_type=kind, resource_name=name)
    t.check((answer.error_code == 0) == (not answer.error_message), f"the message is {answer.error_message!r}")
    return int(answer.error_code)


def described(
    t: Trial, kind: int, name: str, *keys: str, documented: bool = False
) -> dict[str, DescribeConfigsResourceResult]:
    """The values of one resource, all without names, by name."""
    resource = DescribeConfigsResource(kind, name, list(keys) or None)
    (answer,) = t.call(DescribeConfigsRequest([resource], True, documented)).results
    t.expect(answer, error_code=0, resource_type=kind, resource_name=name)
    return {each.name: each for each in answer.configs}


def own(t: Trial, topic: str) -> dict[str, str | None]:
    """The values that a topic has of its own."""
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


@alter_case("alter-configs/topic/2", "What is only validated changes nothing")
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
    found = resources(t)
    if t.version == 0:
        t.check({kind for kind, _ in found} <= {CLIENT_METRICS}, f"version 0 lists client metrics alone, not {found}")
        return
    t.check((TOPIC, topic) in found, "the topic is not listed")
    nodes = {str(each.node_id) for each in t.call(MetadataRequest([])).brokers}
    for kind in (BROKER, BROKER_LOGGER):
        t.equal({name for each, name in found if each == kind}, nodes, f"resources of type {kind}")


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
    """The id of the default broker of requests."""
    listening = t.peer.routes.coordinator(t.group)
    for each in t.call(MetadataRequest([])).brokers:
        if (each.host, each.port) == (listening.host, listening.port) or t.peer.routes.is_alone:
            return str(each.node_id)
    raise Failed("the broker of this connection is none of the cluster")


@describe_case("describe-configs/broker/1", "A broker says who it is, and where clients reach it")
def identity(t: Trial) -> None:
    node = a_broker(t)
    found = described(t, BROKER, node, "node.id", "advertised.listeners", "log.retention.hours")
    t.equal(set(found), {"node.id", "advertised.listeners", "log.retention.hours"}, "names")
    t.expect(found["node.id"], value=node, config_source=STATIC, read_only=True)
    t.expect(found["advertised.listeners"], config_source=STATIC, read_only=True)
    t.check("://" in (found["advertised.listeners"].value or ""), "where the broker is reached is no address")
    t.expect(found["log.retention.hours"], value="168", config_source=DEFAULT, is_sensitive=False)


@describe_case(
    "describe-configs/broker/2",
    "A value for one broker goes before one for all, and both before the default",
    versions=(4, 4),
    uses=("IncrementalAlterConfigs",),
)
def precedence(t: Trial) -> None:
    node, name = a_broker(t), "log.cleaner.backoff.ms"
    try:
        t.equal((put(t, "", name, "9000"), put(t, node, name, "8000")), (0, 0), "the errors")
        found = t.until(
            lambda: described(t, BROKER, node, name)[name], lambda got: got.value == "8000", "the value never came"
        )
        synonyms = [(each.value, each.source) for each in found.synonyms]
        t.equal(synonyms, [("8000", OF_BROKER), ("9000", OF_BROKERS), ("15000", DEFAULT)], "values and sources")
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
    """Set a value of a broker, or delete it; the error."""
    config = IncrementalConfig(name, 1 if value is None else 0, value)
    request = IncrementalAlterConfigsRequest([IncrementalResource(BROKER, broker, [config])])
    return int(t.call(request).responses[0].error_code)

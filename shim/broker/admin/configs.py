"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs and ListConfigResources: the configuration of topics, brokers
and groups.

The names of the settings are in `settings.py`. Sources: KIP-133, KIP-226, KIP-339; Kafka's ConfigHelper and
ConfigAdminManager; semantics 6.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final

from kafka_shim.apis.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafka_shim.apis.alter_configs import AlterConfigsResourceResponse as ReplacedResponse
from kafka_shim.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_shim.apis.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafka_shim.apis.releases import DEFAULT_RELEASE, rules_of
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.primitives import MAX_STRING
from kafka_shim.broker.admin.config_values import (
    MIN_ISR,
    Inherited,
    Value,
    broker_values,
    default_values,
    group_values,
    logger_values,
    topic_values,
)
from kafka_shim.broker.admin.meanings import meaning_of
from kafka_shim.broker.setting import ConfigType, Setting
from kafka_shim.broker.settings import (
    broker_refusal,
    broker_settings,
    group_refusal,
    group_settings,
    topic_refusal,
    topic_settings,
)
from kafka_shim.broker.topics import Topic, TopicError, Topics, name_refusal

THREADS: Final = frozenset(
    {
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    }
)


MAX_BROKER_BYTES: Final = 1 << 20
"""The limit for the values of a broker, or of all together, with their names: a client may set unknown ones."""


class ResourceType(IntEnum):
    """A type of resource that has a configuration, by its number on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    """An operation of IncrementalAlterConfigs on a value."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Configs:
    """The rules of the four APIs, for a broker that poses as a Kafka `release`."""

    def __init__(self, node_id: int, topics: Topics, release: str = DEFAULT_RELEASE) -> None:
        self.node_id = node_id
        self.topics = topics
        self.settings = topics.settings
        self._release = release
        self._rules = rules_of(release)

    def describe_configs(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        results = []
        for resource in request.resources:
            result = DescribeConfigsResult(
                error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            keys = frozenset(resource.configuration_keys or ())
            try:
                result.configs = [
                    _described(value, request) for value in self._values(resource) if not keys or value.name in keys
                ]
            except TopicError as refused:
                result.error_code, result.error_message = refused.error, refused.message
            results.append(result)
        return DescribeConfigsResponse(results=results)

    def incremental_alter_configs(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(error, message, resource.resource_type, resource.resource_name)
                for resource, error, message in self._alter_each(request, replaces=False)
            ]
        )

    def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        """Replace the configuration of each resource. Values that are not in the request return to their defaults."""
        resources = [
            AlterConfigsResource(
                resource.resource_type,
                resource.resource_name,
                [AlterableConfig(each.name, Operation.SET, each.value) for each in resource.configs],
            )
            for resource in request.resources
        ]
        changes = IncrementalAlterConfigsRequest(resources, request.validate_only)
        return AlterConfigsResponse(
            responses=[
                ReplacedResponse(error, message, resource.resource_type, resource.resource_name)
                for resource, error, message in self._alter_each(changes, replaces=True)
            ]
        )

    def list_config_resources(
        self, request: ListConfigResourcesRequest, *, metrics_only: bool
    ) -> ListConfigResourcesResponse:
        """List the resources that have a configuration. `metrics_only`: v0 lists client metrics alone, of which there
        are none here. UNSUPPORTED_VERSION (35) for types without configuration."""
        nodes = [str(each) for each in self.topics.nodes]
        names = {
            ResourceType.GROUP: list(self.settings.groups),
            ResourceType.CLIENT_METRICS: [],
            ResourceType.BROKER_LOGGER: nodes,
            ResourceType.BROKER: nodes,
            ResourceType.TOPIC: [topic.name for topic in self.topics.all()],
        }
        types = {ResourceType.CLIENT_METRICS} if metrics_only else set(request.resource_types) or set(names)
        if types - set(names):
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(name, kind) for kind, of_kind in names.items() if kind in types for name in of_kind
            ]
        )

    def _alter_each(
        self, request: IncrementalAlterConfigsRequest, *, replaces: bool
    ) -> Iterator[tuple[AlterConfigsResource, int, str | None]]:
        """Change each resource; yield it with the error and the message of its answer."""
        by_name: dict[tuple[int, str], list[AlterConfigsResource]] = {}
        for resource in request.resources:
            by_name.setdefault((resource.resource_type, resource.resource_name), []).append(resource)
        for resource, times in ((each, len(same)) for same in by_name.values() for each in same):
            try:
                if times > 1:
                    raise TopicError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
                self._alter(resource, replaces=replaces, validate_only=request.validate_only)
            except TopicError as refused:
                yield resource, refused.error, refused.message
            else:
                yield resource, ErrorCode.NONE, None

    def _inherited(self, node_id: int = -1) -> Inherited:
        return Inherited.of_release(self.topics, self._release, node_id)

    def _values(self, resource: DescribeConfigsResource) -> list[Value]:
        name = resource.resource_name
        if resource.resource_type == ResourceType.TOPIC:
            return topic_values(self._topic(name).configs, self._inherited(), self._rules)
        if resource.resource_type == ResourceType.BROKER:
            self._check_broker(name, "Broker", " or empty string")
            if not name:
                return default_values(self._inherited())
            altered = self.settings.altered_of.get(self.node_id, {})
            return broker_values(self._inherited(self.node_id), altered, self._rules)
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            if not name:
                raise TopicError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            self._check_broker(name, "Broker")
            return logger_values()
        if resource.resource_type == ResourceType.GROUP:
            _check_group(name)
            return group_values(self.settings.groups.get(name, {}), self._inherited(self.node_id), self._rules)
        raise TopicError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource.resource_type}")

    def _alter(self, resource: AlterConfigsResource, *, replaces: bool, validate_only: bool) -> None:
        """Change one resource. `replaces`: the values in the request replace all own values of the resource."""
        names = Counter(each.name for each in resource.configs)
        if any(times > 1 for times in names.values()):
            raise TopicError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        nulls = [
            each.name for each in resource.configs if each.value is None and each.config_operation != Operation.DELETE
        ]
        if nulls:
            raise TopicError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
        if resource.resource_type == ResourceType.TOPIC:
            self._alter_topic(resource, replaces=replaces, validate_only=validate_only)
        elif resource.resource_type == ResourceType.BROKER:
            self._alter_broker(resource, replaces=replaces, validate_only=validate_only)
        elif resource.resource_type == ResourceType.GROUP:
            self._alter_group(resource, replaces=replaces, validate_only=validate_only)
        else:
            raise TopicError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")

    def _alter_topic(self, resource: AlterConfigsResource, *, replaces: bool, validate_only: bool) -> None:
        if not resource.resource_name:
            raise TopicError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        topic = self._topic(resource.resource_name)
        settings = topic_settings(self._rules)

        changed = _altered(resource.configs, {} if replaces else topic.configs, settings, "topic")
        _check_size(resource, changed)
        if (refusal := topic_refusal(changed, self.settings)) is not None:
            raise TopicError(ErrorCode.INVALID_CONFIG, refusal)
        if not validate_only:
            self.topics.configure(topic, changed)

    def _alter_broker(self, resource: AlterConfigsResource, *, replaces: bool, validate_only: bool) -> None:
        name = resource.resource_name
        self._check_broker(name, "Node")
        existing = broker_settings(self._rules)
        fixed = [each.name for each in resource.configs if each.name in existing and not existing[each.name].dynamic]
        if fixed:
            raise TopicError(
                ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: Set({', '.join(fixed)})"
            )
        settings = self.settings
        before = settings.altered_of.get(self.node_id, {}) if name else settings.altered
        try:
            changed = _altered(resource.configs, {} if replaces else before, existing, "broker")
        except TopicError as refused:
            raise TopicError(ErrorCode.INVALID_REQUEST, refused.message) from None
        _check_size(resource, changed)
        if sum(len(each) + len(value) for each, value in changed.items()) > MAX_BROKER_BYTES:
            raise TopicError(ErrorCode.POLICY_VIOLATION, f"All values would need more than {MAX_BROKER_BYTES} bytes.")
        if self._rules.dynamic_intervals and (refusal := broker_refusal(changed, settings)) is not None:
            raise TopicError(ErrorCode.INVALID_REQUEST, refusal)
        self._check_threads(changed, before)
        self._check_min_isr(resource, changed, of_all=not name, replaces=replaces)
        if not validate_only:
            if not name:
                settings.altered = changed
            elif changed:
                settings.altered_of[self.node_id] = changed
            else:
                settings.altered_of.pop(self.node_id, None)
            self.topics.apply_all_settings()
            settings.tell()

    def _check_threads(self, changed: Mapping[str, str], before: Mapping[str, str]) -> None:
        """Check that the number of threads of a running broker at most doubles or halves."""
        for name in THREADS & changed.keys():
            now, value = self.settings.number(name), int(changed[name])
            if changed[name] == before.get(name) or now == value:
                continue
            if value > 2 * now:
                limit = f"value should not be greater than double the current value {now}"
            elif value < now // 2:
                limit = f"value should be at least half the current value {now}"
            else:
                continue
            raise TopicError(
                ErrorCode.INVALID_REQUEST,
                f"Dynamic thread count update validation failed for {name}={value}, {limit}",
            )

    def _check_min_isr(
        self, resource: AlterConfigsResource, changed: Mapping[str, str], *, of_all: bool, replaces: bool
    ) -> None:
        """Check that the cluster keeps a value, which no broker overrides, while eligible leader replicas are on."""
        if not self._inherited().is_elr_on:
            return
        names_min_isr = any(each.name == MIN_ISR for each in resource.configs)
        if of_all and MIN_ISR not in changed and (names_min_isr or replaces):
            raise TopicError(
                ErrorCode.INVALID_CONFIG, f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
            )
        if not of_all and MIN_ISR in changed:
            raise TopicError(
                ErrorCode.INVALID_CONFIG, f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
            )

    def _alter_group(self, resource: AlterConfigsResource, *, replaces: bool, validate_only: bool) -> None:
        name = resource.resource_name
        _check_group(name)
        own = self.settings.groups.get(name, {})
        settings = {name: each.setting for name, each in group_settings(self._rules).items()}

        changed = _altered(resource.configs, {} if replaces else own, settings, "group")
        if (refusal := group_refusal(changed, self.settings, self._rules)) is not None:
            raise TopicError(ErrorCode.INVALID_CONFIG, refusal)
        if not validate_only:
            self.settings.set_group(name, {each: settings[each].parsed(value) for each, value in changed.items()})

    def _topic(self, name: str) -> Topic:
        if (refusal := name_refusal(name)) is not None:
            raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, refusal)
        topic = self.topics.named(name)
        if topic is None:
            raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return topic

    def _check_broker(self, name: str, what: str, otherwise: str = "") -> None:
        """Check that this broker may answer for broker `name`; the empty name means all brokers. Raises TopicError."""
        if name and not name.isdecimal():
            raise TopicError(ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}")
        if name and int(name) != self.node_id:
            raise TopicError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self.node_id}{otherwise}, but received {name}",
            )


def _check_group(name: str) -> None:
    if not name:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")


def _check_size(resource: AlterConfigsResource, changed: Mapping[str, str]) -> None:
    """Check that no value has grown by APPEND beyond the longest text of an answer. Raises TopicError: INVALID_CONFIG
    (40), as Kafka 4.3."""
    if any(len(changed.get(each.name, "").encode()) > MAX_STRING for each in resource.configs):
        raise TopicError(
            ErrorCode.INVALID_CONFIG,
            f"The configuration value cannot be added because it exceeds the maximum value size of {MAX_STRING} bytes.",
        )


def _altered(
    operations: list[AlterableConfig],
    own: Mapping[str, str],
    settings: Mapping[str, Setting],
    what: str,
) -> dict[str, str]:
    """Return the resource's own values after the operations; one that it does not have begins at the default of the
    setting. Raises TopicError with INVALID_CONFIG (40), or INVALID_REQUEST (42) for an unknown operation."""
    changed = dict(own)
    for each in operations:
        if each.config_operation == Operation.DELETE:
            changed.pop(each.name, None)
            continue
        setting = settings.get(each.name)
        if setting is None and what == "broker":
            # An unknown name may be a plugin's.
            changed[each.name] = each.value or ""
            continue
        if setting is None:
            raise TopicError(ErrorCode.INVALID_CONFIG, f"Unknown {what} config name: {each.name}")
        value = each.value or ""
        if each.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            operation = Operation(each.config_operation)
            if setting.type is not ConfigType.LIST or what == "group":
                raise TopicError(
                    ErrorCode.INVALID_CONFIG,
                    f"Can't {operation.name} to key {each.name} because its type is not LIST.",
                )
            before = changed.get(each.name, setting.default or "")
            value = (_appended if operation is Operation.APPEND else _subtracted)(before, value)
        elif each.config_operation != Operation.SET:
            raise TopicError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {each.config_operation}")
        if (refusal := setting.refusal(value)) is not None:
            raise TopicError(ErrorCode.INVALID_CONFIG, refusal)
        changed[each.name] = value
    return changed


def _appended(before: str, value: str) -> str:
    """Return a list with each part of `value` that it does not have by then."""
    parts = _filled(before)
    existing = set(parts)
    for part in _parts(value):
        if part not in existing:
            existing.add(part)
            parts.append(part)
    return ",".join(parts)


def _subtracted(before: str, value: str) -> str:
    """Return a list without the first part equal to each part of `value`."""
    times = Counter(_parts(value))
    parts = []
    for part in _filled(before):
        if times[part]:
            times[part] -= 1
        else:
            parts.append(part)
    return ",".join(parts)


def _filled(value: str) -> list[str]:
    return [part for part in _parts(value) if part]


def _parts(value: str) -> list[str]:
    """Return the parts between the commas, as Java splits a text: spaces stay, and empty parts, but not at the end."""
    filled = value.rstrip(",")
    return filled.split(",") if filled or not value else []


def _described(value: Value, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    secret = value.is_sensitive
    return DescribeConfigsResourceResult(
        name=value.name,
        value=value.value,
        read_only=not value.setting.dynamic,
        config_source=value.source,
        is_sensitive=secret,
        synonyms=[
            DescribeConfigsSynonym(name, None if secret else text, source) for name, text, source in value.synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=value.setting.type,
        documentation=meaning_of(value.setting) if request.include_documentation else None,
    )

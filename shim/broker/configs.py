"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs and ListConfigResources: the configuration of topics, brokers
and groups, as clients handle it.

Decides where a value comes from and which change is refused. Does not know what the values are for, nor which there
are (`settings.py`). Sources: KIP-133, KIP-226, KIP-339; Kafka's ConfigHelper and ConfigAdminManager; semantics 6.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

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
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.settings import (
    BROKER_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    ConfigType,
    Setting,
    Settings,
    as_list,
    group_refusal,
    group_value,
)
from kafka_shim.broker.topics import Topic, TopicError, Topics, name_refusal


class ResourceType(IntEnum):
    """What has a configuration, by its number on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """Where a value comes from, by its number in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Operation(IntEnum):
    """What IncrementalAlterConfigs does with a value."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Value(NamedTuple):
    """A value in force: the first of `synonyms`, which are all values it could have, by descending precedence."""

    setting: Setting
    synonyms: list[tuple[str, str, Source]]

    @property
    def name(self) -> str:
        return self.setting.name

    @property
    def value(self) -> str:
        return self.synonyms[0][1]

    @property
    def source(self) -> Source:
        return self.synonyms[0][2]


def topic_values(overrides: Mapping[str, str], settings: Settings) -> list[Value]:
    """Every value of a topic that has these of its own."""
    values = []
    for name, setting in TOPIC_SETTINGS.items():
        own = [(name, overrides[name], Source.TOPIC)] if name in overrides else []
        inherited = (
            _of_broker(setting.synonym, settings) if setting.synonym else [(name, setting.default, Source.DEFAULT)]
        )
        values.append(Value(setting, [*own, *inherited]))
    return values


def group_values(overrides: Mapping[str, str], settings: Settings) -> list[Value]:
    """Every value of a group that has these of its own."""
    values = []
    for name, each in GROUP_SETTINGS.items():
        own = [(name, overrides[name], Source.GROUP)] if name in overrides else []
        values.append(Value(each.setting, [*own, (name, group_value(name, {}, settings), Source.DEFAULT)]))
    return values


def broker_values(settings: Settings) -> list[Value]:
    """Every value of a broker."""
    return [Value(setting, _of_broker(setting.name, settings)) for setting in BROKER_SETTINGS.values()]


def _of_broker(name: str, settings: Settings) -> list[tuple[str, str, Source]]:
    found = []
    if name in settings.altered:
        found.append((name, settings.altered[name], Source.DYNAMIC_DEFAULT_BROKER))
    if name in settings.static:
        found.append((name, settings.static[name], Source.STATIC_BROKER))
    return [*found, (name, BROKER_SETTINGS[name].default, Source.DEFAULT)]


class Configs:
    """The rules. `on_group_changed(group_id)` is called when the values of a group were changed."""

    def __init__(self, node_id: int, topics: Topics) -> None:
        self.node_id = node_id
        self.topics = topics
        self.settings = topics.settings
        self.on_group_changed: list[Callable[[str], None]] = []

    def describe_configs(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        results = []
        for resource in request.resources:
            result = DescribeConfigsResult(
                error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            try:
                result.configs = [
                    _described(value, synonyms_wanted=request.include_synonyms)
                    for value in self._values(resource)
                    if not resource.configuration_keys or value.name in resource.configuration_keys
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
        """Values that are not named go back to their defaults."""
        resources = [
            AlterConfigsResource(
                resource.resource_type,
                resource.resource_name,
                [AlterableConfig(each.name, Operation.SET, each.value) for each in resource.configs],
            )
            for resource in request.resources
        ]
        anew = IncrementalAlterConfigsRequest(resources, request.validate_only)
        return AlterConfigsResponse(
            responses=[
                ReplacedResponse(error, message, resource.resource_type, resource.resource_name)
                for resource, error, message in self._alter_each(anew, replaces=True)
            ]
        )

    def list_config_resources(
        self, request: ListConfigResourcesRequest, *, metrics_only: bool
    ) -> ListConfigResourcesResponse:
        """`metrics_only`: v0 lists client metrics alone, of which there are none here. UNSUPPORTED_VERSION (35) for
        types that have no configuration."""
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
        """The resources, each with the error and the message that answer it."""
        named = Counter((each.resource_type, each.resource_name) for each in request.resources)
        for resource in request.resources:
            try:
                if named[resource.resource_type, resource.resource_name] > 1:
                    raise TopicError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
                self._alter(resource, replaces=replaces, validate_only=request.validate_only)
            except TopicError as refused:
                yield resource, refused.error, refused.message
            else:
                yield resource, ErrorCode.NONE, None

    def _values(self, resource: DescribeConfigsResource) -> list[Value]:
        name = resource.resource_name
        if resource.resource_type == ResourceType.TOPIC:
            return topic_values(self._topic(name).configs, self.settings)
        if resource.resource_type == ResourceType.BROKER:
            self._check_broker(name)
            values = broker_values(self.settings)
            return values if name else [each for each in values if each.source is Source.DYNAMIC_DEFAULT_BROKER]
        if resource.resource_type == ResourceType.GROUP:
            _check_group(name)
            return group_values(self.settings.groups.get(name, {}), self.settings)
        raise TopicError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource.resource_type}")

    def _alter(self, resource: AlterConfigsResource, *, replaces: bool, validate_only: bool) -> None:
        """`replaces`: only the values that are named now are the resource's own."""
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
        current = {each.name: each.value for each in topic_values(topic.configs, self.settings)}
        changed = _altered(resource.configs, {} if replaces else topic.configs, current, TOPIC_SETTINGS, "topic")
        if not validate_only:
            self.topics.configure(topic, changed)

    def _alter_broker(self, resource: AlterConfigsResource, *, replaces: bool, validate_only: bool) -> None:
        self._check_broker(resource.resource_name)
        fixed = [
            each.name
            for each in resource.configs
            if each.name in BROKER_SETTINGS and not BROKER_SETTINGS[each.name].dynamic
        ]
        if fixed:
            raise TopicError(
                ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: Set({', '.join(fixed)})"
            )
        current = {name: self.settings.text(name) for name in BROKER_SETTINGS}
        own = {} if replaces else self.settings.altered
        changed = _altered(resource.configs, own, current, BROKER_SETTINGS, "broker")
        if not validate_only:
            self.settings.altered = changed
            for topic in self.topics.all():
                self.topics.apply_settings(topic)

    def _alter_group(self, resource: AlterConfigsResource, *, replaces: bool, validate_only: bool) -> None:
        name = resource.resource_name
        _check_group(name)
        own = self.settings.groups.get(name, {})
        current = {each.name: each.value for each in group_values(own, self.settings)}
        settings = {each.setting.name: each.setting for each in GROUP_SETTINGS.values()}
        changed = _altered(resource.configs, {} if replaces else own, current, settings, "group")
        if (refusal := group_refusal(changed, self.settings)) is not None:
            raise TopicError(ErrorCode.INVALID_CONFIG, refusal)
        if not validate_only:
            if changed:
                self.settings.groups[name] = changed
            else:
                self.settings.groups.pop(name, None)
            for tell in self.on_group_changed:
                tell(name)

    def _topic(self, name: str) -> Topic:
        if (refusal := name_refusal(name)) is not None:
            raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, refusal)
        topic = self.topics.named(name)
        if topic is None:
            raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return topic

    def _check_broker(self, name: str) -> None:
        """Raises TopicError unless this broker may speak for `name`; the empty name means all brokers."""
        if name and not name.isdecimal():
            raise TopicError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        if name and int(name) != self.node_id:
            raise TopicError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {self.node_id}, but received {name}"
            )


def _check_group(name: str) -> None:
    if not name:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")


def _altered(
    operations: list[AlterableConfig],
    own: Mapping[str, str],
    current: Mapping[str, str],
    settings: Mapping[str, Setting],
    what: str,
) -> dict[str, str]:
    """The resource's own values after the operations. Raises TopicError with INVALID_CONFIG (40), or INVALID_REQUEST
    (42) for an operation that does not exist."""
    changed = dict(own)
    for each in operations:
        if each.config_operation == Operation.DELETE:
            changed.pop(each.name, None)
            continue
        setting = settings.get(each.name)
        if setting is None:
            raise TopicError(ErrorCode.INVALID_CONFIG, f"Unknown {what} config name: {each.name}")
        value = each.value or ""
        if each.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            operation = Operation(each.config_operation)
            if setting.type is not ConfigType.LIST:
                raise TopicError(
                    ErrorCode.INVALID_CONFIG,
                    f"Can't {operation.name} to key {each.name} because its type is not LIST.",
                )
            before, named = as_list(current[each.name]), as_list(value)
            if operation is Operation.APPEND:
                value = ",".join([*before, *(part for part in named if part not in before)])
            else:
                value = ",".join(part for part in before if part not in named)
        elif each.config_operation != Operation.SET:
            raise TopicError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {each.config_operation}")
        if (refusal := setting.refusal(value)) is not None:
            raise TopicError(ErrorCode.INVALID_CONFIG, refusal)
        changed[each.name] = value
    return changed


def _described(value: Value, *, synonyms_wanted: bool) -> DescribeConfigsResourceResult:
    synonyms = [DescribeConfigsSynonym(*each) for each in value.synonyms] if synonyms_wanted else []
    return DescribeConfigsResourceResult(
        name=value.name,
        value=value.value,
        read_only=not value.setting.dynamic,
        config_source=value.source,
        synonyms=synonyms,
        config_type=value.setting.type,
        documentation=None,
    )

"""DescribeConfigs and IncrementalAlterConfigs, for topics, brokers and groups."""

import re
from dataclasses import fields

import pytest

from kafka_shim.apis.alter_configs import AlterableConfig as ReplacedConfig
from kafka_shim.apis.alter_configs import AlterConfigsRequest
from kafka_shim.apis.alter_configs import AlterConfigsResource as ReplacedResource
from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_shim.apis.releases import DEFAULT_RULES, rules_of
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.admin import configs as admin_configs
from kafka_shim.broker.admin.configs import Configs
from kafka_shim.broker.admin.meanings import OTHERWISE
from kafka_shim.broker.settings import (
    BROKER_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    Settings,
    broker_settings,
    group_refusal,
    group_settings,
    topic_settings,
)
from kafka_shim.groups.config import GroupConfig, kafka_name
from tests.broker.admin.altering import APPEND, BROKER, DELETE, GROUP, SET, SUBTRACT, TOPIC, alter, describe, value
from tests.broker.context import Cluster, batch
from tests.effort import ComparedText, comparisons

REPLICAS = "leader.replication.throttled.replicas"
OTHER_REPLICAS = "follower.replication.throttled.replicas"
KINDS = ("consumer", "share", "streams")
BOUNDS = ("", "min.", "max.")


class TestDescribe:
    def test_topic_has_all_values_with_their_sources(self, cluster: Cluster) -> None:
        configs = describe(cluster, TOPIC, "t").configs
        assert {each.name for each in configs} == set(topic_settings(DEFAULT_RULES))
        assert value(cluster, TOPIC, "t", "segment.bytes") == ("1073741824", 5)
        assert value(cluster, TOPIC, "t", "retention.ms") == ("777", 4)

    def test_each_setting_is_looked_up_once_among_many_keys(self, cluster: Cluster) -> None:
        keys = ["retention.ms", *(ComparedText(f"key-{number}") for number in range(300))]
        assert comparisons(lambda: describe(cluster, TOPIC, "t", *keys)) <= 300
        (config,) = describe(cluster, TOPIC, "t", *keys).configs
        assert (config.name, config.value) == ("retention.ms", "777")

    def test_synonyms_by_precedence(self, cluster: Cluster) -> None:
        alter(cluster, TOPIC, "t", ("retention.ms", SET, "5"))
        (config,) = describe(cluster, TOPIC, "t", "retention.ms", include_synonyms=True).configs
        assert [(each.name, each.value, each.source) for each in config.synonyms] == [
            ("retention.ms", "5", 1),
            ("log.retention.ms", "777", 4),
        ]
        assert (config.config_type, config.read_only, config.is_sensitive) == (5, False, False)
        assert describe(cluster, TOPIC, "t", "retention.ms").configs[0].synonyms == []

    def test_unknown_keys_are_left_out(self, cluster: Cluster) -> None:
        assert describe(cluster, TOPIC, "t", "no.such.thing").configs == []

    def test_broker(self, cluster: Cluster) -> None:
        configs = {each.name: each for each in describe(cluster, BROKER, "1").configs}
        assert set(configs) == {
            name for name, setting in broker_settings(DEFAULT_RULES).items() if not setting.internal
        }
        assert configs["auto.create.topics.enable"].value == "true"
        assert configs["auto.create.topics.enable"].read_only
        assert configs["group.max.session.timeout.ms"].value == "1800000"

    def test_all_brokers_have_a_value_set_for_all(self, cluster: Cluster) -> None:
        assert [each.name for each in describe(cluster, BROKER, "").configs] == ["min.insync.replicas"]
        alter(cluster, BROKER, "", ("message.max.bytes", SET, "5000"))
        names = [each.name for each in describe(cluster, BROKER, "").configs]
        assert names == ["message.max.bytes", "min.insync.replicas"]

    def test_group(self, cluster: Cluster) -> None:
        described = {each.name for each in describe(cluster, GROUP, "g").configs}
        assert described == {name for name, each in group_settings(DEFAULT_RULES).items() if not each.setting.internal}
        assert value(cluster, GROUP, "g", "consumer.session.timeout.ms") == ("45000", 5)

    def test_documentation_tells_which_settings_of_a_group_have_no_effect(self, cluster: Cluster) -> None:
        alter(cluster, GROUP, "g", *((name, SET, each.setting.default) for name, each in GROUP_SETTINGS.items()))
        configs = describe(cluster, GROUP, "g", include_documentation=True).configs
        assert len(configs) == len(GROUP_SETTINGS)
        assert {each.name for each in configs if each.documentation == OTHERWISE} == {
            *(f"{kind}.assignor.offload.enable" for kind in KINDS),
            "streams.num.warmup.replicas",
        }

    @pytest.mark.parametrize(
        ("kind", "name", "error"),
        [
            (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            (BROKER, "2", ErrorCode.INVALID_REQUEST),
            (BROKER, "one", ErrorCode.INVALID_REQUEST),
            (GROUP, "", ErrorCode.INVALID_REQUEST),
            (3, "x", ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_refused(self, cluster: Cluster, kind: int, name: str, error: ErrorCode) -> None:
        result = describe(cluster, kind, name)
        assert (result.error_code, result.configs) == (error, [])
        assert result.error_message
        assert alter(cluster, kind, name) == error


class TestAlterTopic:
    def test_set_and_delete(self, cluster: Cluster) -> None:
        assert alter(cluster, TOPIC, "t", ("retention.ms", SET, "5"), ("flush.ms", SET, "9")) == 0
        assert value(cluster, TOPIC, "t", "retention.ms") == ("5", 1)
        assert alter(cluster, TOPIC, "t", ("retention.ms", DELETE, None)) == 0
        assert value(cluster, TOPIC, "t", "retention.ms") == ("777", 4)
        assert value(cluster, TOPIC, "t", "flush.ms") == ("9", 1)

    def test_lists_are_appended_to_and_subtracted_from(self, cluster: Cluster) -> None:
        assert alter(cluster, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == 0
        assert value(cluster, TOPIC, "t", "cleanup.policy") == ("delete,compact", 1)
        assert alter(cluster, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) == 0
        assert value(cluster, TOPIC, "t", "cleanup.policy") == ("compact", 1)

    @pytest.mark.parametrize(
        ("operation", "before", "value", "after"),
        [
            (APPEND, "", "1:2,1:2", "1:2"),
            (APPEND, "1:2,1:2", "1:2,3:4,3:4", "1:2,1:2,3:4"),
            (APPEND, "1:2,,3:4", "5:6", "1:2,3:4,5:6"),
            (APPEND, "1:2", "3:4,,", "1:2,3:4"),
            (APPEND, "1:2", ",", "1:2"),
            (APPEND, "1:2", " 1:2", "1:2, 1:2"),
            (SUBTRACT, "1:2,3:4,1:2", "1:2", "3:4,1:2"),
            (SUBTRACT, "1:2,3:4,1:2", "1:2,1:2,1:2", "3:4"),
            (SUBTRACT, "1:2,3:4", "5:6", "1:2,3:4"),
            (SUBTRACT, "1:2", "1:2", ""),
        ],
    )
    def test_parts_of_a_list_change_as_in_kafka(
        self, cluster: Cluster, operation: int, before: str, value: str, after: str
    ) -> None:
        """Source: `ConfigurationControlManager.incrementalAlterConfigResource`."""
        assert alter(cluster, TOPIC, "t", (REPLICAS, SET, before), (OTHER_REPLICAS, SET, before)) == 0
        assert alter(cluster, TOPIC, "t", (REPLICAS, operation, value)) == 0
        configs = cluster.topics.named("t").configs  # type: ignore[union-attr]
        assert configs == {REPLICAS: after, OTHER_REPLICAS: before}

    def test_a_list_that_the_topic_does_not_have_begins_at_the_default_of_the_setting(self, cluster: Cluster) -> None:
        assert alter(cluster, BROKER, "1", ("log.cleanup.policy", SET, "compact")) == 0
        assert alter(cluster, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == 0
        assert value(cluster, TOPIC, "t", "cleanup.policy") == ("delete,compact", 1)

    @pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
    def test_each_part_of_a_list_is_looked_up_once(
        self, cluster: Cluster, operation: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lists = iter([[ComparedText(f"{name}{number}") for number in range(300)] for name in "ab"])
        monkeypatch.setattr(admin_configs, "_parts", lambda value: next(lists))
        assert comparisons(lambda: alter(cluster, TOPIC, "t", (REPLICAS, operation, "x"))) <= 600

    def test_a_refusal_of_a_long_value_fits_an_answer(self, cluster: Cluster) -> None:
        resource = AlterConfigsResource(TOPIC, "t", [AlterableConfig("retention.ms", SET, "\u00e9" * 16_383)])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        response = cluster.broker.change(request, None, cluster.now)
        (result,) = response.responses
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert result.error_message.startswith("Invalid value \u00e9\u00e9")
        assert result.error_message.endswith("for configuration retention.ms: Not a number of type LONG")
        assert response.encode(1)

    def test_a_list_grows_no_longer_than_a_text_of_an_answer(self, cluster: Cluster) -> None:
        parts = [f"{number:04}" for number in range(6553)]
        assert alter(cluster, TOPIC, "t", (REPLICAS, SET, ",".join(parts))) == 0
        before = value(cluster, TOPIC, "t", REPLICAS)
        assert alter(cluster, TOPIC, "t", (REPLICAS, APPEND, "ab")) == 0
        assert alter(cluster, TOPIC, "t", (REPLICAS, SUBTRACT, "ab")) == 0
        resource = AlterConfigsResource(TOPIC, "t", [AlterableConfig(REPLICAS, APPEND, "\u00e9b")])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (response,) = cluster.broker.change(request, None, cluster.now).responses
        assert (response.error_code, response.error_message) == (
            ErrorCode.INVALID_CONFIG,
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        )
        assert value(cluster, TOPIC, "t", REPLICAS) == before

    def test_deleting_a_missing_key_succeeds(self, cluster: Cluster) -> None:
        assert alter(cluster, TOPIC, "t", ("no.such.thing", DELETE, None)) == 0

    def test_only_validated(self, cluster: Cluster) -> None:
        assert alter(cluster, TOPIC, "t", ("retention.ms", SET, "5"), validate_only=True) == 0
        assert value(cluster, TOPIC, "t", "retention.ms") == ("777", 4)

    def test_takes_effect(self, cluster: Cluster) -> None:
        alter(cluster, TOPIC, "t", ("max.message.bytes", SET, "100"))
        assert cluster.send("t", 0, batch(b"x" * 200)).error_code == ErrorCode.MESSAGE_TOO_LARGE

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            (("no.such.thing", SET, "1"), ErrorCode.INVALID_CONFIG),
            (("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
            (("retention.ms", SET, "-2"), ErrorCode.INVALID_CONFIG),
            (("segment.bytes", SET, str(2**31)), ErrorCode.INVALID_CONFIG),
            (("min.cleanable.dirty.ratio", SET, "1.5"), ErrorCode.INVALID_CONFIG),
            (("preallocate", SET, "yes"), ErrorCode.INVALID_CONFIG),
            (("compression.type", SET, "zip"), ErrorCode.INVALID_CONFIG),
            (("cleanup.policy", SET, "compact,keep"), ErrorCode.INVALID_CONFIG),
            (("cleanup.policy", SET, "delete, delete"), ErrorCode.INVALID_CONFIG),
            (("cleanup.policy", SET, "delete,"), ErrorCode.INVALID_CONFIG),
            (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
            (("max.compaction.lag.ms", SET, "999"), ErrorCode.INVALID_CONFIG),
            (("remote.storage.enable", SET, "true"), ErrorCode.INVALID_CONFIG),
            (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
            (("retention.ms", 4, "1"), ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_refused(self, cluster: Cluster, change: tuple[str, int, str | None], error: ErrorCode) -> None:
        alter(cluster, TOPIC, "t", ("min.compaction.lag.ms", SET, "1000"))
        before = describe(cluster, TOPIC, "t")
        assert alter(cluster, TOPIC, "t", ("flush.ms", SET, "9"), change) == error
        assert describe(cluster, TOPIC, "t") == before

    def test_a_key_named_twice(self, cluster: Cluster) -> None:
        changes = [("flush.ms", SET, "1"), ("flush.ms", SET, "2")]
        assert alter(cluster, TOPIC, "t", *changes) == ErrorCode.INVALID_REQUEST

    def test_a_resource_named_twice(self, cluster: Cluster) -> None:
        resource = AlterConfigsResource(TOPIC, "t", [AlterableConfig("flush.ms", SET, "1")])
        request = IncrementalAlterConfigsRequest(resources=[resource, resource])
        responses = cluster.broker.change(request, None, cluster.now).responses
        assert {each.error_code for each in responses} == {ErrorCode.INVALID_REQUEST}


class TestAlterBroker:
    @pytest.mark.parametrize("name", ["", "1"])
    def test_takes_effect_for_topics_without_a_value_of_their_own(self, cluster: Cluster, name: str) -> None:
        own = cluster.topics.create("own", [[1]], {"max.message.bytes": "900"})
        assert alter(cluster, BROKER, name, ("message.max.bytes", SET, "100")) == 0
        assert cluster.topics.named("t").max_message_bytes == 100
        assert own.max_message_bytes == 900

    def test_values_with_unknown_names_have_a_bound(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(admin_configs, "MAX_BROKER_BYTES", 20)
        assert alter(cluster, BROKER, "", ("plugin.a", SET, "x" * 12)) == 0
        assert alter(cluster, BROKER, "", ("plugin.b", SET, "x")) == ErrorCode.POLICY_VIOLATION
        assert alter(cluster, BROKER, "1", ("plugin.b", SET, "x" * 12)) == 0
        assert cluster.topics.settings.altered == {"plugin.a": "x" * 12}

    def test_a_running_broker_refuses_to_change_static_keys(self, cluster: Cluster) -> None:
        assert alter(cluster, BROKER, "1", ("num.partitions", SET, "5")) == ErrorCode.INVALID_REQUEST


class TestAlterGroup:
    def test_a_change_takes_effect(self, cluster: Cluster) -> None:
        assert alter(cluster, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")) == 0
        assert value(cluster, GROUP, "g", "consumer.session.timeout.ms") == ("50000", 8)
        assert value(cluster, GROUP, "other", "consumer.session.timeout.ms") == ("45000", 5)
        assert alter(cluster, GROUP, "g", ("consumer.session.timeout.ms", DELETE, None)) == 0
        assert cluster.topics.settings.groups == {}

    @pytest.mark.parametrize(
        ("key", "text"),
        [
            ("consumer.session.timeout.ms", "44999"),
            ("consumer.session.timeout.ms", "60001"),
            ("consumer.heartbeat.interval.ms", "4999"),
            ("consumer.heartbeat.interval.ms", "15001"),
            ("streams.num.standby.replicas", "3"),
            ("share.isolation.level", "serializable"),
            ("share.auto.offset.reset", "nonsense"),
            ("share.auto.offset.reset", "by_duration:P106751991167301D"),
            ("consumer.assignor", "range"),
        ],
    )
    def test_refused(self, cluster: Cluster, key: str, text: str) -> None:
        assert alter(cluster, GROUP, "g", (key, SET, text)) == ErrorCode.INVALID_CONFIG

    def test_synonyms_are_its_own_value_or_the_default(self, cluster: Cluster) -> None:
        cluster.broker.configs = Configs(1, cluster.topics, "4.2")
        alter(cluster, GROUP, "g", ("share.auto.offset.reset", SET, "earliest"))
        own, default = (
            describe(cluster, GROUP, "g", name, include_synonyms=True).configs[0].synonyms
            for name in ("share.auto.offset.reset", "share.isolation.level")
        )
        assert [(each.value, each.source) for each in own] == [("earliest", 8)]
        assert [(each.value, each.source) for each in default] == [("read_uncommitted", 5)]

    @pytest.mark.parametrize("release", ["4.3", "4.4"])
    def test_groups_have_an_assignment_interval_from_4_3_on(self, cluster: Cluster, release: str) -> None:
        cluster.broker.release, cluster.broker.configs = release, Configs(1, cluster.topics, release)
        name = "consumer.assignment.interval.ms"
        assert alter(cluster, GROUP, "g", (name, SET, "0")) == ErrorCode.NONE
        assert cluster.topics.settings.groups["g"] == {name: "0"}
        (config,) = describe(cluster, GROUP, "g", name, include_synonyms=True).configs
        assert [(each.name, each.value, each.source) for each in config.synonyms] == [
            (name, "0", 8),
            (f"group.{name}", "1000", 5),
        ]
        broker = {each.name for each in describe(cluster, BROKER, "1").configs}
        assert {f"group.{kind}.{bound}assignment.interval.ms" for kind in KINDS for bound in BOUNDS} <= broker

    def test_an_internal_setting_of_a_group_is_described_once_the_group_has_it(self, cluster: Cluster) -> None:
        name = "streams.num.warmup.replicas"
        assert describe(cluster, GROUP, "g", name).configs == []
        assert alter(cluster, GROUP, "g", (name, SET, "21")) == ErrorCode.INVALID_CONFIG
        assert alter(cluster, GROUP, "g", (name, SET, "3")) == 0
        assert value(cluster, GROUP, "g", name) == ("3", 8)

    def test_values_of_groups_are_described_as_kafka_reads_them(self, cluster: Cluster) -> None:
        for name, text, shown in (
            ("share.renew.acknowledge.enable", "FALSE", "false"),
            ("streams.rack.aware.assignment.tags", " a , b", "a,b"),
        ):
            assert alter(cluster, GROUP, "g", (name, SET, text)) == 0
            assert value(cluster, GROUP, "g", name) == (shown, 8)

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            (
                {"streams.assignor.name": "nope"},
                "streams.assignor.name 'nope' is not a registered task assignor. Registered assignors are: [sticky].",
            ),
            (
                {"streams.rack.aware.assignment.tags": "a,a"},
                "streams.rack.aware.assignment.tags must not contain duplicate tag keys.",
            ),
            (
                {"streams.rack.aware.assignment.tags": "a,,b"},
                "Configuration 'streams.rack.aware.assignment.tags' values must not be empty.",
            ),
            (
                {"streams.task.offset.interval.ms": "1"},
                "streams.task.offset.interval.ms must be greater than or equal to 15000",
            ),
        ],
    )
    def test_a_refusal_of_a_streams_setting_has_the_words_of_kafka(self, change: dict[str, str], text: str) -> None:
        assert group_refusal(change, Settings()) == text

    def test_share_groups_have_limits_of_their_own_from_4_3_on(self, cluster: Cluster) -> None:
        assert alter(cluster, GROUP, "g", ("share.delivery.count.limit", SET, "10")) == ErrorCode.NONE
        assert alter(cluster, GROUP, "g", ("share.delivery.count.limit", SET, "11")) == ErrorCode.INVALID_CONFIG
        assert alter(cluster, GROUP, "g", ("share.partition.max.record.locks", SET, "99")) == ErrorCode.INVALID_CONFIG
        assert value(cluster, GROUP, "g", "share.delivery.count.limit") == ("10", 8)
        assert value(cluster, GROUP, "g", "share.renew.acknowledge.enable") == ("true", 5)

    def test_groups_have_no_assignment_interval_in_4_2(self, cluster: Cluster) -> None:
        cluster.broker.release, cluster.broker.configs = "4.2", Configs(1, cluster.topics, "4.2")
        name = "consumer.assignment.interval.ms"
        assert alter(cluster, GROUP, "g", (name, SET, "0")) == ErrorCode.INVALID_CONFIG
        assert describe(cluster, BROKER, "1", f"group.{name}").configs == []

    @pytest.mark.parametrize(
        ("release", "text"),
        [
            (
                "4.3",
                "share.assignment.interval.ms must be less than or equal to group.share.max.assignment.interval.ms",
            ),
            ("4.4", "share.assignment.interval.ms must be in the range 0 to 15000 inclusive."),
        ],
    )
    def test_a_refusal_names_the_bounds_of_the_broker(self, release: str, text: str) -> None:
        values = {"share.assignment.interval.ms": "15001"}
        assert group_refusal(values, Settings(), rules_of(release)) == text

    def test_a_session_outlasts_its_heartbeats(self) -> None:
        settings = Settings({"group.consumer.min.session.timeout.ms": "1000"})
        values = {"consumer.session.timeout.ms": "5000", "consumer.heartbeat.interval.ms": "5000"}
        refusal = group_refusal(values, settings)
        assert refusal is not None
        assert "must be greater" in refusal
        values["consumer.session.timeout.ms"] = "5001"
        assert group_refusal(values, settings) is None


class TestSettings:
    @pytest.mark.parametrize("table", [TOPIC_SETTINGS, BROKER_SETTINGS])
    def test_defaults_are_legal(self, table: dict[str, object]) -> None:
        for setting in table.values():
            assert setting.default is None or setting.refusal(setting.default) is None

    def test_defaults_are_those_of_the_group_rules(self) -> None:
        defaults = {kafka_name(field.name): str(field.default) for field in fields(GroupConfig)}
        settings = Settings()
        assert {name: settings.text(name) for name in defaults} == defaults

    def test_given_values_are_checked_at_once(self) -> None:
        with pytest.raises(ValueError, match=r"num\.partitions"):
            Settings({"num.partitions": "0"})

    @pytest.mark.parametrize(
        ("values", "refusal"),
        [
            (
                {"group.consumer.assignment.interval.ms": "20000"},
                "group.consumer.assignment.interval.ms must be less than or equal to"
                " group.consumer.max.assignment.interval.ms",
            ),
            (
                {"group.share.min.assignment.interval.ms": "16000"},
                "group.share.max.assignment.interval.ms must be greater than or equal to"
                " group.share.min.assignment.interval.ms",
            ),
            (
                {"group.streams.min.assignment.interval.ms": "1001"},
                "group.streams.assignment.interval.ms must be greater than or equal to"
                " group.streams.min.assignment.interval.ms",
            ),
            (
                {"group.streams.task.offset.interval.ms": "1"},
                "group.streams.task.offset.interval.ms must be greater than or equal to"
                " group.streams.min.task.offset.interval.ms",
            ),
            (
                {"group.streams.num.warmup.replicas": "50"},
                "group.streams.num.warmup.replicas must be less than or equal to group.streams.max.warmup.replicas",
            ),
            (
                {"group.share.delivery.count.limit": "7", "group.share.max.delivery.count.limit": "6"},
                "group.share.max.delivery.count.limit must be greater than or equal to"
                " group.share.delivery.count.limit",
            ),
            (
                {"group.consumer.max.session.timeout.ms": "44999"},
                "group.consumer.max.session.timeout.ms must be greater than or equal to"
                " group.consumer.min.session.timeout.ms",
            ),
        ],
    )
    def test_no_broker_starts_beyond_the_bounds(self, values: dict[str, str], refusal: str) -> None:
        with pytest.raises(ValueError, match=f"^{re.escape(refusal)}$"):
            Settings(values)

    @pytest.mark.parametrize("kind", KINDS)
    def test_sessions_and_heartbeats_may_be_short_from_the_start(self, kind: str) -> None:
        session, heartbeat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
        settings = Settings({session: "700", heartbeat: "50", "group.share.record.lock.duration.ms": "1000"})
        assert (settings.number(session), settings.number(heartbeat)) == (700, 50)

    def test_names_of_others_are_ignored(self) -> None:
        assert Settings({"shim.own.thing": "1"}).number("num.partitions") == 1


class TestReplace:
    def test_only_named_keys_stay(self, cluster: Cluster) -> None:
        alter(cluster, TOPIC, "t", ("retention.ms", SET, "5"), ("flush.ms", SET, "9"))
        resource = ReplacedResource(TOPIC, "t", [ReplacedConfig("flush.ms", "10")])
        for validate_only, expected in ((True, ("5", 1)), (False, ("777", 4))):
            request = AlterConfigsRequest([resource], validate_only)
            (response,) = cluster.broker.change(request, None, cluster.now).responses
            assert (response.error_code, response.resource_name) == (0, "t")
            assert value(cluster, TOPIC, "t", "retention.ms") == expected
        assert value(cluster, TOPIC, "t", "flush.ms") == ("10", 1)

    def test_the_cluster_cannot_lose_min_insync_replicas(self, cluster: Cluster) -> None:
        request = AlterConfigsRequest([ReplacedResource(BROKER, "", [])])
        (response,) = cluster.broker.change(request, None, cluster.now).responses
        assert response.error_code == ErrorCode.INVALID_CONFIG

"""DescribeConfigs and IncrementalAlterConfigs for brokers, and settings with several units."""

import re

import pytest

from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.settings import (
    TOPIC_SETTINGS,
    Settings,
    broker_refusal,
)
from kafka_shim.broker.unused_settings import unused_settings
from tests.broker.admin.altering import BROKER, DELETE, SET, TOPIC, alter, describe, value
from tests.broker.context import Cluster


class TestBroker:
    """Configuration of one broker, and values that no client may read."""

    def test_a_broker_describes_its_identity(self) -> None:
        cluster = Cluster(nodes=2)
        for node_id, roles in ((1, "broker,controller"), (2, "broker")):
            (result,) = (
                cluster.brokers[node_id]
                .configs.describe_configs(DescribeConfigsRequest([DescribeConfigsResource(BROKER, str(node_id), None)]))
                .results
            )
            values = {each.name: (each.value, each.config_source) for each in result.configs}
            assert values["advertised.listeners"] == (f"PLAINTEXT://host-{node_id}:{9090 + node_id}", 4)
            assert (values["node.id"], values["broker.id"]) == ((str(node_id), 4), (str(node_id), 4))
            assert values["process.roles"] == (roles, 4)

    def test_a_value_for_one_broker_goes_before_that_for_all(self, cluster: Cluster) -> None:
        assert alter(cluster, BROKER, "", ("log.cleaner.backoff.ms", SET, "9")) == 0
        assert alter(cluster, BROKER, "1", ("log.cleaner.backoff.ms", SET, "8")) == 0
        (config,) = describe(cluster, BROKER, "1", "log.cleaner.backoff.ms", include_synonyms=True).configs
        assert [(each.value, each.source) for each in config.synonyms] == [("8", 2), ("9", 3), ("15000", 5)]
        assert alter(cluster, BROKER, "1", ("log.cleaner.backoff.ms", DELETE, None)) == 0
        assert value(cluster, BROKER, "1", "log.cleaner.backoff.ms") == ("9", 3)
        assert cluster.topics.settings.altered_of == {}

    def test_an_assignment_interval_of_a_running_broker_stays_within_its_bounds(self, cluster: Cluster) -> None:
        name = "group.share.assignment.interval.ms"
        for text, error in (("15001", 42), ("-1", 42), ("700", 0)):
            assert alter(cluster, BROKER, "", (name, SET, text)) == error
        assert value(cluster, BROKER, "1", name) == ("700", 3)
        assert broker_refusal({name: "4"}, Settings({"group.share.min.assignment.interval.ms": "5"})) == (
            "group.share.assignment.interval.ms must be greater than or equal to group.share.min.assignment.interval.ms"
        )

    def test_threads_double_or_halve_at_most(self, cluster: Cluster) -> None:
        threads = "background.threads"
        assert alter(cluster, BROKER, "1", (threads, SET, "21")) == ErrorCode.INVALID_REQUEST
        assert alter(cluster, BROKER, "1", (threads, SET, "4")) == ErrorCode.INVALID_REQUEST
        assert alter(cluster, BROKER, "1", (threads, SET, "20")) == 0
        assert alter(cluster, BROKER, "1", (threads, SET, "40")) == 0
        assert value(cluster, BROKER, "1", threads) == ("40", 2)
        assert alter(cluster, BROKER, "1", ("num.io.threads", SET, "0")) == ErrorCode.INVALID_REQUEST

    def test_settings_without_an_effect_have_their_bounds(self, cluster: Cluster) -> None:
        largest = "max.decompressed.message.bytes"
        for text, error in (("0", 42), ("2147483640", 42), ("2147483639", 0), ("1", 0)):
            assert alter(cluster, BROKER, "", (largest, SET, text)) == error
        updates = "share.coordinator.snapshot.update.records.per.snapshot"
        assert Settings({updates: "0"}).number(updates) == 0
        for text in ("-1", "501"):
            with pytest.raises(ValueError, match=re.escape(updates)):
                Settings({updates: text})

    def test_no_setting_stands_in_two_tables(self) -> None:
        unused = [each.name for each in unused_settings()]
        assert len(set(unused)) == len(unused)
        assert not {each.synonym for each in TOPIC_SETTINGS.values()} & set(unused)

    def test_an_unknown_name_is_kept_as_a_secret(self, cluster: Cluster) -> None:
        assert alter(cluster, BROKER, "1", ("plugin.password", SET, "hunter2")) == 0
        (config,) = describe(cluster, BROKER, "1", "plugin.password", include_synonyms=True).configs
        assert (config.value, config.is_sensitive, config.read_only, config.config_type) == (None, True, True, 0)
        assert [(each.value, each.source) for each in config.synonyms] == [(None, 2)]

    def test_passwords_are_never_described(self) -> None:
        cluster = Cluster(ssl_key_password="hunter2")
        (config,) = describe(cluster, BROKER, "1", "ssl.key.password", include_synonyms=True).configs
        assert (config.value, config.is_sensitive, config.config_source) == (None, True, 4)
        assert [(each.value, each.source) for each in config.synonyms] == [(None, 4)]

    def test_the_cluster_keeps_a_value_of_min_insync_replicas(self, cluster: Cluster) -> None:
        name = "min.insync.replicas"
        assert value(cluster, TOPIC, "t", name) == value(cluster, BROKER, "1", name) == ("1", 3)
        assert alter(cluster, BROKER, "1", (name, SET, "2")) == ErrorCode.INVALID_CONFIG
        assert alter(cluster, BROKER, "", (name, SET, "2")) == 0
        assert alter(cluster, BROKER, "", (name, DELETE, None)) == ErrorCode.INVALID_CONFIG
        assert value(cluster, TOPIC, "t", name) == ("2", 3)

    def test_a_broker_describes_its_loggers(self, cluster: Cluster) -> None:
        assert value(cluster, 8, "1", "root") == ("INFO", 6)
        assert describe(cluster, 8, "2").error_code == describe(cluster, 8, "").error_code == ErrorCode.INVALID_REQUEST

    def test_documentation_when_it_is_asked_for(self, cluster: Cluster) -> None:
        request = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "1", None)], False, True)
        (result,) = cluster.broker.configs.describe_configs(request).results
        documentation = {each.name: each.documentation for each in result.configs}
        assert documentation["group.max.size"] == "How many members a classic group may have; others get error 81."
        assert all(documentation.values())
        assert describe(cluster, BROKER, "1", "group.max.size").configs[0].documentation is None


class TestOtherUnits:
    def test_hours_count_where_there_are_no_milliseconds(self) -> None:
        cluster = Cluster(log_retention_hours="2")
        cluster.topics.declare("t")
        (config,) = describe(cluster, TOPIC, "t", "retention.ms", include_synonyms=True).configs
        assert (config.value, config.config_source) == ("7200000", 4)
        assert [(each.name, each.value) for each in config.synonyms] == [("log.retention.hours", "2")]

    def test_without_any_there_is_a_default_and_no_synonym(self) -> None:
        cluster = Cluster()
        cluster.topics.declare("t")
        (config,) = describe(cluster, TOPIC, "t", "retention.ms", include_synonyms=True).configs
        assert (config.value, config.config_source, config.synonyms) == ("604800000", 5, [])
        assert describe(cluster, BROKER, "1", "log.retention.ms").configs[0].value is None

    @pytest.mark.parametrize(
        ("name", "text", "expected"),
        [("log_retention_minutes", "3", "180000"), ("log_retention_hours", "-1", "-1")],
    )
    def test_minutes_and_no_limit(self, name: str, text: str, expected: str) -> None:
        cluster = Cluster(**{name: text})
        cluster.topics.declare("t")
        assert value(cluster, TOPIC, "t", "retention.ms")[0] == expected

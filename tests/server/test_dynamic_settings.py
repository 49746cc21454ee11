"""Settings of groups that a client changes while the server runs."""

from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.wire import cluster

INTERVAL = "group.consumer.assignment.interval.ms"
BROKER = 4


def test_groups_obey_an_assignment_interval_that_a_client_has_set() -> None:
    made = cluster()
    node = made.nodes[1]
    (shard, *_) = node.groups.shards.values()
    assert shard.config.group_consumer_assignment_interval_ms == 0
    for operation, value, interval in ((0, "700", 700), (1, None, 0)):
        change = AlterConfigsResource(BROKER, "", [AlterableConfig(INTERVAL, operation, value)])
        (answer,) = node.broker.change(IncrementalAlterConfigsRequest([change]), None, 0.0).responses
        assert answer.error_code == 0
        assert shard.config.group_consumer_assignment_interval_ms == interval
        assert node.groups.config is shard.config

"""The meaning of each setting, in one sentence: documentation for DescribeConfigs and for `docs/running.md`.

All settings without an effect here share one sentence.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.broker.setting import Setting

MEANINGS: Final = {
    "auto.create.topics.enable": "A topic is created when a client first asks for it.",
    "connections.max.idle.ms": "A connection without traffic for so long is closed; none if negative.",
    "controller.quota.window.num": "Windows of the rate of changes of topics; a client may save so many.",
    "controller.quota.window.size.seconds": "The length of such a window.",
    "default.replication.factor": "Replicas of a topic whose creator names no number.",
    "delete.topic.enable": "Clients may delete topics.",
    "errors.deadletterqueue.auto.create.topics.enable": "A missing dead letter queue is created; since Kafka 4.4.",
    "errors.deadletterqueue.topic.name.prefix": "Dead letter queues have names that begin so; since Kafka 4.4.",
    "fetch.max.bytes": "Bytes of records in one answer to a Fetch.",
    "group.consumer.assignment.interval.ms": "How long a group waits between two assignments; since Kafka 4.3.",
    "group.consumer.assignors": "Assignors of the broker for groups of KIP-848; the first is the default.",
    "group.consumer.heartbeat.interval.ms": "The heartbeat interval of members of a KIP-848 group.",
    "group.consumer.max.assignment.interval.ms": "The longest assignment interval of a group; since Kafka 4.3.",
    "group.consumer.max.heartbeat.interval.ms": "The longest heartbeat interval that a group may have.",
    "group.consumer.max.session.timeout.ms": "The longest session timeout that a group may have.",
    "group.consumer.max.size": "How many members a KIP-848 group may have.",
    "group.consumer.migration.policy": "Which way groups with members move between the classic protocol and KIP-848.",
    "group.consumer.min.assignment.interval.ms": "The shortest assignment interval of a group; since Kafka 4.3.",
    "group.consumer.min.heartbeat.interval.ms": "The shortest heartbeat interval that a group may have.",
    "group.consumer.min.session.timeout.ms": "The shortest session timeout that a group may have.",
    "group.consumer.regex.refresh.interval.ms": "How long the topics found for a regular expression are kept.",
    "group.consumer.session.timeout.ms": "A member of a KIP-848 group that is silent for so long is expelled.",
    "group.initial.rebalance.delay.ms": "The first round of an empty group waits so long for more members.",
    "group.max.session.timeout.ms": "The longest session timeout that a member may ask for; else error 26.",
    "group.max.size": "How many members a classic group may have; others get error 81.",
    "group.min.session.timeout.ms": "The shortest session timeout that a member may ask for; else error 26.",
    "group.share.assignment.interval.ms": "How long a group waits between two assignments; since Kafka 4.3.",
    "group.share.delivery.count.limit": "A record of a share group that was delivered so often is not delivered again.",
    "group.share.heartbeat.interval.ms": "The heartbeat interval of members of a share group.",
    "group.share.max.assignment.interval.ms": "The longest assignment interval of a group; since Kafka 4.3.",
    "group.share.max.delivery.count.limit": "The highest delivery limit of a share group; since Kafka 4.3.",
    "group.share.max.heartbeat.interval.ms": "The longest heartbeat interval that a share group may have.",
    "group.share.max.partition.max.record.locks": "The most locks of a share group; since Kafka 4.3.",
    "group.share.max.record.lock.duration.ms": "The longest lock duration that a share group may have.",
    "group.share.max.session.timeout.ms": "The longest session timeout that a share group may have.",
    "group.share.max.share.sessions": "How many share sessions a broker remembers; others get error 133.",
    "group.share.max.size": "How many members a share group may have; others get error 81.",
    "group.share.min.assignment.interval.ms": "The shortest assignment interval of a group; since Kafka 4.3.",
    "group.share.min.delivery.count.limit": "The lowest delivery limit of a share group; since Kafka 4.3.",
    "group.share.min.heartbeat.interval.ms": "The shortest heartbeat interval that a share group may have.",
    "group.share.min.partition.max.record.locks": "The fewest locks of a share group; since Kafka 4.3.",
    "group.share.min.record.lock.duration.ms": "The shortest lock duration that a share group may have.",
    "group.share.min.session.timeout.ms": "The shortest session timeout that a share group may have.",
    "group.share.partition.max.record.locks": "How many records of a partition a share group has in flight.",
    "group.share.record.lock.duration.ms": "For how long a member of a share group has a record.",
    "group.share.session.timeout.ms": "A member of a share group that is silent for so long is expelled.",
    "group.streams.acceptable.recovery.lag": "How far a copy of a task may lag; since Kafka 4.4.",
    "group.streams.assignment.interval.ms": "How long a group waits between two assignments; since Kafka 4.3.",
    "group.streams.assignors": "Assignors of the broker for streams groups: only sticky; since Kafka 4.4.",
    "group.streams.heartbeat.interval.ms": "The heartbeat interval of members of a streams group.",
    "group.streams.initial.rebalance.delay.ms": "How long the first assignment of an Empty streams group waits for more"
    " members.",
    "group.streams.max.assignment.interval.ms": "The longest assignment interval of a group; since Kafka 4.3.",
    "group.streams.max.heartbeat.interval.ms": "The longest heartbeat interval that a streams group may have.",
    "group.streams.max.session.timeout.ms": "The longest session timeout that a streams group may have.",
    "group.streams.max.size": "How many members a streams group may have.",
    "group.streams.max.standby.replicas": "The most standbys of a task that a streams group may have.",
    "group.streams.min.assignment.interval.ms": "The shortest assignment interval of a group; since Kafka 4.3.",
    "group.streams.min.heartbeat.interval.ms": "The shortest heartbeat interval that a streams group may have.",
    "group.streams.min.session.timeout.ms": "The shortest session timeout that a streams group may have.",
    "group.streams.num.standby.replicas": "How many standbys of each task with state a streams group has.",
    "group.streams.rack.aware.assignment.tags": "Client tags of all members of streams groups; since 4.4.",
    "group.streams.session.timeout.ms": "A member of a streams group that is silent for so long is expelled.",
    "group.streams.task.offset.interval.ms": "How often members report offsets of tasks; since Kafka 4.4.",
    "group.streams.topology.description.plugin.class": "What keeps topology descriptions of streams groups; since 4.4.",
    "log.cleaner.backoff.ms": "How often logs that are to be compacted are looked for.",
    "log.cleaner.delete.retention.ms": "How long a tombstone stays in a compacted topic.",
    "log.cleaner.max.compaction.lag.ms": "A record of a compacted topic that is older is compacted in any case.",
    "log.cleaner.min.cleanable.ratio": "A log is compacted when so much of it is new.",
    "log.cleaner.min.compaction.lag.ms": "Records that are younger are not compacted.",
    "log.cleanup.policy": "Whether old records go (delete), or those with a newer one of their key (compact), or both.",
    "log.message.timestamp.after.max.ms": "A record may be so far ahead of the broker's clock; else error 32.",
    "log.message.timestamp.before.max.ms": "A record may be so far behind the broker's clock; else error 32.",
    "log.message.timestamp.type": "Whether records keep their own time or get that of the broker.",
    "log.retention.check.interval.ms": "How often records that are too old are looked for.",
    "log.retention.hours": "As log.retention.ms, in hours, where neither that nor log.retention.minutes is set.",
    "log.retention.minutes": "As log.retention.ms, in minutes, where that is not set.",
    "log.retention.bytes": "A log that is larger loses its oldest records; the memory of a log is bounded in any case.",
    "log.retention.ms": "Records that are older are deleted, a segment at a time; never if -1.",
    "log.roll.hours": "As log.roll.ms, in hours, where that is not set.",
    "log.roll.ms": "A segment with records so far apart is full: its records grow old together.",
    "log.segment.bytes": "A segment with so many bytes is full: its records grow old together.",
    "max.connection.creation.rate": "New connections to a broker in a second; further ones wait.",
    "max.connections": "Connections of a broker at most; further ones are not accepted before one ends.",
    "max.connections.per.ip": "Connections of one address to a broker at most; further ones are closed.",
    "max.connections.per.ip.overrides": "Other limits of single addresses, `ADDRESS:NUMBER`.",
    "max.incremental.fetch.session.cache.slots": "How many fetch sessions a broker remembers.",
    "message.max.bytes": "The largest batch of records that a topic takes; else error 10.",
    "num.partitions": "Partitions of a topic whose creator names no number.",
    "offset.metadata.max.bytes": "The longest metadata of a committed offset; else error 12.",
    "offsets.commit.timeout.ms": "An answer waits so long for the store, and is then error 15.",
    "offsets.retention.check.interval.ms": "How often expired offsets are looked for.",
    "offsets.retention.minutes": "Offsets of a group without members are kept for so long.",
    "offsets.topic.num.partitions": "Partitions of `__consumer_offsets`; a store keeps the number it began with.",
    "offsets.topic.replication.factor": "Replicas of `__consumer_offsets`, as clients see it.",
    "offsets.topic.segment.bytes": "Segment size of `__consumer_offsets`, as clients see it.",
    "quota.window.num": "Windows in which the rates of clients with quotas are measured.",
    "quota.window.size.seconds": "The length of such a window, and the longest throttle for a request percentage.",
    "transaction.max.timeout.ms": "The longest transaction timeout that a producer may ask for; else error 50.",
    "transactional.id.expiration.ms": "A transactional id that is not used for so long is forgotten.",
}
"""The effects of broker settings that have one here."""

TOPIC_MEANINGS: Final = {
    "cleanup.policy": "Whether old records go (delete), or those with a newer one of their key (compact), or both.",
    "delete.retention.ms": "How long a tombstone stays once a compacted log was cleaned.",
    "errors.deadletterqueue.group.enable": "Share groups may use the topic as their dead letter queue.",
    "max.compaction.lag.ms": "A record that is older is compacted in any case.",
    "min.cleanable.dirty.ratio": "A log is compacted when so much of it is new.",
    "min.compaction.lag.ms": "Records that are younger are not compacted.",
    "max.message.bytes": "The largest batch of records that the topic takes; else error 10.",
    "message.timestamp.after.max.ms": "A record may be so far ahead of the broker's clock; else error 32.",
    "message.timestamp.before.max.ms": "A record may be so far behind the broker's clock; else error 32.",
    "message.timestamp.type": "Whether records keep their own time or get that of the broker.",
    "retention.bytes": "A log that is larger loses its oldest records.",
    "retention.ms": "Records that are older are deleted, a segment at a time; never if -1.",
    "segment.bytes": "A segment with so many bytes is full: its records grow old together.",
    "segment.ms": "A segment with records so far apart is full: its records grow old together.",
}
"""The effects of topic settings that have one here."""

GROUP_MEANINGS: Final = {
    "consumer.assignment.interval.ms": "How long the group waits between two assignments; since Kafka 4.3.",
    "consumer.heartbeat.interval.ms": "The heartbeat interval of members of the group.",
    "consumer.session.timeout.ms": "A member of the group that is silent for so long is expelled.",
    "errors.deadletterqueue.copy.record.enable": "Dead letters have key and value of the record.",
    "errors.deadletterqueue.topic.name": "The topic for records that the share group never gets again.",
    "share.assignment.interval.ms": "How long the share group waits between two assignments; since Kafka 4.3.",
    "share.auto.offset.reset": "Where the share group begins: earliest, latest, or an age as by_duration:PT1H.",
    "share.delivery.count.limit": "A record that was delivered so often is not delivered again; since Kafka 4.3.",
    "share.heartbeat.interval.ms": "The heartbeat interval of members of the share group.",
    "share.isolation.level": "Whether the share group reads records of open and aborted transactions too.",
    "share.partition.max.record.locks": "How many records of a partition the group has in flight; since Kafka 4.3.",
    "share.record.lock.duration.ms": "For how long a member of the share group has a record.",
    "share.renew.acknowledge.enable": "Members may keep a record for longer by a renewal; since Kafka 4.3.",
    "share.session.timeout.ms": "A member of the share group that is silent for so long is expelled.",
    "streams.acceptable.recovery.lag": "How far a copy of a task may lag, as members are told; since Kafka 4.4.",
    "streams.assignment.interval.ms": "How long the streams group waits between two assignments; since Kafka 4.3.",
    "streams.assignor.name": "The assignor of the streams group.",
    "streams.heartbeat.interval.ms": "The heartbeat interval of members of the streams group.",
    "streams.initial.rebalance.delay.ms": "How long the first assignment of the Empty group waits for more members.",
    "streams.num.standby.replicas": "How many standbys each task with state has.",
    "streams.rack.aware.assignment.tags": "Client tags that each member of the streams group must have.",
    "streams.session.timeout.ms": "A member of the streams group that is silent for so long is expelled.",
    "streams.task.offset.interval.ms": "How often members report offsets of tasks; since Kafka 4.4.",
}
"""The effects of group settings that have one here."""

OTHERWISE: Final = "A setting of Apache Kafka that this coordinator keeps, and does not obey."


def meaning_of(setting: Setting) -> str:
    """Return one sentence about the effect of a setting here."""
    for meanings in (TOPIC_MEANINGS, GROUP_MEANINGS, MEANINGS):
        if setting.name in meanings:
            return meanings[setting.name]
    return OTHERWISE

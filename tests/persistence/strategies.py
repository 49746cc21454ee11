"""Hypothesis strategies for keys and values of `__consumer_offsets`."""

from hypothesis import strategies as st

from kafka_shim.persistence import records, streams_records

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
maybe_names = st.none() | names
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
blobs = st.binary(max_size=40)
uuids = st.binary(min_size=16, max_size=16)
assignments = st.lists(st.builds(records.TopicPartitions, uuids, st.lists(int32s, max_size=5)), max_size=3)

offset_keys = st.builds(records.OffsetCommitKey, names, names, int32s)
offset_values = st.builds(
    records.OffsetCommitValue,
    int64s,
    int32s,
    names,
    int64s,
    st.just(-1),
    st.just(records.NO_TOPIC_ID) | uuids,
)

members = st.builds(records.MemberMetadata, names, maybe_names, names, names, int32s, int32s, blobs, blobs)
classic_member = st.builds(
    records.ClassicMemberMetadata, int32s, st.lists(st.builds(records.ClassicProtocol, names, blobs), max_size=2)
)
topics = st.builds(
    records.TopicMetadata,
    uuids,
    names,
    int32s,
    st.lists(st.builds(records.PartitionMetadata, int32s, st.lists(names, max_size=2)), max_size=2),
)

target_tasks = st.lists(st.builds(streams_records.TargetTaskIds, names, st.lists(int32s, max_size=3)), max_size=2)
current_tasks = st.lists(
    st.builds(
        streams_records.CurrentTaskIds,
        names,
        st.lists(int32s, max_size=3),
        st.none() | st.lists(int32s, max_size=3),
    ),
    max_size=2,
)
internal_topics = st.lists(
    st.builds(
        streams_records.TopicInfo,
        names,
        int32s,
        st.integers(-1, 3),
        st.lists(st.builds(streams_records.TopicConfig, names, names), max_size=2),
    ),
    max_size=2,
)
indexes = st.lists(st.integers(0, 2**15 - 1), max_size=2)
subtopologies = st.builds(
    streams_records.Subtopology,
    names,
    st.lists(names, max_size=2),
    st.lists(names, max_size=2),
    internal_topics,
    st.lists(names, max_size=2),
    internal_topics,
    st.lists(st.builds(streams_records.CopartitionGroup, indexes, indexes, indexes), max_size=2),
)

assigned = st.lists(
    st.builds(
        records.AssignedTopicPartitions,
        st.binary(min_size=16, max_size=16),
        st.lists(int32s, max_size=3),
        st.none() | st.lists(int32s, max_size=3),
    ),
    max_size=2,
)
share_partitions = st.lists(
    st.builds(records.ShareTopicPartitions, st.binary(min_size=16, max_size=16), names, st.lists(int32s, max_size=3)),
    max_size=2,
)
pairs = st.one_of(
    st.tuples(offset_keys, offset_values),
    st.tuples(
        st.builds(records.GroupMetadataKey, names),
        st.builds(
            records.GroupMetadataValue,
            names,
            int32s,
            maybe_names,
            maybe_names,
            int64s,
            st.lists(members, max_size=3),
        ),
    ),
    st.tuples(
        st.builds(records.ConsumerGroupMetadataKey, names),
        st.builds(records.ConsumerGroupMetadataValue, int32s, int64s),
    ),
    st.tuples(
        st.builds(records.ConsumerGroupPartitionMetadataKey, names),
        st.builds(records.ConsumerGroupPartitionMetadataValue, st.lists(topics, max_size=2)),
    ),
    st.tuples(
        st.builds(records.ConsumerGroupMemberMetadataKey, names, names),
        st.builds(
            records.ConsumerGroupMemberMetadataValue,
            maybe_names,
            maybe_names,
            names,
            names,
            st.lists(names, max_size=3),
            maybe_names,
            int32s,
            maybe_names,
            st.none() | classic_member,
        ),
    ),
    st.tuples(
        st.builds(records.ConsumerGroupTargetAssignmentMetadataKey, names),
        st.builds(records.ConsumerGroupTargetAssignmentMetadataValue, int32s, int64s),
    ),
    st.tuples(
        st.builds(records.ConsumerGroupTargetAssignmentMemberKey, names, names),
        st.builds(records.ConsumerGroupTargetAssignmentMemberValue, assignments),
    ),
    st.tuples(
        st.builds(records.ConsumerGroupCurrentMemberAssignmentKey, names, names),
        st.builds(
            records.ConsumerGroupCurrentMemberAssignmentValue,
            int32s,
            int32s,
            st.integers(-128, 127),
            assigned,
            assigned,
        ),
    ),
    st.tuples(
        st.builds(records.ConsumerGroupRegularExpressionKey, names, names),
        st.builds(records.ConsumerGroupRegularExpressionValue, st.lists(names, max_size=3), int64s, int64s),
    ),
    st.tuples(
        st.builds(records.StreamsGroupMetadataKey, names),
        st.builds(
            records.StreamsGroupMetadataValue,
            int32s,
            int64s,
            int32s,
            st.none() | st.lists(st.builds(streams_records.AssignmentConfig, names, names), max_size=2),
        ),
    ),
    st.tuples(
        st.builds(records.StreamsGroupMemberMetadataKey, names, names),
        st.builds(
            records.StreamsGroupMemberMetadataValue,
            maybe_names,
            maybe_names,
            names,
            names,
            int32s,
            int32s,
            names,
            st.none() | st.builds(streams_records.StreamsEndpoint, names, st.integers(0, 65_535)),
            st.lists(st.builds(streams_records.ClientTag, names, names), max_size=2),
        ),
    ),
    st.tuples(
        st.builds(records.StreamsGroupTargetAssignmentMetadataKey, names),
        st.builds(records.StreamsGroupTargetAssignmentMetadataValue, int32s, int64s),
    ),
    st.tuples(
        st.builds(records.StreamsGroupTargetAssignmentMemberKey, names, names),
        st.builds(records.StreamsGroupTargetAssignmentMemberValue, target_tasks, target_tasks, target_tasks),
    ),
    st.tuples(
        st.builds(records.StreamsGroupCurrentMemberAssignmentKey, names, names),
        st.builds(
            records.StreamsGroupCurrentMemberAssignmentValue,
            int32s,
            int32s,
            st.integers(-128, 127),
            *([current_tasks] * 6),
        ),
    ),
    st.tuples(
        st.builds(records.StreamsGroupTopologyKey, names),
        st.builds(records.StreamsGroupTopologyValue, int32s, st.lists(subtopologies, max_size=2)),
    ),
    st.tuples(
        st.builds(records.ShareGroupMemberMetadataKey, names, names),
        st.builds(records.ShareGroupMemberMetadataValue, maybe_names, names, names, st.lists(names, max_size=3)),
    ),
    st.tuples(
        st.builds(records.ShareGroupMetadataKey, names), st.builds(records.ShareGroupMetadataValue, int32s, int64s)
    ),
    st.tuples(
        st.builds(records.ShareGroupTargetAssignmentMetadataKey, names),
        st.builds(records.ShareGroupTargetAssignmentMetadataValue, int32s, int64s),
    ),
    st.tuples(
        st.builds(records.ShareGroupTargetAssignmentMemberKey, names, names),
        st.builds(records.ShareGroupTargetAssignmentMemberValue, assignments),
    ),
    st.tuples(
        st.builds(records.ShareGroupCurrentMemberAssignmentKey, names, names),
        st.builds(records.ShareGroupCurrentMemberAssignmentValue, int32s, int32s, st.integers(-128, 127), assignments),
    ),
    st.tuples(
        st.builds(records.ShareGroupStatePartitionMetadataKey, names),
        st.builds(
            records.ShareGroupStatePartitionMetadataValue,
            share_partitions,
            share_partitions,
            st.lists(st.builds(records.ShareTopic, st.binary(min_size=16, max_size=16), names), max_size=2),
        ),
    ),
)
"""Records that brokers write."""

int16s = st.integers(-(2**15), 2**15 - 1)
own_pairs = st.one_of(
    st.tuples(
        st.builds(records.PendingOffsetKey, names, names, int32s, int64s),
        st.builds(records.PendingOffsetValue, int16s, int64s, offset_values),
    ),
    st.tuples(
        st.builds(records.TransactionKey, names),
        st.builds(
            records.TransactionValue,
            int64s,
            int64s,
            int64s,
            int16s,
            int32s,
            st.sampled_from([0, 1, 4, 5]),
            st.lists(st.builds(records.TransactionPartitions, names, st.lists(int32s, max_size=3)), max_size=2),
            int64s,
            int64s,
        ),
    ),
    st.tuples(st.builds(records.GroupOptionsKey, names), st.builds(records.GroupOptionsValue, st.booleans(), int32s)),
    st.tuples(st.builds(records.DocumentKey, names, names), st.builds(records.DocumentValue, st.binary(max_size=9))),
    st.tuples(
        st.builds(records.ShareGroupStartsKey, names),
        st.builds(
            records.ShareGroupStartsValue,
            st.lists(
                st.builds(records.ShareStart, st.binary(min_size=16, max_size=16), int32s, int32s, int64s), max_size=3
            ),
        ),
    ),
)
"""Records that only our stores have."""

stored_pairs = pairs | own_pairs

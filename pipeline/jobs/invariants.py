"""The invariants, as queries over the tables that return violations: rows of table `violations`.

I1 a partition has at most one owner in a generation or epoch; I2 generations only grow; I6 a client outside the group
never gets error 0 from Heartbeat, SyncGroup or a commit with a generation; I7 there is one leader per generation, and
only it gets the members; I8 a fenced id never succeeds again; I9 every rebalance has exactly one cause; I11 a committed
offset changes only by an accepted commit, expiry or deletion.

Only proof counts as a violation. A member from before the beginning of the trace counts as a member, and a request is
judged only if the group did not change while the request was under way.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.schemas import EPOCH_HEARTBEATS
from kafka_shim.pipeline.tables.columns import LAST_SECOND, conform, counted, in_order, keyed
from kafka_shim.pipeline.tables.lives import HISTORY, in_turn
from kafka_shim.pipeline.tables.partitions import assigned, generations
from kafka_shim.trace.causes import Cause

_GROUP = ("trace", "group_id")
_MEMBER = ("group_id", "member_id")
_OFFSET = (*_GROUP, "topic", "partition")
_STAYS: Final = "array<struct<joined_at: timestamp, left_at: timestamp, how: string, trace: string, last_run: string>>"
_RECENT_COMMITS: Final = 16
"""How many commits before a fetch to compare with it; a commit is durable before that many others follow."""


def violations(
    events: DataFrame,
    requests: DataFrame,
    commits: DataFrame,
    renewals: DataFrame,
    membership: DataFrame,
    history: DataFrame,
    ownership: DataFrame,
    deletions: DataFrame,
) -> DataFrame:
    """Build table `violations`.

    `events`, which are placed (`kafka_shim.pipeline.tables.lives`), and `requests` are those of groups that change;
    `commits` and `renewals` are the rest of these two tables (`kafka_shim.pipeline.schemas.STEADY`); `history` is table
    `offset_history`; `deletions` are those of topics.
    """
    checks = [
        one_owner(events),
        one_owner_at_a_time(ownership),
        generations_grow(events),
        strangers(events, requests.unionByName(renewals), commits, membership),
        one_leader(events, requests),
        one_cause(events),
        silent_changes(events, requests, history, deletions),
    ]
    return reduce(DataFrame.unionByName, checks)


def _violations(frame: DataFrame, invariant: str, subject: str, detail: str) -> DataFrame:
    """Shape rows as violations; `subject` and `detail` are SQL expressions."""
    columns = {"invariant": F.lit(invariant), "subject": F.expr(subject), "detail": F.expr(detail)}
    return conform(keyed(frame.withColumns(columns)), "violations")


def one_owner(events: DataFrame) -> DataFrame:
    """Check I1 for classic groups: an assignment gives each partition to one member."""
    owners = (
        assigned(generations(events))
        .groupBy(*_GROUP, "seq", "happened_at", "generation", "topic", "partition")
        .agg(F.sort_array(F.collect_list("member_id")).alias("owners"))
        .where(F.size("owners") > 1)
    )
    return _violations(
        owners,
        "I1",
        "concat(topic, '-', partition)",
        "concat('generation ', generation, ' gives it to ', array_join(owners, ' and '))",
    )


def one_owner_at_a_time(ownership: DataFrame) -> DataFrame:
    """Check I1 for groups with epochs: a member gets a partition only after the owner before has given it up.

    Share groups are exempt, because their members share partitions.
    """
    order = Window.partitionBy(*HISTORY, "topic", "partition").orderBy("owned_from", "owned_until")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    until = F.struct(F.coalesce("owned_until", F.timestamp_seconds(F.lit(LAST_SECOND))).alias("until"), "member_id")
    owned = ownership.where("kind in ('consumer', 'streams')").withColumn("before", F.max(until).over(earlier))
    both = owned.where("before.until > owned_from and before.member_id != member_id")
    overlaps = both.withColumns({"happened_at": F.col("owned_from"), "seq": F.lit(None).cast("bigint")})
    return _violations(
        overlaps,
        "I1",
        "concat(topic, '-', partition)",
        "concat('epoch ', from_generation, ' gives it to ', member_id, ', ', before.member_id, ' still has it')",
    )


def generations_grow(events: DataFrame) -> DataFrame:
    """Check I2 in placed events. A group that was deleted or expired may begin again, and a loaded group goes on from
    the generation that was durable."""
    relevant = events.where(
        "event in ('round', 'epoch') or (event = 'group' and change in ('deleted', 'expired', 'created', 'loaded'))"
    )
    life = relevant.withColumn("life", F.sum((F.col("event") == "group").cast("int")).over(in_turn(*HISTORY)))
    before = F.lag("generation").over(in_turn(*HISTORY, "life"))
    back = life.where("event != 'group'").withColumn("before", before).where("generation <= before")
    return _violations(back, "I2", "cast(generation as string)", "concat('after generation ', before)")


def strangers(events: DataFrame, requests: DataFrame, commits: DataFrame, membership: DataFrame) -> DataFrame:
    """Check I6 and I8. `commits` are events, not table `commits`."""
    # In the other kinds of groups, a heartbeat with an epoch above 0 comes from a member.
    beats = F.col("api").isin(*EPOCH_HEARTBEATS) & (F.col("generation") > 0)
    of_members = F.col("api").isin("Heartbeat", "SyncGroup", "JoinGroup") | beats
    answered = requests.where((F.col("error") == 0) & of_members).select(
        "trace", *_MEMBER, "seq", "happened_at", "arrived_at", "api"
    )
    committed = commits.where("event = 'commit' and error = 0 and generation >= 0 and member_id != ''").select(
        "trace",
        *_MEMBER,
        "seq",
        "happened_at",
        F.col("happened_at").alias("arrived_at"),
        F.lit("OffsetCommit").alias("api"),
    )
    judged = answered.unionByName(committed)
    stay = F.struct("joined_at", "left_at", "how", "trace", "last_run")
    stays = membership.groupBy(*_MEMBER).agg(
        F.array_sort(F.collect_list(stay)).alias("stays"),
        F.min("joined_at").alias("joined_at"),
        F.max(F.coalesce("left_at", F.timestamp_seconds(F.lit(LAST_SECOND)))).alias("left_at"),
    )
    # For nearly all members, the first and the last request prove that there is no violation; only the requests of the
    # other members are examined one by one.
    doubted = (
        judged.groupBy(*_MEMBER)
        .agg(
            F.max("arrived_at").alias("last_arrived"),
            F.min(F.when(F.col("api") != "JoinGroup", F.col("happened_at"))).alias("first_at"),
        )
        .join(stays, [*_MEMBER], "left")
        .where("stays is null or size(stays) > 1 or left_at < last_arrived or joined_at > first_at")
        .select(*_MEMBER, F.coalesce("stays", F.array().cast(_STAYS)).alias("stays"))
    )
    whole = (
        events.where("event = 'group'")
        .groupBy(*_GROUP)
        .agg(F.max(F.col("change") == "created").alias("created"), F.max(F.col("change") == "loaded").alias("loaded"))
        .where("created and not loaded")
        .select(*_GROUP, F.lit(True).alias("whole"))
    )
    # Clocks of several runs may differ: a stay that began in another run proves nothing, nor does an end there.
    is_member = F.expr(
        "exists(stays, each -> each.trace != trace or (coalesce(each.joined_at <= happened_at, true)"
        " and (each.last_run != trace or coalesce(each.left_at >= arrived_at, true))))"
    )
    past = F.expr("try_element_at(filter(stays, each -> each.left_at < arrived_at and each.last_run = trace), -1)")
    judged = (
        judged.join(counted(doubted), [*_MEMBER])
        .where(~is_member)
        .withColumn("past", past)
        .join(whole, [*_GROUP], "left")
    )
    after_leaving = F.expr("past is not null and (past.how = 'fenced' or api != 'JoinGroup')")
    # By JoinGroup a stranger may become a member, unless it was fenced.
    early = F.expr("past is null and api != 'JoinGroup' and (size(stays) > 0 or whole)")
    suspects = judged.withColumns(
        {
            "invariant": F.when(after_leaving & (F.col("past.how") == "fenced"), "I8").when(
                after_leaving | early, "I6"
            ),
            "detail": F.when(
                after_leaving, F.expr("concat(api, ' succeeded, ', past.how, ' at ', past.left_at)")
            ).otherwise(F.expr("concat(api, ' succeeded, never joined')")),
            "subject": F.col("member_id"),
        }
    ).where("invariant is not null")
    return conform(keyed(suspects), "violations")


def one_leader(events: DataFrame, requests: DataFrame) -> DataFrame:
    """Check I7. The leader may be replaced under its instance id within a generation."""
    joined = requests.where("api = 'JoinGroup' and error = 0").select(
        *_GROUP,
        "seq",
        "happened_at",
        "generation",
        "member_id",
        F.col("leader").alias("named"),
        "members",
        F.lit("join").alias("kind"),
    )
    nothing = F.lit(None)
    # A group with epochs has no leader: its epochs end the round before.
    decided = events.where("event in ('round', 'epoch') or (event = 'member' and change = 'replaced')").select(
        *_GROUP,
        "seq",
        "happened_at",
        "generation",
        "member_id",
        F.when(F.col("event") == "round", F.col("leader")).alias("named"),
        nothing.cast("array<string>").alias("members"),
        F.col("event").alias("kind"),
    )
    order = in_order(*_GROUP)
    both = joined.unionByName(decided).withColumn(
        "round", F.sum(F.col("kind").isin("round", "epoch").cast("int")).over(order)
    )
    within = Window.partitionBy(*_GROUP, "round").orderBy("seq")
    decided_leader = F.first(F.when(F.col("kind") == "round", F.col("named")), ignorenulls=True).over(within)
    both = both.withColumn("leader", decided_leader)
    newcomers = both.where("kind = 'member'").select(
        *_GROUP, "round", F.col("member_id").alias("named"), F.col("seq").alias("since")
    )
    first_of = newcomers.groupBy(*_GROUP, "round", "named").agg(F.min("since").alias("since"))
    both = both.where("kind = 'join' and leader is not null")
    wrong_leader = (
        both.where("named != leader")
        .join(first_of, [*_GROUP, "round", "named"], "left")
        .where("since is null or since > seq")
    )
    wrong_members = both.where("named = leader and member_id != named and size(members) > 0")
    return _violations(
        wrong_leader,
        "I7",
        "member_id",
        "concat('is told that ', named, ' leads generation ', generation, ', not ', leader)",
    ).unionByName(
        _violations(wrong_members, "I7", "member_id", "concat('gets the members of generation ', generation)")
    )


def one_cause(events: DataFrame) -> DataFrame:
    """Check I9."""
    # A relay only infers causes, so its trace proves nothing about the coordinator.
    events = events.where("not coalesce(inferred, false) and event in ('round', 'epoch', 'state')")
    announced = F.last(
        F.when((F.col("event") == "state") & (F.col("to_state") == "PreparingRebalance"), F.col("cause")),
        ignorenulls=True,
    ).over(in_order(*_GROUP))
    rounds = events.withColumn("announced", announced).where("event != 'state'")
    is_known = F.coalesce(F.col("cause").isin(*Cause), F.lit(False))
    rounds = rounds.withColumn("is_known", is_known).where("not is_known or (event = 'round' and announced != cause)")
    return _violations(
        rounds,
        "I9",
        "cast(generation as string)",
        "if(is_known, concat('began as ', announced, ', ended as ', cause),"
        " concat('cause ', coalesce(nullif(cause, ''), 'missing')))",
    )


def silent_changes(events: DataFrame, requests: DataFrame, history: DataFrame, deletions: DataFrame) -> DataFrame:
    """Check I11: OffsetFetch must answer the last committed offset, or one committed while the fetch was under way.

    Groups with transactional commits are left out: the trace has their commits before they take effect. So are groups
    and topics that were deleted, because the trace does not list the offsets that went with them. The history confirms
    nearly all answers; only the partitions of the others are examined in the order of the trace.
    """
    fetched = requests.where("api = 'OffsetFetch' and error = 0").select(
        *_GROUP, "seq", "happened_at", "arrived_at", F.lit("fetch").alias("event"), F.explode("offsets").alias("each")
    )
    fetched = fetched.where("coalesce(each.error, 0) = 0").select(
        *_GROUP,
        "seq",
        "happened_at",
        "arrived_at",
        "event",
        "each.topic",
        "each.partition",
        F.col("each.offset").alias("committed_offset"),
    )
    transactional = requests.where("api = 'TxnOffsetCommit'").select(*_GROUP).distinct()
    ended = events.where("event = 'group' and change in ('deleted', 'expired')").select(*_GROUP).distinct()
    fetched = fetched.join(transactional, [*_GROUP], "left_anti").join(ended, [*_GROUP], "left_anti")
    fetched = fetched.join(F.broadcast(deletions), "topic", "left_anti")
    doubted = _unconfirmed(events, fetched, history)
    changes = history.where("source = 'trace'").select(
        *(F.col("origin").alias("trace"), "group_id", F.col("position").alias("seq"), "happened_at"),
        *(F.lit(None).cast("timestamp").alias("arrived_at"), F.col("what").alias("event")),
        *("topic", "partition", "committed_offset"),
    )
    return _changed_silently(events, changes.unionByName(fetched).join(doubted, [*_OFFSET], "left_semi"))


def _unconfirmed(events: DataFrame, fetched: DataFrame, history: DataFrame) -> DataFrame:
    """Return the partitions with an answer that the history does not confirm: (trace, group, topic, partition), each
    once.

    An offset was the committed one from each change to it until the next change of the partition. It was so at some
    time between arrival and answer of the fetch if the number of such intervals begun before the answer exceeds the
    number ended before the arrival. No commit counts as -1, as in OffsetFetch. The history is in order of time, which
    several clocks disagree on; so groups that moved between traces are always examined.
    """
    key = ("group_id", "topic", "partition")
    moving = events.where("event = 'group'").groupBy("group_id").agg(F.count_distinct("trace").alias("traces"))
    moving = moving.where("traces > 1").select("group_id", F.lit(True).alias("moves"))
    answers = fetched.select(*_OFFSET, "seq", "committed_offset", "happened_at", "arrived_at")
    # Each change ends an interval of the old offset and begins one of the new.
    changes = history.where("source = 'trace'").select(
        *(*key, F.col("happened_at").alias("time")),
        F.expr(
            "stack(2, 'begins', coalesce(committed_offset, -1L), 'ends', coalesce(previous, -1L))"
            " as (what, committed_offset)"
        ),
    )
    changes = changes.join(answers.select(*key, "committed_offset").distinct(), [*key, "committed_offset"], "left_semi")
    # One pass counts both: intervals begun up to the answer, and intervals ended before the arrival.
    times = answers.select(
        *_OFFSET,
        "seq",
        "committed_offset",
        F.expr("stack(2, 'arrived', arrived_at, 'answered', happened_at) as (what, time)"),
    )
    both = times.unionByName(changes, allowMissingColumns=True)
    # Order at equal times: arrivals, then ends and begins, then answers.
    turn = F.expr("case what when 'arrived' then 0 when 'answered' then 2 else 1 end")
    order = Window.partitionBy(*key, "committed_offset").orderBy("time", turn).rowsBetween(Window.unboundedPreceding, 0)
    begun_count = F.count(F.when(F.col("what") == "begins", 1)).over(order)
    ended = F.count(F.when(F.col("what") == "ends", 1)).over(order)
    counts = F.when(F.col("what") == "answered", begun_count).when(F.col("what") == "arrived", -ended)
    return (
        both.withColumn("counts", counts)
        .where("counts is not null")
        .groupBy(*_OFFSET, "seq", "committed_offset")
        .agg(F.sum("counts").alias("counts"))
        # Before its first change a partition has no commit, which is an interval of -1.
        .withColumn("counts", F.col("counts") + (F.col("committed_offset") == -1).cast("int"))
        .join(moving, "group_id", "left")
        .where("counts <= 0 or moves")
        .select(*_OFFSET)
        .distinct()
    )


def _changed_silently(events: DataFrame, changes: DataFrame) -> DataFrame:
    """Return the violations among these changes and fetches, in the order of the trace."""
    whole = (
        events.where("event = 'group' and change in ('created', 'loaded')")
        .groupBy(*_GROUP)
        .agg(F.min_by("change", "seq").alias("first_change"))
    )
    recent = Window.partitionBy(*_OFFSET).orderBy("seq").rowsBetween(-_RECENT_COMMITS, -1)
    value = F.when(F.col("event") == "commit", F.col("committed_offset")).otherwise(F.lit(-1))
    change = F.when(F.col("event") != "fetch", F.struct("happened_at", value.alias("committed_offset")))
    seen = changes.withColumn("recent", F.collect_list(change).over(recent)).where("event = 'fetch'")
    seen = seen.join(whole, [*_GROUP], "left")
    last_before = F.expr("element_at(filter(recent, each -> each.happened_at < arrived_at), -1).committed_offset")
    seen = seen.withColumns(
        {
            "last_before": F.when(
                F.size(F.expr("filter(recent, each -> each.happened_at < arrived_at)")) > 0, last_before
            ),
            "meanwhile": F.expr(
                "transform(filter(recent, each -> each.happened_at >= arrived_at), each -> each.committed_offset)"
            ),
        }
    )
    # Without any earlier commit, nothing is committed; this needs a trace of the whole life of the group.
    seen = seen.withColumn(
        "expected",
        F.coalesce("last_before", F.when(F.col("first_change") == "created", F.lit(-1).cast("bigint"))),
    )
    wrong = seen.where(
        "expected is not null and committed_offset != expected and not array_contains(meanwhile, committed_offset)"
    )
    return _violations(
        wrong, "I11", "concat(topic, '-', partition)", "concat('is ', committed_offset, ', committed was ', expected)"
    )

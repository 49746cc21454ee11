"""The invariants as queries over the tables: rows of table `violations`, none if all is well.

I1 a partition has at most one owner in a generation or epoch; I2 generations only grow; I6 who is not in the group
never gets error 0 from Heartbeat, SyncGroup or a commit with a generation; I7 one leader per generation, it alone gets
the members; I8 a fenced id never succeeds again; I9 every rebalance has exactly one cause; I11 a committed offset
changes only by an accepted commit, expiry or deletion.

What a trace cannot prove is no violation: a member that was there before the trace began is taken for a member, and a
request is judged against the group only if the group did not change while the request was under way.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_shim.pipeline.schemas import EPOCH_HEARTBEATS
from kafka_shim.pipeline.tables.columns import LAST_SECOND, conform, counted, in_order, keyed
from kafka_shim.pipeline.tables.partitions import assigned, generations

CAUSES: Final = (
    "NEW_MEMBER",
    "MEMBER_LEFT",
    "SESSION_EXPIRED",
    "REBALANCE_TIMEOUT",
    "POLL_TIMEOUT_REASON",
    "SUBSCRIPTION_CHANGED",
    "LEADER_REJOINED",
    "STATIC_REPLACED",
    "PENDING_SYNC_EXPIRED",
    "TOPIC_METADATA_CHANGED",
    "ADMIN_REMOVED",
    "COORDINATOR_RELOADED",
    "ASSIGNMENT_WRITE_FAILED",
    "COOPERATIVE_FOLLOWUP",
    "PROTOCOL_CHANGED",
)
"""The closed set of causes, as `docs/trace.md` lists it."""

_GROUP = ("trace", "group")
_MEMBER = ("trace", "group", "member_id")
_OFFSET = (*_GROUP, "topic", "partition")
_REMEMBERED: Final = 16
"""How many commits before a fetch it may have seen; commits take no longer to be durable than that."""


def violations(
    events: DataFrame,
    requests: DataFrame,
    commits: DataFrame,
    renewals: DataFrame,
    membership: DataFrame,
    history: DataFrame,
    ownership: DataFrame,
) -> DataFrame:
    """Table `violations`. `events` and `requests` are those of groups that change, `commits` and `renewals` the rest
    of the two tables (`kafka_shim.pipeline.schemas.STEADY`); `history` is table `offset_history`."""
    found = [
        one_owner(events),
        one_owner_at_a_time(ownership),
        generations_grow(events),
        strangers(events, requests.unionByName(renewals), commits, membership),
        one_leader(events, requests),
        one_cause(events),
        silent_changes(events, requests, history),
    ]
    return reduce(DataFrame.unionByName, found)


def _violations(frame: DataFrame, invariant: str, subject: str, detail: str) -> DataFrame:
    """`subject` and `detail` are SQL expressions."""
    columns = {"invariant": F.lit(invariant), "subject": F.expr(subject), "detail": F.expr(detail)}
    return conform(keyed(frame.withColumns(columns)), "violations")


def one_owner(events: DataFrame) -> DataFrame:
    """I1."""
    owners = (
        assigned(generations(events))
        .groupBy(*_GROUP, "seq", "at", "generation", "topic", "partition")
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
    """I1, of the other kinds of groups: nobody gets a partition before the one that had it has given it up. Members of
    a share group share theirs."""
    order = Window.partitionBy(*_GROUP, "topic", "partition").orderBy("owned_from", "owned_until")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    until = F.struct(F.coalesce("owned_until", F.timestamp_seconds(F.lit(LAST_SECOND))).alias("until"), "member_id")
    owned = ownership.where("kind in ('consumer', 'streams')").withColumn("before", F.max(until).over(earlier))
    both = owned.where("before.until > owned_from and before.member_id != member_id")
    named = both.withColumns({"at": F.col("owned_from"), "seq": F.lit(None).cast("bigint")})
    return _violations(
        named,
        "I1",
        "concat(topic, '-', partition)",
        "concat('epoch ', from_generation, ' gives it to ', member_id, ', ', before.member_id, ' has it still')",
    )


def generations_grow(events: DataFrame) -> DataFrame:
    """I2. A group that was deleted or expired may begin again."""
    order = in_order(*_GROUP)
    relevant = events.where(
        "event in ('round', 'epoch') or (event = 'group' and change in ('deleted', 'expired', 'created'))"
    )
    life = relevant.withColumn("life", F.sum((F.col("event") == "group").cast("int")).over(order))
    before = F.lag("generation").over(Window.partitionBy(*_GROUP, "life").orderBy("seq"))
    back = life.where("event != 'group'").withColumn("before", before).where("generation <= before")
    return _violations(back, "I2", "cast(generation as string)", "concat('after generation ', before)")


def strangers(events: DataFrame, requests: DataFrame, commits: DataFrame, membership: DataFrame) -> DataFrame:
    """I6 and I8. `commits` are the events, not the table."""
    # Of the other kinds of groups, heartbeats with an epoch above 0 are those of a member.
    beats = F.col("api").isin(*EPOCH_HEARTBEATS) & (F.col("generation") > 0)
    of_members = F.col("api").isin("Heartbeat", "SyncGroup", "JoinGroup") | beats
    answered = requests.where((F.col("error") == 0) & of_members).select(*_MEMBER, "seq", "at", "arrived_at", "api")
    committed = commits.where("event = 'commit' and error = 0 and generation >= 0 and member_id != ''").select(
        *_MEMBER, "seq", "at", F.col("at").alias("arrived_at"), F.lit("OffsetCommit").alias("api")
    )
    judged = answered.unionByName(committed)
    stays = membership.select(*_MEMBER, "joined_at", "left_at", "how")
    # Nearly all members are above doubt, which their first and their last request say: the requests of the others only
    # are looked at one by one.
    doubted = (
        judged.groupBy(*_MEMBER)
        .agg(
            F.max("arrived_at").alias("last_arrived"),
            F.min(F.when(F.col("api") != "JoinGroup", F.col("at"))).alias("first_at"),
        )
        .join(stays, [*_MEMBER], "left")
        .where("left_at < last_arrived or (joined_at is null and left_at is null) or joined_at > first_at")
        .select(*_MEMBER, "joined_at", "left_at", "how")
    )
    whole = (
        events.where("event = 'group'")
        .groupBy(*_GROUP)
        .agg(F.max(F.col("change") == "created").alias("created"), F.max(F.col("change") == "loaded").alias("loaded"))
        .where("created and not loaded")
        .select(*_GROUP, F.lit(True).alias("whole"))
    )
    # A JoinGroup is how a stranger becomes a member, but for one that was fenced.
    gone = F.expr("left_at < arrived_at and (how = 'fenced' or api != 'JoinGroup')")
    unknown = F.expr("joined_at is null and left_at is null and api != 'JoinGroup'")
    early = F.expr("joined_at > at and api != 'JoinGroup'")
    judged = judged.join(counted(doubted), [*_MEMBER]).where(gone | unknown | early).join(whole, [*_GROUP], "left")
    never = unknown & F.col("whole")
    found = judged.withColumns(
        {
            "invariant": F.when(gone & (F.col("how") == "fenced"), "I8").when(gone | never | early, "I6"),
            "detail": F.when(gone, F.expr("concat(api, ' succeeded, ', how, ' at ', left_at)")).otherwise(
                F.expr("concat(api, ' succeeded, never joined')")
            ),
            "subject": F.col("member_id"),
        }
    ).where("invariant is not null")
    return conform(keyed(found), "violations")


def one_leader(events: DataFrame, requests: DataFrame) -> DataFrame:
    """I7. The leader may be replaced under its instance id while the generation lasts."""
    joined = requests.where("api = 'JoinGroup' and error = 0").select(
        *_GROUP,
        "seq",
        "at",
        "generation",
        "member_id",
        F.col("leader").alias("named"),
        "members",
        F.lit("join").alias("kind"),
    )
    nothing = F.lit(None)
    decided = events.where("event = 'round' or (event = 'member' and change = 'replaced')").select(
        *_GROUP,
        "seq",
        "at",
        "generation",
        "member_id",
        F.when(F.col("event") == "round", F.col("leader")).alias("named"),
        nothing.cast("array<string>").alias("members"),
        F.col("event").alias("kind"),
    )
    order = in_order(*_GROUP)
    both = joined.unionByName(decided).withColumn("round", F.sum((F.col("kind") == "round").cast("int")).over(order))
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
        "concat('hears that ', named, ' leads generation ', generation, ', not ', leader)",
    ).unionByName(
        _violations(wrong_members, "I7", "member_id", "concat('gets the members of generation ', generation)")
    )


def one_cause(events: DataFrame) -> DataFrame:
    """I9."""
    # What a relay concludes says nothing of what the coordinator knew.
    events = events.where("not coalesce(inferred, false) and event in ('round', 'epoch', 'state')")
    announced = F.last(
        F.when((F.col("event") == "state") & (F.col("to") == "PreparingRebalance"), F.col("cause")), ignorenulls=True
    ).over(in_order(*_GROUP))
    rounds = events.withColumn("announced", announced).where("event != 'state'")
    is_known = F.coalesce(F.col("cause").isin(*CAUSES), F.lit(False))
    rounds = rounds.withColumn("is_known", is_known).where("not is_known or (event = 'round' and announced != cause)")
    return _violations(
        rounds,
        "I9",
        "cast(generation as string)",
        "if(is_known, concat('began as ', announced, ', ended as ', cause),"
        " concat('cause ', coalesce(nullif(cause, ''), 'missing')))",
    )


def silent_changes(events: DataFrame, requests: DataFrame, history: DataFrame) -> DataFrame:
    """I11. What OffsetFetch answers must be what was committed last, or something committed while it was under way.

    Groups that commit in transactions are left out: their commits show in the trace before they count. Nearly all
    answers are what the history says; only the partitions of the others are gone through in the order of the trace.
    """
    fetched = requests.where("api = 'OffsetFetch' and error = 0").select(
        *_GROUP, "seq", "at", "arrived_at", F.lit("fetch").alias("event"), F.explode("offsets").alias("each")
    )
    fetched = fetched.where("coalesce(each.error, 0) = 0").select(
        *_GROUP, "seq", "at", "arrived_at", "event", "each.topic", "each.partition", "each.offset"
    )
    transactional = requests.where("api = 'TxnOffsetCommit'").select(*_GROUP).distinct()
    ended = events.where("event = 'group' and change in ('deleted', 'expired')").select(*_GROUP).distinct()
    fetched = fetched.join(transactional, [*_GROUP], "left_anti").join(ended, [*_GROUP], "left_anti")
    doubted = _doubted(events, fetched, history)
    moved = history.where("source = 'trace'").select(
        *(F.col("origin").alias("trace"), "group", F.col("position").alias("seq"), "at"),
        *(F.lit(None).cast("timestamp").alias("arrived_at"), F.col("what").alias("event")),
        *("topic", "partition", "offset"),
    )
    return _changed_silently(events, moved.unionByName(fetched).join(doubted, [*_OFFSET], "left_semi"))


def _doubted(events: DataFrame, fetched: DataFrame, history: DataFrame) -> DataFrame:
    """The partitions with an answer that the history does not bear out: (trace, group, topic, partition), each once.

    An offset was the committed one from each change to it until the next change of the partition. That it was at some
    time between arrival and answer of the fetch is so if more such times began before the answer than ended before the
    arrival. Nothing committed counts as -1, as OffsetFetch has it. The history goes by the clock, and groups that went
    from one trace to another by several clocks, so these are always doubted.
    """
    key = ("group", "topic", "partition")
    moving = events.where("event = 'group'").groupBy("group").agg(F.count_distinct("trace").alias("traces"))
    moving = moving.where("traces > 1").select("group", F.lit(True).alias("moves"))
    answers = fetched.select(*_OFFSET, "seq", "offset", "at", "arrived_at")
    # Each change ends what was and begins what is.
    changes = history.where("source = 'trace'").select(
        *(*key, F.col("at").alias("time")),
        F.expr("stack(2, 'begins', coalesce(offset, -1L), 'ends', coalesce(previous, -1L)) as (what, offset)"),
    )
    changes = changes.join(answers.select(*key, "offset").distinct(), [*key, "offset"], "left_semi")
    # An answer asks how many began until it was given, its arrival how many ended before; one pass counts both.
    times = answers.select(
        *_OFFSET, "seq", "offset", F.expr("stack(2, 'arrived', arrived_at, 'answered', at) as (what, time)")
    )
    both = times.unionByName(changes, allowMissingColumns=True)
    # Of what is at the same time: what ends then had not ended before, and what begins then had begun.
    turn = F.expr("case what when 'arrived' then 0 when 'answered' then 2 else 1 end")
    order = Window.partitionBy(*key, "offset").orderBy("time", turn).rowsBetween(Window.unboundedPreceding, 0)
    begun = F.count(F.when(F.col("what") == "begins", 1)).over(order)
    ended = F.count(F.when(F.col("what") == "ends", 1)).over(order)
    counts = F.when(F.col("what") == "answered", begun).when(F.col("what") == "arrived", -ended)
    return (
        both.withColumn("counts", counts)
        .where("counts is not null")
        .groupBy(*_OFFSET, "seq", "offset")
        .agg(F.sum("counts").alias("counts"))
        # Before the first change there was nothing.
        .withColumn("counts", F.col("counts") + (F.col("offset") == -1).cast("int"))
        .join(moving, "group", "left")
        .where("counts <= 0 or moves")
        .select(*_OFFSET)
        .distinct()
    )


def _changed_silently(events: DataFrame, changes: DataFrame) -> DataFrame:
    """The violations among these changes and fetches, gone through in the order of the trace."""
    whole = (
        events.where("event = 'group' and change in ('created', 'loaded')")
        .groupBy(*_GROUP)
        .agg(F.min_by("change", "seq").alias("first_change"))
    )
    recent = Window.partitionBy(*_OFFSET).orderBy("seq").rowsBetween(-_REMEMBERED, -1)
    value = F.when(F.col("event") == "commit", F.col("offset")).otherwise(F.lit(-1))
    change = F.when(F.col("event") != "fetch", F.struct("at", value.alias("offset")))
    seen = changes.withColumn("recent", F.collect_list(change).over(recent)).where("event = 'fetch'")
    seen = seen.join(whole, [*_GROUP], "left")
    last_before = F.expr("element_at(filter(recent, each -> each.at < arrived_at), -1).offset")
    seen = seen.withColumns(
        {
            "last_before": F.when(F.size(F.expr("filter(recent, each -> each.at < arrived_at)")) > 0, last_before),
            "meanwhile": F.expr("transform(filter(recent, each -> each.at >= arrived_at), each -> each.offset)"),
        }
    )
    # Nothing was ever committed, and the trace has all of the group's life.
    seen = seen.withColumn(
        "expected",
        F.coalesce("last_before", F.when(F.col("first_change") == "created", F.lit(-1).cast("bigint"))),
    )
    wrong = seen.where("expected is not null and offset != expected and not array_contains(meanwhile, offset)")
    return _violations(
        wrong, "I11", "concat(topic, '-', partition)", "concat('is ', offset, ', committed was ', expected)"
    )

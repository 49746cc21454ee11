"""Jobs about members: how close they come to session expiry, and their descriptions of topologies."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_shim.pipeline.schemas import STEADY_APIS
from kafka_shim.pipeline.tables.columns import hashes, in_one_part, in_order, ms_between, of_log

NEAR: Final = 0.7
"""A gap of this share of the session timeout is a near miss; consumers heartbeat every fifteenth to third of it."""
_DESCRIBES: Final = "StreamsGroupTopologyDescriptionUpdate"


def heartbeat_gaps(requests: DataFrame) -> DataFrame:
    """Return a row per member: the gaps between requests that renew its session, against its session timeout.

    `sounds` (number of such requests), median, 99th percentile and longest gap in ms, the session timeout, `share` of
    the longest gap in it, and `near_miss`, whether that share is at least `NEAR`.

    A gap is from the answer of one request to the arrival of the next: while a JoinGroup is parked, the coordinator
    waits and the member is not silent. Logs lack the heartbeats between, so members that only logs know have no row.
    """
    renewing = requests.where(
        F.col("member_id").isNotNull()
        & ~of_log()
        & F.col("api").isin("JoinGroup", "SyncGroup", *STEADY_APIS)
        & F.col("error").isin(0, 27)
    ).select("trace", "group_id", "member_id", "client_id", "seq", "happened_at", "arrived_at", "session_timeout_ms")
    key = ("trace", "group_id", "member_id")
    alike = hashes(*key)
    before = F.lag("happened_at").over(in_order(*alike))
    gaps = (
        renewing.withColumns(alike)
        .withColumn("gap_ms", F.greatest(F.lit(0.0), ms_between(before, F.col("arrived_at"))))
        .groupBy(*alike)
        .agg(
            *(F.first(name).alias(name) for name in key),
            F.max("client_id").alias("client_id"),
            F.count("*").alias("sounds"),
            F.percentile_approx("gap_ms", [0.5, 0.99]).alias("shares"),
            F.max("gap_ms").alias("longest_ms"),
            F.max_by("happened_at", "gap_ms").alias("longest_at"),
            F.max("session_timeout_ms").alias("session_timeout_ms"),
        )
        .select(
            *("trace", "group_id", "member_id", "client_id", "sounds"),
            F.col("shares")[0].alias("median_ms"),
            F.col("shares")[1].alias("p99_ms"),
            *("longest_ms", "longest_at", "session_timeout_ms"),
            (F.col("longest_ms") / F.col("session_timeout_ms")).alias("share"),
        )
    )
    gaps = gaps.withColumn("near_miss", F.coalesce(F.col("share") >= NEAR, F.lit(False)))
    return in_one_part(gaps, F.desc_nulls_last("share"), "group_id", "member_id")


def descriptions(rounds: DataFrame, requests: DataFrame) -> DataFrame:
    """Return a row per streams group: whether a member has described its topology (KIP-1331).

    `described`, the number of descriptions that were `accepted` and `refused`, `last_error` (the error code of the
    newest one, 0 for none), and of the newest accepted one `accepted_at`, `member_id` and `client_id`. A group that
    neither rebalanced nor described a topology has no row.
    """
    sent = requests.where(F.col("api") == _DESCRIBES)
    accepted = F.col("error") == 0
    last = F.max_by(F.struct("happened_at", "member_id", "client_id"), F.when(accepted, F.col("happened_at")))
    updates = sent.groupBy("group_id").agg(
        F.count_if(accepted).alias("accepted"),
        F.count_if(~accepted).alias("refused"),
        F.max_by("error", F.struct("happened_at", "trace", "seq")).alias("last_error"),
        last.alias("last"),
    )
    groups = rounds.where("kind = 'streams'").select("group_id").unionByName(sent.select("group_id")).distinct()
    by_group = groups.join(updates, ["group_id"], "left").select(
        "group_id",
        F.coalesce(F.col("accepted") > 0, F.lit(False)).alias("described"),
        *(F.coalesce(name, F.lit(0)).alias(name) for name in ("accepted", "refused")),
        "last_error",
        F.col("last.happened_at").alias("accepted_at"),
        *(F.col(f"last.{name}").alias(name) for name in ("member_id", "client_id")),
    )
    return in_one_part(by_group, "described", "group_id")

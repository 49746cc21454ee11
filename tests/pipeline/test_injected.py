"""The pipeline reports exactly the faults that the generator injected."""

from typing import Any

from pyspark.sql import functions as F

from kafka_shim.pipeline.generate.faults import Kind, plan
from kafka_shim.pipeline.warehouse import Warehouse
from tests.pipeline.conftest import GROUPS, SEED

Faults = list[dict[str, Any]]


def of(faults: Faults, *kinds: str) -> Faults:
    return [fault for fault in faults if fault["kind"] in kinds]


def kind_of(group: str) -> Kind:
    return plan(GROUPS, SEED)[int(group.rsplit("-", 1)[1])].kind


def test_exactly_the_injected_violations_are_reported(warehouse: Warehouse, faults: Faults) -> None:
    injected = set()
    for fault in of(faults, "violation"):
        subject = fault.get("member_id") or (
            f"{fault['topic']}-{fault['partition']}" if "topic" in fault else str(fault["generation"])
        )
        injected.add((fault["invariant"], fault["group"], subject))
    violations = [(row.invariant, row.group_id, row.subject) for row in warehouse.read("violations").collect()]
    assert sorted(violations) == sorted(injected)
    assert len(injected) >= 7


def test_exactly_the_injected_storms_are_reported(warehouse: Warehouse, faults: Faults) -> None:
    injected = {(f["group"], f["first_generation"], f["last_generation"]) for f in of(faults, "storm")}
    storms = [(row.group_id, row.first_generation, row.last_generation) for row in warehouse.result("storms").collect()]
    assert sorted(storms) == sorted(injected)
    assert injected
    # A share group starts with seven epochs or more, one right after the other.
    starts = warehouse.read("rounds").where("kind = 'share' and cause = 'NEW_MEMBER'").groupBy("group_id").count()
    assert {row["count"] >= 7 for row in starts.collect()} == {True}


def test_rounds_have_the_injected_causes(warehouse: Warehouse, faults: Faults) -> None:
    injected: dict[tuple[str, str], int] = {}
    for fault in of(faults, "rebalance"):
        key = (fault["group"], fault["cause"])
        injected[key] = injected.get(key, 0) + 1
    for fault in of(faults, "violation"):
        if fault["invariant"] == "I9":
            injected[fault["group"], ""] = 1
    rows = warehouse.result("causes").groupBy("group_id", "cause").agg(F.sum("rounds").alias("rounds")).collect()
    assert {(row.group_id, row.cause): row.rounds for row in rows} == injected
    assert {cause for _, cause in injected} >= {"SESSION_EXPIRED", "POLL_TIMEOUT_REASON", "COOPERATIVE_FOLLOWUP"}


def test_slow_members_and_leaders_are_blamed(warehouse: Warehouse, faults: Faults) -> None:
    rounds = warehouse.read("rounds")
    late = {(row.group_id, row.generation, row.blamed) for row in rounds.where("behind_ms > 5000").collect()}
    slow = of(faults, "slow_member")
    assert late == {(f["group"], f["generation"], f["member_id"]) for f in slow}
    thinking = {(row.group_id, row.generation, row.leader) for row in rounds.where("leader_ms > 4000").collect()}
    assert thinking == {(f["group"], f["generation"], f["member_id"]) for f in of(faults, "slow_leader")}
    worst = warehouse.result("blame").where("role = 'member'").orderBy(F.desc("most_ms")).first()
    assert worst is not None
    assert worst.worst_member_id == max(slow, key=lambda fault: fault["ms"])["member_id"]


def test_membership_has_the_end_of_each_stay(warehouse: Warehouse, faults: Faults) -> None:
    membership = warehouse.read("membership")
    expired = {(row.group_id, row.member_id) for row in membership.where("how = 'expired'").collect()}
    assert expired == {(f["group"], f["member_id"]) for f in of(faults, "session_expired")}
    fenced = {row.member_id for row in membership.where("how = 'fenced'").collect()}
    assert fenced >= {f["member_id"] for f in of(faults, "violation") if f["invariant"] == "I8"}


def test_a_fenced_member_joins_again(warehouse: Warehouse, faults: Faults) -> None:
    fenced = warehouse.read("requests").where("error = 110").collect()
    assert {(row.group_id, row.member_id) for row in fenced} == {
        (f["group"], f["member_id"]) for f in of(faults, "fenced")
    }
    assert fenced
    for row in fenced:
        again = warehouse.read("requests").where(F.col("member_id") == row.member_id)
        (joined,) = again.where((F.col("generation") == 0) & (F.col("seq") > row.seq)).collect()
        assert joined.error == 0
        assert joined.arrived_at > row.happened_at


def test_a_member_slow_to_revoke_is_blamed(warehouse: Warehouse, faults: Faults) -> None:
    slow = [f for f in of(faults, "slow_member") if kind_of(f["group"]) is not Kind.CLASSIC]
    assert {kind_of(f["group"]) for f in slow} == {Kind.CONSUMER, Kind.STREAMS}
    waits = warehouse.read("events", steady=False).where("event = 'reconciliation' and size(waited_for) > 0").collect()
    slow_rounds = warehouse.read("rounds").where("kind != 'classic' and behind_ms > 5000").collect()
    assert {(row.group_id, row.generation, row.blamed) for row in slow_rounds} == {
        (f["group"], f["generation"], f["member_id"]) for f in slow
    }
    for fault in slow:
        (row,) = (row for row in slow_rounds if row.group_id == fault["group"])
        assert fault["ms"] <= row.blamed_ms <= row.total_ms < fault["ms"] + 10_000
        waiting = {each.member_id for each in row.waited_for} - {fault["member_id"]}
        assert any(
            (wait.group_id, wait.generation) == (row.group_id, row.generation)
            and wait.member_id in waiting
            and fault["member_id"] in {each.member_id for each in wait.waited_for}
            for wait in waits
        )


def test_groups_of_every_kind_are_in_the_tables(warehouse: Warehouse) -> None:
    planned = {f"group-{index:05d}": str(part.kind) for index, part in enumerate(plan(GROUPS, SEED))}
    kinds = warehouse.read("rounds").select("group_id", "kind").distinct().collect()
    assert {row.group_id: row.kind for row in kinds} == planned
    owned = warehouse.read("ownership").select("group_id", "kind").distinct().collect()
    assert {row.group_id: row.kind for row in owned} == planned
    pauses = warehouse.read("partition_pauses").select("kind").distinct().collect()
    assert {row.kind for row in pauses} == {"classic", "consumer", "streams"}
    rows = warehouse.read("rounds").where("kind != 'classic'").collect()
    assert all(row.stable_at is not None and row.protocol for row in rows if row.size == len(row.members) > 4)
    commits = (
        warehouse.read("offset_history").where("what = 'commit'").select("group_id", "source").distinct().collect()
    )
    for source in ("trace", "segments"):
        has = {row.group_id for row in commits if row.source == source}
        # Share groups have no committed offsets: their members acknowledge records.
        assert {planned[group] for group in has} == {"classic", "consumer", "streams"}
    assert {row.kind for row in warehouse.result("cost").collect()} == set(planned.values())


def test_exactly_the_injected_near_misses_are_reported(warehouse: Warehouse, faults: Faults) -> None:
    near_misses = warehouse.result("heartbeat_gaps").where("near_miss").collect()
    assert {(row.group_id, row.member_id) for row in near_misses} == {
        (f["group"], f["member_id"]) for f in of(faults, "near_miss")
    }
    assert all(0.7 <= row.share < 1 for row in near_misses)


def test_injected_regressions_are_reported(warehouse: Warehouse, faults: Faults) -> None:
    injected = {(f["group"], f["topic"], f["partition"], f["offset"]) for f in of(faults, "commit_regression")}
    rows = warehouse.result("regressions").collect()
    for source in ("trace", "segments"):
        assert {(r.group_id, r.topic, r.partition, r.committed_offset) for r in rows if r.source == source} == injected


def test_injected_commit_gaps_are_reported(warehouse: Warehouse, faults: Faults) -> None:
    injected = {(f["group"], f["topic"], f["partition"]) for f in of(faults, "commit_gap")}
    rows = warehouse.result("commit_gaps").where("source = 'trace'").collect()
    assert {(r.group_id, r.topic, r.partition) for r in rows} == injected
    assert all(240_000 <= row.gap_ms < 260_000 for row in rows)


def test_injected_damage_is_in_quarantine(warehouse: Warehouse, faults: Faults) -> None:
    rows = warehouse.read("quarantine").collect()
    damage = {("/".join(row.file.split("/")[-2:]), row.reason) for row in rows}
    assert damage == {(f["file"], f["reason"]) for f in of(faults, "damage")}
    flipped = next(f for f in of(faults, "damage") if "offset" in f)
    assert any((row.position, row.log_offset) == (flipped["position"], flipped["offset"]) for row in rows)


def test_trace_and_segments_agree(warehouse: Warehouse) -> None:
    rows = warehouse.result("agreement").collect()
    # A damaged and a truncated batch are missing, as if compacted; the truncated one was the last of its partitions.
    assert sum(row.only_in_segments for row in rows) == 0
    groups = {row.group_id for row in rows if row.only_in_trace}
    assert 1 <= len(groups) <= 2
    assert all(row.agree for row in rows if row.group_id not in groups)
    assert len(rows) > 100


def test_static_membership_saves_the_injected_restarts(warehouse: Warehouse, faults: Faults) -> None:
    restarted = {f["group"] for f in of(faults, "bounce", "storm")}
    rows = warehouse.result("migration").collect()
    assert {row.group_id for row in rows if row.restarts} == restarted
    assert all(row.static_saves_rounds >= 2 for row in rows if row.group_id in restarted)
    assert all(row.kip848_saves_ms == 0 for row in rows if row.protocol == "cooperative-sticky")


def test_a_replay_repeats_the_rounds_and_static_members_save_restarts(warehouse: Warehouse, faults: Faults) -> None:
    saved = {row.group_id: row.static_saves_rounds for row in warehouse.result("migration").collect()}
    rows = warehouse.result("replays").collect()
    assert {f["group"] for f in of(faults, "bounce", "storm")} <= {row.group_id for row in rows}
    for row in rows:
        assert row.played_rounds == row.rounds, row
        assert row.played_rounds - row.static_rounds >= saved[row.group_id], row
        if saved[row.group_id]:
            assert row.static_pause_s < row.played_pause_s, row


def test_assignments_have_stickiness_and_balance(warehouse: Warehouse) -> None:
    rows = warehouse.read("assignments").where("stickiness is not null").collect()
    sticky = [row for row in rows if row.protocol == "cooperative-sticky"]
    assert sticky
    assert all(row.kept <= row.best_kept and row.most - row.least <= 2 for row in rows)
    assert all(row.stickiness == 1.0 for row in sticky)
    assert any(row.stickiness < 1.0 for row in rows if row.protocol != "cooperative-sticky")


def test_owners_overlap_only_where_injected(warehouse: Warehouse, faults: Faults) -> None:
    own = warehouse.read("ownership").alias("a")
    key = ["trace", "group_id", "topic", "partition"]
    overlapping = (
        own.join(warehouse.read("ownership").alias("b"), key)
        .where("a.member_id < b.member_id and a.owned_from < coalesce(b.owned_until, timestamp'2100-01-01')")
        .where("b.owned_from < coalesce(a.owned_until, timestamp'2100-01-01') and a.kind != 'share'")
    )
    violations = {
        (row.group_id, row.topic, row.partition)
        for row in overlapping.select("group_id", "topic", "partition").collect()
    }
    injected = {(f["group"], f["topic"], f["partition"]) for f in of(faults, "violation") if f["invariant"] == "I1"}
    assert violations == injected

"""Cases about DescribeClientQuotas and AlterClientQuotas."""

from __future__ import annotations

import math
from functools import partial
from typing import Final, TypeAlias

from kafka_shim.apis import alter_client_quotas as altering
from kafka_shim.apis.alter_client_quotas import AlterClientQuotasRequest, OpData
from kafka_shim.apis.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.targets.secured import SECURITY
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.user import User
from kafka_shim.conformance.wire import Connection

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUESTS: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
CONNECTIONS: Final = "connection_creation_rate"
ONE_NAME, DEFAULT, EACH = range(3)
"""How a condition of DescribeClientQuotas matches."""

Names: TypeAlias = dict[str, str | None]
"""The names of an entity, by type; None is the default."""
Quotas: TypeAlias = dict[frozenset[object], dict[str, float]]
"""Values by key, by the names of an entity."""
Result: TypeAlias = tuple[int, str | None]
"""The error of an entity, and its message."""

alter_case = partial(case, source="semantics 6.8", api="AlterClientQuotas", uses=("DescribeClientQuotas",))
describe_case = partial(case, source="semantics 6.8", api="DescribeClientQuotas", uses=("AlterClientQuotas",))


def entry(names: Names, **values: float | None) -> altering.EntryData:
    """Return a change of the quotas of an entity; None removes one."""
    ops = [OpData(key, value or 0.0, value is None) for key, value in values.items()]
    return altering.EntryData([altering.EntityData(*each) for each in names.items()], ops)


def alter(t: Trial, *entries: altering.EntryData, validate_only: bool = False) -> dict[frozenset[object], Result]:
    """Change quotas; return error and message by entity."""
    results = t.call(AlterClientQuotasRequest(list(entries), validate_only)).entries
    return {_key({e.entity_type: e.entity_name for e in r.entity}): (r.error_code, r.error_message) for r in results}


def quotas(t: Trial, **match: str | None) -> Quotas:
    """Return the quotas of entities with these names; `_` stands for `-` in a type."""
    return _quotas(t, None, match)


def _quotas(t: Trial, at: Connection | None, match: Names) -> Quotas:
    components = [
        ComponentData(kind.replace("_", "-"), DEFAULT if name is None else ONE_NAME, name)
        for kind, name in match.items()
    ]
    request = DescribeClientQuotasRequest(components)
    answer = t.call(request) if at is None else at.call(request, t.version_of("DescribeClientQuotas"))
    t.expect(answer, error_code=0, error_message="")
    return {
        _key({e.entity_type: e.entity_name for e in each.entity}): {value.key: value.value for value in each.values}
        for each in answer.entries
    }


def until_quotas(t: Trial, expected: Quotas, **match: str | None) -> None:
    """Wait until every broker has these quotas."""
    t.until(lambda: quotas(t, **match), lambda now: now == expected, "the quotas never showed")
    routes = t.peer.routes
    for endpoint in () if routes.is_alone else routes.everywhere():
        at = t.connect_to(endpoint)
        t.until(partial(_quotas, t, at, match), lambda now: now == expected, "the quotas never showed everywhere")


def _key(names: Names) -> frozenset[object]:
    return frozenset(names.items())


def refused(message: str) -> Result:
    return E.INVALID_REQUEST, message


@alter_case("quotas/alter/1", "Quotas of a user, of a client id and of both are set, changed and removed one by one")
def change(t: Trial) -> None:
    user, client = f"user-{t.group}", f"client-{t.group}"
    one, other, both = _key({"user": user}), _key({"client-id": client}), _key({"user": user, "client-id": client})
    results = alter(
        t,
        entry({"user": user}, **{PRODUCE: 1000, REQUESTS: 12.5}),
        entry({"client-id": client}, **{FETCH: 2000, MUTATIONS: 0.5}),
        entry({"user": user, "client-id": client}, **{PRODUCE: 10.0}),
    )
    t.equal(results, {one: (0, None), other: (0, None), both: (0, None)}, "the results")
    until_quotas(t, {one: {PRODUCE: 1000, REQUESTS: 12.5}, both: {PRODUCE: 10}}, user=user)
    until_quotas(t, {other: {FETCH: 2000, MUTATIONS: 0.5}, both: {PRODUCE: 10}}, client_id=client)
    alter(t, entry({"user": user}, **{PRODUCE: None, REQUESTS: 20}), entry({"client-id": client}, **{FETCH: 1}))
    until_quotas(t, {one: {REQUESTS: 20}, both: {PRODUCE: 10}}, user=user)
    alter(
        t,
        entry({"user": user}, **{REQUESTS: None, "unknown": None}),
        entry({"client-id": client, "user": user}, **{PRODUCE: None, FETCH: None}),
    )
    until_quotas(t, {}, user=user)
    until_quotas(t, {other: {FETCH: 1, MUTATIONS: 0.5}}, client_id=client)
    alter(t, entry({"client-id": client}, **{FETCH: None, MUTATIONS: None}))
    until_quotas(t, {}, client_id=client)


@alter_case("quotas/alter/2", "An entity that cannot be is 42, and the others count")
def impossible_entity(t: Trial) -> None:
    user = f"user-{t.group}"
    nothing: Names = {}
    cases: list[tuple[Names, str]] = [
        (nothing, "Invalid empty client quota entity"),
        ({"group": user}, "Unhandled client quota entity type: group"),
        ({"user": ""}, "Empty user not supported"),
        ({"client-id": ""}, "Empty client-id not supported"),
        ({"ip": "no such host."}, "no such host. is not a valid IP or resolvable host."),
    ]
    values = {PRODUCE: 1.0}
    entries = [entry(names, **values) for names, _ in cases]
    expected: dict[frozenset[object], Result] = {_key(names): refused(message) for names, message in cases}
    expected[_key({"user": user})] = 0, None
    t.equal(alter(t, *entries, entry({"user": user}, **values)), expected, "the results")
    until_quotas(t, {_key({"user": user}): values}, user=user)


@alter_case(
    "quotas/alter/3", "A value that cannot be is 42, and the whole entity stays; the value of a removal is free"
)
def impossible_value(t: Trial) -> None:
    cases: list[tuple[dict[str, float], str]] = [
        ({"unknown": 1.0}, "Invalid configuration key unknown"),
        ({CONNECTIONS: 1.0}, f"Invalid configuration key {CONNECTIONS}"),
        ({PRODUCE: 0.0}, f"Quota {PRODUCE} must be greater than 0"),
        ({REQUESTS: -1.0}, f"Quota {REQUESTS} must be greater than 0"),
        ({FETCH: 1.5}, f"{FETCH} cannot be a fractional value."),
        ({FETCH: 2.0**64}, f"Proposed value for {FETCH} is too large for a LONG."),
        ({PRODUCE: 7.0, FETCH: 0.0}, f"Quota {FETCH} must be greater than 0"),
    ]
    names = [f"{number}-{t.group}" for number in range(len(cases))]
    entries = [entry({"user": name}, **values) for name, (values, _) in zip(names, cases, strict=True)]
    expected = {_key({"user": name}): refused(message) for name, (_, message) in zip(names, cases, strict=True)}
    good = f"good-{t.group}"
    expected[_key({"user": good})] = 0, None
    entries.append(entry({"user": good}, **{PRODUCE: 2.0**63, MUTATIONS: 1e-9, FETCH: 1.0000001}))
    t.equal(alter(t, *entries), expected, "the results")
    until_quotas(t, {_key({"user": good}): {PRODUCE: 2.0**63, MUTATIONS: 1e-9, FETCH: 1.0000001}}, user=good)
    for name in names:
        t.equal(quotas(t, user=name), {}, "the quotas of a refused entity")


@alter_case("quotas/alter/4", "A value that is infinite or no number is 42", since="4.4")
def endless_value(t: Trial) -> None:
    expected = {}
    entries = []
    for number, value in enumerate((math.inf, math.nan)):
        for key in (PRODUCE, REQUESTS):
            user = f"{key}-{number}-{t.group}"
            entries.append(entry({"user": user}, **{key: value}))
            expected[_key({"user": user})] = refused(f"Quota {key} must be a finite number")
    t.equal(alter(t, *entries), expected, "the results")


@alter_case("quotas/alter/5", "An address has quotas of its own, and none beside a user or a client id")
def addresses(t: Trial) -> None:
    # Cells share the addresses, so nothing is set here.
    entries = [
        entry({"ip": "198.51.100.7"}, **{CONNECTIONS: 10}),
        entry({"ip": "2001:db8::7"}, **{CONNECTIONS: 10}),
        entry({"ip": None}, **{CONNECTIONS: 10}),
        entry({"ip": "198.51.100.8"}, **{PRODUCE: 10}),
        entry({"ip": "198.51.100.9"}, **{CONNECTIONS: 1.5}),
        entry({"ip": "198.51.100.10"}, **{CONNECTIONS: 2.0**31}),
        entry({"ip": "198.51.100.11", "user": "alice"}, **{CONNECTIONS: 1}),
    ]
    results = alter(t, *entries, validate_only=True)
    (mixed,) = (result for names, result in results.items() if len(names) == 2)
    t.equal(mixed[0], E.INVALID_REQUEST, "the error of an address with a user")
    expected: dict[frozenset[object], Result] = {
        _key({"ip": "198.51.100.7"}): (0, None),
        _key({"ip": "2001:db8::7"}): (0, None),
        _key({"ip": None}): (0, None),
        _key({"ip": "198.51.100.8"}): refused(f"Invalid configuration key {PRODUCE}"),
        _key({"ip": "198.51.100.9"}): refused(f"{CONNECTIONS} cannot be a fractional value."),
        _key({"ip": "198.51.100.10"}): refused(f"Proposed value for {CONNECTIONS} is too large for an INT."),
    }
    t.equal({names: result for names, result in results.items() if len(names) == 1}, expected, "the results")


@alter_case(
    "quotas/alter/6",
    "The first of two entries of an entity counts, and the result is 42; two values of one key count not",
)
def twice(t: Trial) -> None:
    user, client = f"user-{t.group}", f"client-{t.group}"
    both = {"client-id": client, "user": user}
    double = altering.EntryData(
        [altering.EntityData(*each) for each in both.items()], [OpData(PRODUCE, 1.0), OpData(PRODUCE, 2.0)]
    )
    results = alter(t, entry({"user": user}, **{PRODUCE: 1}), entry({"user": user}, **{PRODUCE: 2}), double)
    text = "Ignoring duplicate entity ClientQuotaEntity(entries={{{}}})"
    expected = {
        _key({"user": user}): refused(text.format(f"user={user}")),
        _key({"user": user, "client-id": client}): refused(text.format(f"client-id={client}, user={user}")),
    }
    t.equal(results, expected, "the results")
    until_quotas(t, {_key({"user": user}): {PRODUCE: 1}}, user=user)


@alter_case("quotas/alter/7", "A request that only validates changes nothing, and has the same results")
def validate(t: Trial) -> None:
    good, bad, after = (f"{each}-{t.group}" for each in ("good", "bad", "after"))
    entries = entry({"user": good}, **{PRODUCE: 5}), entry({"user": bad}, **{PRODUCE: 0})
    results = alter(t, *entries, validate_only=True)
    expected = {
        _key({"user": good}): (0, None),
        _key({"user": bad}): refused(f"Quota {PRODUCE} must be greater than 0"),
    }
    t.equal(results, expected, "the results")
    alter(t, entry({"user": after}, **{PRODUCE: 5}))
    until_quotas(t, {_key({"user": after}): {PRODUCE: 5}}, user=after)
    t.equal(quotas(t, user=good), {}, "the quotas")


@alter_case(
    "quotas/alter/8", "AlterClientQuotas needs ALTER_CONFIGS on the cluster, else each entity is 31", profile=SECURITY
)
def alter_denied(t: Trial) -> None:
    alice = User(t)
    alice.allow("DESCRIBE_CONFIGS")
    name = f"user-{t.group}"
    entries = [entry({"user": name}, **{PRODUCE: 5}), entry({"client-id": name}, **{PRODUCE: 0})]
    results = alice.call(AlterClientQuotasRequest(entries)).entries
    codes = {(each.entity[0].entity_type, each.entity[0].entity_name, each.error_code) for each in results}
    denied = E.CLUSTER_AUTHORIZATION_FAILED
    t.equal(codes, {("user", name, denied), ("client-id", name, denied)}, "the results")
    t.equal(quotas(t, user=name), {}, "the quotas")


@describe_case(
    "quotas/describe/1", "A filter matches by name, by default and by type; a strict one no entity with others"
)
def conditions(t: Trial) -> None:
    user, client = f"user-{t.group}", f"client-{t.group}"
    plain, of_client, of_default = (
        {"user": user},
        {"user": user, "client-id": client},
        {"user": user, "client-id": None},
    )
    alone = {"client-id": client}
    every: list[Names] = [{**plain}, {**of_client}, {**of_default}, {**alone}]
    alter(t, *(entry(names, **{PRODUCE: 5}) for names in every))
    until_quotas(t, {_key(names): {PRODUCE: 5} for names in every[:3]}, user=user)

    def matching(*components: ComponentData, strict: bool) -> set[frozenset[object]]:
        answer = t.expect(t.call(DescribeClientQuotasRequest(list(components), strict)), error_code=0)
        keys = (_key({e.entity_type: e.entity_name for e in each.entity}) for each in answer.entries)
        return {each for each in keys if {("user", user), ("client-id", client)} & each}

    of_user, each_client = ComponentData("user", ONE_NAME, user), ComponentData("client-id", EACH)
    first, second, third, fourth = map(_key, every)
    t.equal(matching(of_user, strict=True), {first}, "the user alone")
    t.equal(matching(of_user, each_client, strict=True), {second, third}, "the user with client ids")
    t.equal(matching(each_client, of_user, strict=False), {second, third}, "the user with client ids, not strict")
    default = ComponentData("client-id", DEFAULT)
    t.equal(matching(of_user, default, strict=True), {third}, "the user with the default")
    t.equal(matching(each_client, strict=True), {fourth}, "client ids alone")
    t.equal(matching(each_client, strict=False), {second, third, fourth}, "client ids")
    t.equal(matching(strict=False), {first, second, third, fourth}, "without a condition")
    t.equal(matching(strict=True), set(), "without a condition, strict")


@describe_case("quotas/describe/2", "A filter that cannot be is 42, an unknown type 35, with a message and no entries")
def impossible_filter(t: Trial) -> None:
    cases: list[tuple[list[ComponentData], int, str]] = [
        ([ComponentData("", ONE_NAME, "a")], E.INVALID_REQUEST, "Invalid empty entity type."),
        ([ComponentData("group", ONE_NAME, "a")], E.UNSUPPORTED_VERSION, "Unsupported entity type group"),
        (
            [ComponentData("user", ONE_NAME, "a"), ComponentData("user", EACH)],
            E.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            [ComponentData("user", ONE_NAME)],
            E.INVALID_REQUEST,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [ComponentData("user", DEFAULT, "a")],
            E.INVALID_REQUEST,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [ComponentData("user", EACH, "a")],
            E.INVALID_REQUEST,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ([ComponentData("user", 3)], E.INVALID_REQUEST, "Unknown match type 3"),
    ]
    for components, code, message in cases:
        answer = t.call(DescribeClientQuotasRequest(components))
        t.expect(answer, error_code=code, error_message=message, entries=None)
    mixed = [ComponentData("ip", EACH), ComponentData("client-id", EACH)]
    t.expect(t.call(DescribeClientQuotasRequest(mixed)), error_code=E.INVALID_REQUEST, entries=None)


@describe_case(
    "quotas/describe/3",
    "DescribeClientQuotas needs DESCRIBE_CONFIGS on the cluster, else it is 31, without entries",
    profile=SECURITY,
)
def describe_denied(t: Trial) -> None:
    alice = User(t)
    answer = alice.call(DescribeClientQuotasRequest([ComponentData("user", EACH)]))
    t.expect(answer, error_code=E.CLUSTER_AUTHORIZATION_FAILED, error_message=None, entries=None)
    alice.allow("DESCRIBE_CONFIGS")
    t.expect(alice.call(DescribeClientQuotasRequest([ComponentData("user", EACH)])), error_code=0)

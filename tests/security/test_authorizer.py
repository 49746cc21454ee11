"""The decisions of the authorizer, by the rules of Kafka's StandardAuthorizer."""

from itertools import product
from random import Random
from typing import Any

import pytest

from kafka_shim.security import authorizer as authorizer_module
from kafka_shim.security.authorizer import ALLOW, ANY_NAME, DENY, LITERAL, PREFIXED, Acl, Authorizer
from kafka_shim.security.operations import Operation, Resource
from tests.effort import effort

ALICE = "User:alice"


class Place:
    acls: tuple[tuple[Any, ...], ...] = ()
    told = 0

    def tell(self) -> None:
        self.told += 1


def acl(name: str, operation: int, permission: int = ALLOW, *, pattern: int = LITERAL, user: str = ALICE,
        host: str = "*") -> Acl:  # fmt: skip
    return Acl(Resource.TOPIC, name, pattern, user, host, operation, permission)


def authorizer(*acls: Acl, **options: Any) -> Authorizer:
    made = Authorizer(Place(), {"User:admin"}, **options)
    made.add(acls)
    return made


READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL


@pytest.mark.parametrize(
    ("acls", "operation", "allowed"),
    [
        ([], READ, False),
        ([acl("t", READ)], READ, True),
        ([acl("t", READ)], WRITE, False),
        ([acl("t", READ)], DESCRIBE, True),
        ([acl("t", ALL)], WRITE, True),
        ([acl("t", Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS, True),
        ([acl("*", READ)], READ, True),
        ([acl("*", READ, pattern=PREFIXED)], READ, False),
        ([acl("", READ, pattern=PREFIXED)], READ, True),
        ([acl("tt", READ, pattern=PREFIXED)], READ, False),
        ([acl("t", READ, user="User:*")], READ, True),
        ([acl("t", READ, user="User:bob")], READ, False),
        ([acl("t", READ, host="10.0.0.1")], READ, False),
        ([acl("t", READ, host="127.0.0.1")], READ, True),
        ([acl("t", ALL, user="User:*"), acl("t", READ, DENY)], READ, False),
        ([acl("t", READ), acl("t", READ, DENY)], DESCRIBE, True),
        ([acl("t", READ), acl("t", DESCRIBE, DENY)], DESCRIBE, False),
        ([acl("t", ALL), acl("*", ALL, DENY)], READ, False),
    ],
)
def test_decisions_are_those_of_kafka(acls: list[Acl], operation: Operation, allowed: bool) -> None:
    assert authorizer(*acls).allows(ALICE, "127.0.0.1", operation, Resource.TOPIC, "t") is allowed


def test_super_users_pass_every_denial() -> None:
    made = authorizer(acl("t", ALL, DENY, user="User:*"))
    assert made.allows("User:admin", "127.0.0.1", READ, Resource.TOPIC, "t")


def test_a_resource_without_acls_may_be_open() -> None:
    made = authorizer(acl("t", READ, user="User:bob"), allows_without_acl=True)
    assert made.allows(ALICE, "127.0.0.1", READ, Resource.TOPIC, "other")
    assert not made.allows(ALICE, "127.0.0.1", READ, Resource.TOPIC, "t")


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([acl("t", WRITE)], True),
        ([acl("t", WRITE), acl("*", ALL, DENY)], False),
        ([acl("t", WRITE), acl("t", WRITE, DENY)], False),
        ([acl("team-a", WRITE), acl("team", WRITE, DENY, pattern=PREFIXED)], False),
        ([acl("team", WRITE, pattern=PREFIXED), acl("team-a", WRITE, DENY, pattern=PREFIXED)], True),
        ([acl("t", READ)], False),
    ],
)
def test_a_right_on_some_topic_survives_narrower_denials(acls: list[Acl], allowed: bool) -> None:
    assert authorizer(*acls).allows_on_any_topic(ALICE, "127.0.0.1", WRITE) is allowed


def test_acls_are_unique_and_removable() -> None:
    made = authorizer(acl("t", READ), acl("t", READ), acl("u", READ))
    assert made.all() == [acl("t", READ), acl("u", READ)]
    made.remove({acl("t", READ)})
    assert made.all() == [acl("u", READ)]


def test_a_change_of_many_acls_is_told_once() -> None:
    made = authorizer(*(acl(f"t{number}", READ) for number in range(100)))
    assert made.place.told == 1  # type: ignore[attr-defined]
    made.add([acl("t1", READ)])
    assert made.place.told == 1  # type: ignore[attr-defined]


def test_acls_have_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    size = acl("t1", READ).size
    assert size == 100 + len("t1") + len(ALICE) + len("*")
    monkeypatch.setattr(authorizer_module, "MAX_BYTES", 2 * size)
    made = authorizer(acl("t1", READ))
    assert made.add([acl("t1", READ), acl("t2", READ), acl("t3", READ)]) == {acl("t3", READ)}
    assert made.all() == [acl("t1", READ), acl("t2", READ)]
    made.remove({acl("t1", READ)})
    assert made.add([acl("t3", READ)]) == set()


def plainly_allowed(acls: list[Acl], host: str, operation: Operation, name: str, *, otherwise: bool) -> bool:
    """The rule of Kafka's StandardAuthorizer for alice, ACL by ACL."""
    candidates = [each for each in acls if each.covers(name)]
    mine = [each for each in candidates if each.principal in (ALICE, "User:*") and each.host in (host, "*")]
    if any(each.permission_type == DENY and each.operation in (ALL, operation) for each in mine):
        return False
    included = {READ, WRITE, Operation.DELETE, Operation.ALTER} if operation == DESCRIBE else set()
    if any(each.permission_type == ALLOW and each.operation in {ALL, operation, *included} for each in mine):
        return True
    return otherwise and not candidates


@pytest.mark.parametrize("otherwise", [False, True])
def test_decisions_are_those_of_a_look_at_every_acl(otherwise: bool) -> None:
    pick = Random(1).choice
    answers = set()
    for _ in range(300):
        acls = [
            acl(pick(["a", "ab", "abc", "b", ANY_NAME]), pick([READ, WRITE, DESCRIBE, ALL]), pick([ALLOW, ALLOW, DENY]),
                pattern=pick([LITERAL, PREFIXED]), user=pick([ALICE, "User:bob", "User:*"]), host=pick(["h", "i", "*"]))
            for _ in range(pick([0, 1, 2, 4, 8]))
        ]  # fmt: skip
        made = authorizer(*acls, allows_without_acl=otherwise)
        for host, operation, name in product("hi", (READ, WRITE, DESCRIBE), ("", "a", "abc", "abcd", "b", "c", "*")):
            answer = made.allows(ALICE, host, operation, Resource.TOPIC, name)
            assert answer == plainly_allowed(acls, host, operation, name, otherwise=otherwise), (acls, host, name)
            answers.add(answer)
    assert answers == {False, True}


UNRELATED = {
    "of others": lambda number: acl("t", READ, user=f"User:{number}"),
    "of other hosts": lambda number: acl("t", READ, host=f"10.0.0.{number}"),
    "of other names": lambda number: acl(f"t{number}", READ),
    "of other prefixes": lambda number: acl(f"u{number:03}", READ, pattern=PREFIXED),
    "of the same name": lambda number: acl("t", 3 + number % 9, user="User:*"),
}


@pytest.mark.parametrize("unrelated", UNRELATED.values(), ids=UNRELATED)
def test_a_decision_takes_as_long_however_many_unrelated_acls_there_are(unrelated: Any) -> None:
    related = [acl("t", READ), acl("t", READ, pattern=PREFIXED), acl("*", WRITE), acl("u", READ, user="User:*")]
    efforts = []
    for many in (10, 400):
        made = authorizer(*related, *map(unrelated, range(many)))
        assert made.allows(ALICE, "127.0.0.1", READ, Resource.TOPIC, "t")
        efforts.append(effort(lambda made=made: made.allows(ALICE, "127.0.0.1", READ, Resource.TOPIC, "t")))
    assert efforts[0] == efforts[1] < 60


def test_a_right_on_some_topic_costs_a_look_at_each_acl() -> None:
    efforts = []
    for many in (100, 200):
        made = authorizer(
            *(acl(f"t{number}", WRITE) for number in range(many)),
            *(acl(f"t{number}", WRITE, DENY) for number in range(many)),
        )
        assert not made.allows_on_any_topic(ALICE, "127.0.0.1", WRITE)
        efforts.append(effort(lambda made=made: made.allows_on_any_topic(ALICE, "127.0.0.1", WRITE)))
    assert efforts[1] < 2.1 * efforts[0]

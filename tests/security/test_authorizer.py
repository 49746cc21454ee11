"""The decisions of the authorizer, by the rules of Kafka's StandardAuthorizer."""

from typing import Any

import pytest

from kafka_shim.security.authorizer import ALLOW, DENY, LITERAL, PREFIXED, Acl, Authorizer
from kafka_shim.security.operations import Operation, Resource

ALICE = "User:alice"


class Place:
    acls: tuple[tuple[Any, ...], ...] = ()

    def tell(self) -> None:
        pass


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

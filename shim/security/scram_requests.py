"""DescribeUserScramCredentials and AlterUserScramCredentials on the users of a server (KIP-554).

Sources: Kafka's `ScramImage`, `ScramControlManager`; the answers of a running Kafka 4.4.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kafka_shim.apis.scram.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafka_shim.apis.scram.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.security.users import (
    ITERATIONS,
    MAX_BYTES,
    MECHANISM_OF_CODE,
    SCRAM_HASHES,
    ScramCredential,
    Users,
    credential_of_salted,
    size_of,
)

MAX_ITERATIONS: Final = 16384
_NO_ROOM: Final = f"All credentials together would need more than {MAX_BYTES} bytes."
_Result: Final = AlterUserScramCredentialsResult
_Refusal = tuple[ErrorCode, str | None]


def describe_users(request: DescribeUserScramCredentialsRequest, users: Users) -> DescribeUserScramCredentialsResponse:
    """Describe the users of a request, or all if it names none.

    Errors of a user: RESOURCE_NOT_FOUND (91) without any credential; DUPLICATE_RESOURCE (92) if the request names the
    user twice.
    """
    times = Counter(each.name for each in request.users or ())
    results, refused = [], []
    everything = users.scram_iterations()
    for name in times or sorted(everything):
        if times[name] > 1:
            text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            refused.append(DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, text))
        elif name in everything:
            infos = [CredentialInfo(code, iterations) for code, iterations in sorted(everything[name].items())]
            results.append(DescribeUserScramCredentialsResult(name, credential_infos=infos))
        else:
            text = f"Attempt to describe a user credential that does not exist: {name}"
            results.append(DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, text))
    return DescribeUserScramCredentialsResponse(results=[*results, *refused])


def alter_users(request: AlterUserScramCredentialsRequest, users: Users) -> AlterUserScramCredentialsResponse:
    """Delete and change credentials: those of the valid entries, with a result for each user.

    Errors of a user: DUPLICATE_RESOURCE (92) for two entries; UNACCEPTABLE_CREDENTIAL (93) for an empty name, or
    iterations out of range; UNSUPPORTED_SASL_MECHANISM (33); RESOURCE_NOT_FOUND (91) for a deletion of none;
    POLICY_VIOLATION (44) beyond the limit of all credentials.
    """
    accepted: dict[str, ScramCredentialDeletion | ScramCredentialUpsertion] = {}
    refused: dict[str, _Refusal] = {}
    existing = users.scram_iterations()
    entries: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    for each in entries:
        if each.name in refused:
            continue
        if accepted.pop(each.name, None) is not None:
            refused[each.name] = (
                ErrorCode.DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            )
        elif (refusal := _refusal(each, existing.get(each.name, {}))) is not None:
            refused[each.name] = refusal
        else:
            accepted[each.name] = each
    for each in _without_room(accepted.values(), users.scram_sizes()):
        del accepted[each.name]
        refused[each.name] = ErrorCode.POLICY_VIOLATION, _NO_ROOM
    if accepted:
        users.change_scram({(each.name, each.mechanism): _credential_of(each) for each in accepted.values()})
    return AlterUserScramCredentialsResponse(
        results=[
            *(_Result(name) for name in accepted),
            *(_Result(name, code, text) for name, (code, text) in refused.items()),
        ]
    )


def _without_room(
    changes: Iterable[ScramCredentialDeletion | ScramCredentialUpsertion], sizes: dict[tuple[str, int], int]
) -> list[ScramCredentialUpsertion]:
    """Return the changes beyond the limit of all credentials, which have these sizes."""
    total, refused = sum(sizes.values()), []
    for each in changes:
        before = sizes.get((each.name, each.mechanism), 0)
        if isinstance(each, ScramCredentialDeletion):
            total -= before
            continue
        size = size_of(each.name, each.salt)
        if total + size - before > MAX_BYTES and size > before:
            refused.append(each)
        else:
            total += size - before
    return refused


def _credential_of(each: ScramCredentialDeletion | ScramCredentialUpsertion) -> ScramCredential | None:
    if isinstance(each, ScramCredentialDeletion):
        return None
    hash_name = SCRAM_HASHES[MECHANISM_OF_CODE[each.mechanism]]
    return credential_of_salted(hash_name, each.salt, each.salted_password, each.iterations)


def _refusal(each: ScramCredentialDeletion | ScramCredentialUpsertion, existing: dict[int, int]) -> _Refusal | None:
    if not each.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if each.mechanism not in MECHANISM_OF_CODE:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(each, ScramCredentialDeletion):
        if each.mechanism not in existing:
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        return None
    if each.iterations < ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if each.iterations > MAX_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    if not each.salted_password:
        # Java has no key of no bytes, and Kafka no text for it.
        return ErrorCode.UNKNOWN_SERVER_ERROR, None
    return None

"""Passwords in requests, settings and documents.

Finds the bytes and values that must stay hidden; `frames.py`, `journal.py` and `shim/control/` leave them out. As in
Kafka, a setting with an unknown name may be the password of a plugin.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from kafka_shim.apis.alter_configs import AlterConfigsRequest
from kafka_shim.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import DecodeError
from kafka_shim.apis.wire.headers import decode_request_header
from kafka_shim.broker.documents import BROKERS, SCRAM, TOKEN
from kafka_shim.broker.setting import ConfigType
from kafka_shim.broker.settings import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS
from kafka_shim.persistence.records import DocumentKey, DocumentValue

_ALWAYS: Final = frozenset(
    key.to_bytes(2)
    for key in (
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    )
)
"""The beginnings of requests that hold passwords, themselves or in their answers."""
_ALTERING: Final[dict[bytes, type[AlterConfigsRequest | IncrementalAlterConfigsRequest]]] = {
    ApiKey.ALTER_CONFIGS.to_bytes(2): AlterConfigsRequest,
    ApiKey.INCREMENTAL_ALTER_CONFIGS.to_bytes(2): IncrementalAlterConfigsRequest,
}


def is_password(setting: str) -> bool:
    """Return True if a setting is, or may be, a password."""
    of_broker = BROKER_SETTINGS.get(setting)
    if of_broker is not None:
        return of_broker.type is ConfigType.PASSWORD
    return setting not in TOPIC_SETTINGS and setting not in GROUP_SETTINGS


def may_hold_password(beginning: bytes | bytearray) -> bool:
    """Return True if a request with this beginning may hold a password."""
    return bytes(beginning[:2]) in _ALWAYS or bytes(beginning[:2]) in _ALTERING


def holds_password(frame: bytes) -> bool:
    """Return True if a request, or its answer, holds a password, or if it is malformed and may hold one."""
    if not may_hold_password(frame):
        return False
    request = _ALTERING.get(frame[:2])
    if request is None:
        return True
    try:
        _, version, _, _, body = decode_request_header(frame)
        changes = request.decode(frame[body:], version)
    except DecodeError:
        return True
    return any(is_password(each.name) for resource in changes.resources for each in resource.configs)


def records_without_passwords(records: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the records of a store's documents without users, tokens, and the values of passwords."""
    pairs = []
    for key, value in records:
        if isinstance(key, DocumentKey) and key.kind in (SCRAM, TOKEN):
            continue
        if isinstance(key, DocumentKey) and key.kind == BROKERS and isinstance(value, DocumentValue):
            content = json.loads(value.text)
            configs = {name: "" if is_password(name) else text for name, text in content["configs"].items()}
            value = DocumentValue(json.dumps({"configs": configs}, sort_keys=True).encode())
        pairs.append((key, value))
    return pairs

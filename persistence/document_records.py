"""Value of a document record, our own record type -5: a document describes a topic, or a setting.

The key is in `keys.py`; `records.py` encodes and decodes the value. A store keeps these records in the partition
`DOCUMENTS`, beside those of `__consumer_offsets`.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.wire import Message, bytes_, field

DOCUMENTS: Final = -1
"""Number of the store's partition for these records."""


class DocumentValue(Message, key=-5, versions="0"):
    """`text` is JSON in UTF-8; `shim/broker/documents.py` defines its content."""

    text: bytes = field(bytes_)

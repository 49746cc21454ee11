"""The value of the record of a document, which is our own: type -5. A document says how a topic is, or what was set.

Decides only its fields; the key is in `keys.py`, and `records.py` encodes and decodes it. Such records stand in no
partition of `__consumer_offsets`, but in `DOCUMENTS` beside them.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.wire import Message, bytes_, field

DOCUMENTS: Final = -1
"""Where a store keeps these records: a partition of their own."""


class DocumentValue(Message, key=-5, versions="0"):
    """`text` is JSON in UTF-8; `shim/broker/documents.py` knows what it says."""

    text: bytes = field(bytes_)

"""What the trace says of requests and answers; see `docs/trace.md`.

Decides how a request and its answer look in an `exchange` event. It is asked only while somebody listens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apis.wire import Message
from shim.groups.outbox import Outbox

if TYPE_CHECKING:
    from shim.server.session import Session

GROUP_KEYS: Final = frozenset({8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47})
"""The APIs whose exchanges are traced: those about groups and their offsets."""


class Exchanges:
    """Puts `exchange` and `parked` events into the outbox."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def parked(self, session: Session) -> None:
        """The session's request was parked."""
        served, request = session.served, session.request
        assert served is not None
        if served.key not in GROUP_KEYS:
            return
        self._outbox.event(
            "parked",
            conn=session.number,
            node=session.node.id,
            api=served.api.name,
            correlation_id=int.from_bytes(session.correlation_id, signed=True),
            group=getattr(request, "group_id", ""),
            member=getattr(request, "member_id", ""),
        )

    def answered(self, session: Session, response: Message) -> None:
        """The session's request is being answered."""
        served, request = session.served, session.request
        assert served is not None
        if served.key not in GROUP_KEYS:
            return
        self._outbox.event(
            "exchange",
            conn=session.number,
            node=session.node.id,
            api=served.api.name,
            version=served.version,
            correlation_id=int.from_bytes(session.correlation_id, signed=True),
            client_id=session.client_id,
            group=getattr(request, "group_id", None),
            member=getattr(request, "member_id", None) or getattr(response, "member_id", None),
            arrived=session.arrived,
            request=plain(request),
            answer=plain(response),
            error=getattr(response, "error_code", 0),
        )


def plain(value: Any) -> Any:
    """A message as JSON has it: objects, arrays, and the length of bytes."""
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, list):
        return [plain(each) for each in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    return {field.name: plain(getattr(value, field.name)) for field in value.fields}

"""`find_overruns`: missed polls of librdkafka in groups of KIP-848.

It sends no heartbeat once its application has missed a poll, and leaves at the next poll: a broker sees a session that
runs out, as of a process that stood still, and the member id come back. The client's own log tells the two apart.
Without it, sessions that run out equally long after each join do: a pause comes at any time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_shim.sources.clients import OVERRUN, Client
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.history import MISSED_POLL, GroupHistory
from kafka_shim.trace.members import Member, Membership

_OFTEN: Final = 3
"""Of so many, an interval is taken for the reason; so few pauses may be alike by chance."""
_EVEN_S: Final = 0.5
"""Times that one interval brings about differ by less."""


def find_overruns(history: GroupHistory, clients: Iterable[Client]) -> None:
    """Give the members of a group of KIP-848 the missed polls that logs show in place of sessions that ran out."""
    if history.epochs is None or not history.is_of_log:
        return
    polls = [(client, times) for client in clients if (times := _missed(client))]
    for member in history.members.values():
        expiries = [each for each in member.memberships if each.how == "expired"]
        if not expiries or member.lingered is None:
            continue
        fitting = [client for client, times in polls if all(_is_missed(each, times) for each in expiries)]
        if len(fitting) == 1:
            client = fitting[0]
            member.library, member.version, member.has_log = client.library, client.version, True
            member.client_id = member.client_id or client.client_id
        elif fitting or member.has_log or not _are_even(expiries):
            continue
        _note(history, member)


def _missed(client: Client) -> list[float]:
    """Return the times of the missed polls of a client that does not print its member id."""
    endings = (each.ending for each in client.memberships if each.is_nameless)
    return [each.sign.time / 1000 for each in endings if each and each.reason == OVERRUN and each.sign.time]


def _is_missed(membership: Membership, times: Iterable[float]) -> bool:
    return any(membership.joined <= each <= (membership.ended or 0.0) for each in times)


def _are_even(expiries: list[Membership]) -> bool:
    stays = [(each.ended or 0.0) - each.joined for each in expiries]
    return len(stays) >= _OFTEN and max(stays) - min(stays) < _EVEN_S


def _note(history: GroupHistory, member: Member) -> None:
    ends = {each.ended for each in member.memberships if each.how == "expired"}
    member.earlier = [each._replace(reason=MISSED_POLL) if each.ended in ends else each for each in member.earlier]
    if member.ended in ends:
        member.reason = MISSED_POLL
    for rebalance in history.rebalances:
        if rebalance.trigger == member.member_id and rebalance.cause == Cause.SESSION_EXPIRED:
            rebalance.cause = Cause.POLL_TIMEOUT_REASON

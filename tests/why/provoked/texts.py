"""Contradictions in an answer of `why`: two sentences that cannot both be true, or a setting that no client has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kafka_shim.trace import clients
from kafka_shim.trace.clients import Library, spelled
from kafka_shim.why.explanation import Explanation
from kafka_shim.why.memberships import library_of_client

SETTINGS = (
    *(clients.POLL_INTERVAL, clients.POLL_RECORDS, clients.SESSION, clients.HEARTBEAT, clients.INSTANCE),
    *(clients.ASSIGNORS, clients.GROUP),
)
_WORD = re.compile(r"[\w.]*\w")


def contradictions(explanation: Explanation) -> list[str]:
    """Return a sentence for each contradiction in the text of an answer."""
    return [*_needless(explanation), *_foreign(explanation)]


def _needless(explanation: Explanation) -> Iterator[str]:
    """Yield a sentence for each setting that is a remedy and also among those that would not help."""
    words = _words(*explanation.advice.would_not_help)
    for each in explanation.advice.remedies:
        if words & {each.setting, each.key} - {""}:
            yield f"{each.setting} is a remedy and would not help"


def _foreign(explanation: Explanation) -> Iterator[str]:
    """Yield a sentence for each setting of a consumer that no library in the group has, or has under another name."""
    history = explanation.history
    libraries = {library_of_client(history, each) for each in history.members.values()}
    libraries |= {each.library for each in history.refusals.refused.values()}
    own = _names(libraries)
    for each in explanation.advice.remedies:
        # A job that commits without a member id is no member, and its library does not show.
        others = {finding.library for finding in explanation.advice.findings if finding.code == each.code}
        is_of_client = each.side == "client" and each.key in SETTINGS
        if is_of_client and not set(each.setting.split(" or ")) <= own | _names(others):
            yield f"the remedy {each.setting} is no setting of {', '.join(libraries)}"
    text = (*explanation.advice.would_not_help, explanation.advice_text, explanation.note)
    for name in sorted((_words(*text) & _names(Library)) - own):
        yield f"the text has {name}, no setting of {', '.join(libraries)}"


def _names(libraries: set[Library] | type[Library]) -> set[str]:
    names = (spelled(setting, each) for each in libraries for setting in SETTINGS)
    return {each for each in names if each is not None}


def _words(*texts: str) -> set[str]:
    return {word for text in texts for word in _WORD.findall(text)}

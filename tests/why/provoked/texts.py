"""Contradictions in an answer of `why`, as the command prints it: sentences that cannot both be true, a long wait
without a reason in a healthy group, or a setting that no client has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kafka_shim.trace import clients
from kafka_shim.trace.clients import Library, spelled
from kafka_shim.why.explanation import Explanation
from kafka_shim.why.memberships import library_of_client
from kafka_shim.why.text import lines

SETTINGS = (
    *(clients.POLL_INTERVAL, clients.POLL_RECORDS, clients.SESSION, clients.HEARTBEAT, clients.INSTANCE),
    *(clients.ASSIGNORS, clients.GROUP),
)
_WORD = re.compile(r"[\w.]*\w")
_USELESS = "Would not help: "
_NO_REASON = "why knows no reason"


def contradictions(explanation: Explanation, *, is_healthy: bool = False) -> list[str]:
    """Return a sentence for each contradiction in the text of an answer; a healthy group has nothing to do."""
    # The command folds its lines.
    text = " ".join(" ".join(lines(explanation)).split())
    found = [*_needless(explanation, text), *_foreign(explanation, text)]
    if is_healthy:
        each_text = (text, *map(explanation.advice_of, explanation.rebalances))
        found += [f"a healthy group has: {each}" for each in each_text if _NO_REASON in each]
    return found


def _needless(explanation: Explanation, text: str) -> Iterator[str]:
    """Yield a sentence for each setting that is a remedy and also among those that would not help."""
    useless = _words(text.partition(_USELESS)[2], *explanation.advice.would_not_help)
    for each in explanation.advice.remedies:
        if useless & {each.setting, each.key} - {""}:
            yield f"{each.setting} is a remedy and would not help"


def _foreign(explanation: Explanation, text: str) -> Iterator[str]:
    """Yield a sentence for each setting of a consumer that no library in the group has, or has under another name."""
    history = explanation.history
    libraries = {library_of_client(history, each) for each in history.members.values()}
    libraries |= {each.library for each in history.refusals.refused.values()}
    own, named = _names(libraries), ", ".join(libraries)
    # A verdict has this name for the id of a static member of any client.
    of_outside = {clients.INSTANCE}
    for each in explanation.advice.remedies:
        # A job that commits without a member id is no member, and its library does not show.
        others = {finding.library for finding in explanation.advice.findings if finding.code == each.code}
        is_of_client = each.side == "client" and each.key in SETTINGS
        of_outside |= {each.setting} & _names(others)
        if is_of_client and not set(each.setting.split(" or ")) <= own | _names(others):
            yield f"the remedy {each.setting} is no setting of {named}"
    for name in sorted((_words(text) & _names(Library)) - own - of_outside):
        yield f"the text has {name}, no setting of {named}"


def _names(libraries: Iterable[Library]) -> set[str]:
    names = (spelled(setting, each) for each in libraries for setting in SETTINGS)
    return {each for each in names if each is not None}


def _words(*texts: str) -> set[str]:
    return {word for text in texts for word in _WORD.findall(text)}

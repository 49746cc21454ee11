"""Regular expressions of clients: validation, and matching of names, which are those of topics or transactional ids.

The syntax is RE2's: Kafka uses RE2J, this module the library that RE2J was ported from. A pattern has to match a whole
name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import re2

MAX_PATTERN: Final = 4096
"""Characters of a pattern. Kafka has no bound, but a compiler needs a second for some patterns of 26,000 characters."""
MAX_COSTLY: Final = 64
"""Counted repetitions and classes of Unicode in a pattern. Kafka has no bound.

The library compiles under the interpreter's lock, so all clients wait, in another thread too: up to 0.4 ms for each of
them, and 10 ms for the rest of a pattern.
"""
_REMEMBERED: Final = 128
"""Refused patterns that are remembered, and as many compiled ones, by the library: a compiled one takes 0.25 MiB."""
MAX_MEMORY: Final = 2**20
"""Bytes of a compiled pattern and of its matching."""
LARGE: Final = 500_000
"""Steps from which on another thread matches. A step takes about 10 ns at most, far less with most patterns."""
PART: Final = 1_000_000
"""Steps of a part, after which other computations go on."""
MAX_STEPS: Final = 50_000_000
"""Steps of one match, where texts may be long: a match cannot be interrupted, and the end of the process waits."""
_STEPS_TO_BEGIN: Final = 250
"""Steps that matching one text costs beside its characters."""
_STEPS_OF_A_PATTERN: Final = PART // 10
"""Steps to compile any pattern."""
_STEPS_TO_COMPILE: Final = 60
"""Steps to compile an instruction of a pattern."""
_NAMES_IN_STEP: Final = 64
"""Groups with a name that the library copies within a step."""


class RegexError(ValueError):
    """Invalid pattern: INVALID_REGULAR_EXPRESSION (128). The message is the reason."""


_OPTIONS: Final = re2.Options()
_OPTIONS.max_mem = MAX_MEMORY
# Without groups the fast algorithms of the library suffice more often. Groups with a name remain.
_OPTIONS.never_capture = True
_OPTIONS.log_errors = False
_QUOTED: Final = re.compile(r"\\\\|\\Q.*?(?:\\E|$)", re.DOTALL)
_ANY_BYTE: Final = re.compile(r"\\C")
_COSTLY: Final = re.compile(r"\\p|(?<!\\x){\d", re.IGNORECASE)


def compiled(pattern: str) -> Any:
    """Compile a pattern. Raises `RegexError`."""
    if len(pattern) > MAX_PATTERN:
        raise RegexError(f"pattern of {len(pattern)} characters; {MAX_PATTERN} are accepted")
    reason = _refusal(pattern)
    if reason is not None:
        raise RegexError(reason)
    return re2.compile(pattern, _OPTIONS)


@lru_cache(maxsize=_REMEMBERED)
def _refusal(pattern: str) -> str | None:
    """Return the reason to refuse a pattern: its repetition is not compiled again."""
    syntax = _QUOTED.sub("", pattern)
    if _ANY_BYTE.search(syntax):
        # RE2 knows it, RE2J does not.
        return "invalid escape sequence: `\\C`"
    costly = len(_COSTLY.findall(syntax))
    if costly > MAX_COSTLY:
        return f"{costly} counted repetitions and classes of Unicode; {MAX_COSTLY} are accepted"
    try:
        re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return None


def is_large(patterns: Sequence[str], texts: Sequence[str]) -> bool:
    """True if matching takes `LARGE` steps or may take more: instructions of the compiled patterns times bytes of the
    texts."""
    steps = _STEPS_TO_BEGIN * len(patterns) * len(texts)
    if steps >= LARGE:
        return True
    length = _STEPS_TO_COMPILE
    for each in texts:
        length += len(each.encode())
        if length >= LARGE:
            return True
    for each in patterns:
        steps += _instructions(each) * length
        if steps >= LARGE:
            return True
    return False


def takes_too_long(pattern: str, texts: Iterable[str]) -> bool:
    """True if the match of one of these texts may take more than `MAX_STEPS`."""
    return _instructions(pattern) * max((len(each.encode()) for each in texts), default=0) > MAX_STEPS


def _instructions(pattern: str) -> int:
    try:
        program = compiled(pattern)
    except RegexError:
        return 0
    return int(program.programsize * (_NAMES_IN_STEP + program.groups) // _NAMES_IN_STEP)


class Matching:
    """The texts that each of some patterns matches, in parts of `PART` steps. `found` has the patterns that are done.

    A pattern that is invalid here matches nothing, though a newer coordinator accepted it.
    """

    def __init__(self, patterns: Iterable[str], texts: Sequence[str]) -> None:
        self.found: dict[str, frozenset[str]] = {}
        self._parts = self._match(patterns, texts)

    def go_on(self) -> bool:
        """Do one part; return True if more are left."""
        return next(self._parts, False)

    def _match(self, patterns: Iterable[str], texts: Sequence[str]) -> Iterator[bool]:
        steps = 0
        # Many patterns may match the same texts: a set takes 0.5 MB for 10,000.
        sets: dict[frozenset[str], frozenset[str]] = {}
        for pattern in patterns:
            steps += _STEPS_OF_A_PATTERN
            matched: list[str] = []
            instructions = _instructions(pattern)
            if instructions:
                match = compiled(pattern).fullmatch
                for text in texts:
                    if match(text):
                        matched.append(text)
                    steps += _STEPS_TO_BEGIN + instructions * len(text.encode())
                    if steps >= PART:
                        steps = 0
                        yield True
            subset = frozenset(matched)
            self.found[pattern] = sets.setdefault(subset, subset)
            if steps >= PART:
                steps = 0
                yield True

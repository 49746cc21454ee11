"""Patterns of subscriptions that are too long, or too large when compiled."""

from typing import Any

import pytest
import re2

from kafka_shim.groups import regex
from kafka_shim.groups.regex import MAX_COSTLY, MAX_PATTERN, Matching, RegexError, compiled


@pytest.mark.parametrize("pattern", ["x" * (MAX_PATTERN + 1), "((a|b){900}){2}" * 2 + "x" * MAX_COSTLY])
def test_large_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError):
        compiled(pattern)


@pytest.mark.parametrize(
    "costly", [r"\pL", r"\PN", r"\p{Greek}", r"\\\pL", "a{3}", "a{2,1000}", "[x{2}]{2}", r"\\x{10}"]
)
def test_pattern_that_is_long_to_compile_is_refused_before_it_is_compiled(
    costly: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(re2, "compile", lambda *_: pytest.fail("compiled"))
    with pytest.raises(RegexError, match=f"{MAX_COSTLY} are accepted"):
        compiled(costly * (MAX_COSTLY + 1))


@pytest.mark.parametrize("cheap", [r"\\pL", r"\x{41}", "[a-z]", r"\Qa{3}\E", "x{", r"\d"])
def test_many_parts_that_are_short_to_compile_are_accepted(cheap: str) -> None:
    assert compiled(cheap * (MAX_COSTLY + 1)) is not None


def test_refused_pattern_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compilations: list[str] = []
    compile_ = re2.compile

    def counted(pattern: str, options: Any) -> Any:
        compilations.append(pattern)
        return compile_(pattern, options)

    monkeypatch.setattr(re2, "compile", counted)
    for _ in range(3):
        with pytest.raises(RegexError, match="missing"):
            compiled("(refused once")
    assert compilations == ["(refused once"]


def test_as_many_refusals_are_remembered_as_fit() -> None:
    for number in range(300):
        with pytest.raises(RegexError):
            compiled("(" * (MAX_PATTERN - 3) + str(number))
    assert regex._refusal.cache_info().currsize <= 128


def matched(pattern: str, texts: list[str]) -> frozenset[str]:
    matching = Matching([pattern], texts)
    assert not matching.go_on()
    return matching.found[pattern]


def test_pattern_of_many_names_is_accepted() -> None:
    names = [f"orders-{number}" for number in range(300)]
    assert matched("|".join(names), names) == frozenset(names)


def test_stored_pattern_that_is_too_large_matches_nothing() -> None:
    assert matched("x*" * MAX_PATTERN, ["x"]) == frozenset()

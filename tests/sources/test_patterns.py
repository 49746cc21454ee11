"""One scan selects lines by fixed texts; a program has the meaning of each."""

from kafka_shim.sources.layouts import Layouts
from kafka_shim.sources.patterns import Pattern, Program, Scanner, Selected
from kafka_shim.sources.signs import SignName

PROGRAM = Program(
    "broker",
    r"\[GroupCoordinator (?P<broker>\d+)\]: ",
    (Pattern(SignName.EXPIRED, r"Member (?P<member>.+) in group (?P<group>.+) has failed", " has failed"),),
)


def test_a_scan_selects_lines_with_their_numbers_and_the_line_before() -> None:
    scanner = Scanner(["two", "four"])
    pieces = [b"one\ntwo two\nthree\n", b"four\nfive\n", b"six\nfour"]
    assert list(scanner.select(pieces)) == [
        Selected(2, b"two two", b"one"),
        Selected(4, b"four", b"three"),
        Selected(7, b"four", b"six"),
    ]


def test_a_program_gives_the_sign_of_a_line() -> None:
    raw = b"[2026-11-27 09:26:06,123] INFO [GroupCoordinator 7]: Member a-1 in group my group has failed, remov"
    sign = PROGRAM.sign(Layouts().line("server.log", 4711, raw))
    assert sign is not None
    assert (sign.name, sign.group, sign.member, sign.fields) == (SignName.EXPIRED, "my group", "a-1", {"broker": "7"})
    assert (sign.where, sign.time) == ("server.log:4711", 1795771566123)


def test_a_line_without_a_pattern_has_no_sign() -> None:
    assert PROGRAM.sign(Layouts().line("server.log", 1, b"Member a has failed")) is None

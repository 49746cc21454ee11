"""The report's colours and words. Neither needs Spark."""

from __future__ import annotations

from itertools import combinations

from kafka_shim.pipeline.report import plots
from kafka_shim.pipeline.report.words import INVARIANTS, because, remedy, several
from kafka_shim.trace.causes import MEANING

DEUTERANOPIA = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))
"""Machado, Oliveira and Fernandes 2009, on linear red, green and blue."""


def seen(colour: str) -> tuple[float, ...]:
    """Return a colour as people without green cones see it, in Lab."""
    linear = [_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5)]
    red, green, blue = (sum(a * b for a, b in zip(row, linear, strict=True)) for row in DEUTERANOPIA)
    x, y, z = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089,
    )
    f = [max(each, 0.0) ** (1 / 3) if each > 0.008856 else 7.787 * each + 16 / 116 for each in (x, y, z)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


def test_colours_of_causes_differ_without_green_cones() -> None:
    colours = {plots.colour(cause) for cause in (*plots.COLOURS, "another")}
    assert len(colours) == 6
    for one, other in combinations(sorted(colours), 2):
        distance = sum((a - b) ** 2 for a, b in zip(seen(one), seen(other), strict=True)) ** 0.5
        assert distance > 20, (one, other)


def test_every_code_has_words() -> None:
    assert list(INVARIANTS) == [f"I{number}" for number in range(1, 12)]
    for cause in MEANING:
        assert because(cause).endswith(".")
    assert remedy("SESSION_EXPIRED").startswith("Find out why it died")
    assert remedy("") == ""
    assert [several(count, "gap") for count in (1, 1200)] == ["1 gap", "1,200 gaps"]

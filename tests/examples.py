"""Number of Hypothesis examples for tests that set one: a fifth of it in `make check`."""

import os

from hypothesis import settings

QUICK = settings.get_current_profile_name() == "quick"
EVERYTHING = "EVERYTHING" in os.environ
"""True in `make everything`, which has time for more inputs of fuzzers."""


def examples(number: int, fuzz: int | None = None) -> int:
    """Return `number` in `make test`, a fifth in `make check`, and `fuzz`, or `number` again, in `make fuzz`."""
    if fuzz is not None and "FUZZ_SECONDS" in os.environ:
        return fuzz
    return max(2, number // 5) if QUICK else number

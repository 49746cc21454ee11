"""Number of Hypothesis examples for tests that set one: a fifth of it in `make check`, a half in `make test`."""

import os

from hypothesis import settings

QUICK = settings.get_current_profile_name() == "quick"
EVERYTHING = "EVERYTHING" in os.environ
"""True in `make everything`, which has time for more inputs of fuzzers."""


def examples(number: int, fuzz: int | None = None) -> int:
    """Return `number` in `make everything` and `make fuzz`, which takes `fuzz` if there is one; a part of it else."""
    if "FUZZ_SECONDS" in os.environ:
        return fuzz or number
    return number if EVERYTHING else max(2, number // (5 if QUICK else 2))

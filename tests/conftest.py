"""What every test folder shares: how hard Hypothesis looks, with no deadline that a busy machine could miss."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("short", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("long", settings.get_profile("short"), max_examples=5000)
settings.load_profile("long" if "FUZZ_SECONDS" in os.environ else "short")

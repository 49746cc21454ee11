"""Files that one worker of a test run makes for all of them."""

import fcntl
from collections.abc import Callable
from pathlib import Path


def made_once(folder: Path, make: Callable[[], object]) -> Path:
    """Return `folder` after one worker called `make` for it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f"{folder.name}.once", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder.parent / f"{folder.name}.done"
        if not done.exists():
            make()
            done.touch()
    return folder

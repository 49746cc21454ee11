"""Guard for commands that read files: a damaged file ends them with one sentence and exit code 2.

Any field of an event or input may be missing or of another type, and only the code that reads the field notices. So
the guard catches every exception, as the session does around a request.
"""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import click

from kafka_shim.apis.readable import readable

Parameters = ParamSpec("Parameters")


def reads_files(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """Decorate a command with paths of files among its arguments."""

    @wraps(command)
    def run(*arguments: Parameters.args, **options: Parameters.kwargs) -> None:
        try:
            command(*arguments, **options)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            # EOVERFLOW is no fault of a file system: datetime refuses seconds so far away with it.
            if isinstance(error, OSError) and error.errno != errno.EOVERFLOW:
                raise
            place = traceback.extract_tb(error.__traceback__)[-1]
            cause = f"{type(error).__name__} {readable(str(error))}, {Path(place.filename).name} line {place.lineno}"
            raise click.ClickException(
                f"{_paths_of(options)} is damaged: it cannot be read to its end ({cause})."
            ) from error

    return run


def _paths_of(options: dict[str, Any]) -> str:
    """Name the files among the arguments of the current command, but not those that it writes."""
    names = [
        str(each)
        for parameter in click.get_current_context().command.params
        if isinstance(parameter, click.Argument) and not getattr(parameter.type, "writable", False)
        for value in [options[parameter.name or ""]]
        for each in (value if isinstance(value, tuple) else (value,))
        if isinstance(each, Path) or (isinstance(each, str) and os.path.exists(each))
    ]
    return ", ".join(names) or "What was read"

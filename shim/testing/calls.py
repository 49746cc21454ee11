"""Errors of calls of the test kit, for the author of a test.

A call with wrong arguments gets one sentence that says how to write it: Python's own sentence names classes of the kit,
and no argument that exists. Errors that are sentences come without the kit's frames and trio's, 40 lines: pytest's
plugin hides them by itself, unless it is asked for all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, isfunction, signature
from typing import Any, Final, TypeVar, cast

from kafka_shim.lab.interception import similar
from kafka_shim.server.refusals import Refused

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

SENTENCES: Final = (AssertionError, ImportError, RuntimeError, TypeError, ValueError, Refused)
"""Errors of the kit with the remedy for a test's author, so that its frames add nothing."""
_BY_NAME: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def explained(method: Function) -> Function:
    """Make a method that raises TypeError with a sentence for a test's author if its arguments do not fit. Without
    pytest, all frames of an error show in Python's development mode alone (`python -X dev`).
    """

    @wraps(method)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return method(*arguments, **keywords)
        except SENTENCES as error:
            has_begun = error.__traceback__ is None or error.__traceback__.tb_next is not None
            if isinstance(error, TypeError) and not has_begun:
                ended: Exception = TypeError(_sentence(method, arguments[1:], keywords))
            elif "_pytest" in sys.modules or sys.flags.dev_mode:
                raise
            else:
                ended = error.with_traceback(None)
        raise ended

    return cast("Function", call)


def scenario_of(scenario: Callable[..., Any]) -> Callable[..., Any]:
    """Return a scenario to play. Raises TypeError for anything but a function, such as its name."""
    if not callable(scenario):
        raise TypeError(f"A scenario is a function, such as zombie of kafka_shim.testing.scenarios, not {scenario!r}.")
    return scenario


def explains_calls(cls: Class) -> Class:
    """Make all public methods of a class `explained`."""
    for name, member in list(vars(cls).items()):
        if isfunction(member) and not name.startswith("_"):
            setattr(cls, name, explained(member))
    return cls


def _sentence(method: Callable[..., Any], arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> str:
    parameters = list(signature(method).parameters.values())[1:]
    names = [each.name for each in parameters if each.kind in _BY_NAME]
    takes_all = any(each.kind is Parameter.VAR_KEYWORD for each in parameters)
    name = method.__name__
    if unknown := [each for each in keywords if each not in names and not takes_all]:
        return f"{name}() has no argument {unknown[0]!r}; {_choice(unknown[0], names)}"
    positional = [each.name for each in parameters if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
    if len(arguments) > len(positional):
        by_name = [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY]
        example = f": write {by_name[0]}={arguments[len(positional)]!r}" if by_name else ""
        return f"{name}() takes {len(positional) or 'no'} values without a name, not {len(arguments)}{example}."
    if twice := [each for each in positional[: len(arguments)] if each in keywords]:
        return f"{name}() has two values for {twice[0]!r}."
    required = [each.name for each in parameters if each.default is Parameter.empty and each.kind in _BY_NAME]
    missing = [each for each in required if each not in keywords and each not in positional[: len(arguments)]]
    return f"{name}() needs {' and '.join(missing)}: write {name}({', '.join(positional)})."


def _choice(name: str, names: list[str]) -> str:
    return similar(name, names) if names else "it takes none."

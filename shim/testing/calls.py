"""Turn a call of the test kit with wrong arguments into one sentence that says how to write it.

Python's own sentence names classes of the kit, and no argument that exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, isfunction, signature
from typing import Any, Final, TypeVar, cast

from kafka_shim.lab.interception import similar

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

_BY_NAME: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def explained(method: Function) -> Function:
    """Make a method that raises TypeError with a sentence for a test's author if its arguments do not fit."""

    @wraps(method)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return method(*arguments, **keywords)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # The method has begun.
            sentence = _sentence(method, arguments[1:], keywords)
        raise TypeError(sentence)

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

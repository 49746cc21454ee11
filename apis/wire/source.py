"""Python source under construction: lines, indentation, unique names, constants, and compilation.

The source of every compiled function stays readable: `inspect.getsource(function)`, tracebacks and debuggers show it.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """The source of a few functions. `title` names it in tracebacks."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._lines: list[str] = []
        self._indent = 0
        self._taken: dict[str, int] = {}
        self._constants: dict[str, Any] = {}

    def line(self, text: str) -> None:
        """Add one line at the present indentation."""
        self._lines.append("    " * self._indent + text)

    def lines(self, texts: Iterable[str]) -> None:
        """Add several lines."""
        for text in texts:
            self.line(text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add `head`, and indent under it the lines added within the context."""
        self.line(head)
        self._indent += 1
        yield
        self._indent -= 1

    def name(self, stem: str) -> str:
        """Return a unique name: `stem`, or `stem` and a number."""
        number = self._taken[stem] = self._taken.get(stem, 0) + 1
        return stem if number == 1 else f"{stem}_{number}"

    def constant(self, stem: str, value: Any) -> str:
        """Return a name for `value` in the source. The same object keeps its name."""
        for name, constant in self._constants.items():
            if constant is value:
                return name
        name = self.name(stem)
        self._constants[name] = value
        return name

    def helper(self, function: Callable[..., Any]) -> str:
        """Return a name by which the source can call `function`."""
        return self.constant(function.__name__, function)

    def literal(self, value: Any) -> str:
        """Return an expression for `value`."""
        if isinstance(value, (bool, int, str, bytes, type(None))):
            return repr(value)
        return self.constant("constant", value)

    def compile(self, *names: str) -> dict[str, Any]:
        """Run the source; return the functions it defines under `names`."""
        text = "\n".join(self._lines) + "\n"
        filename = f"<{self.title}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        namespace = {**self._constants, "__name__": __name__}
        exec(compile(text, filename, "exec"), namespace)
        return {name: namespace[name] for name in names}

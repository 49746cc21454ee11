"""The end of a `with` block as the end of an effect on the coordinator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Block(ABC):
    """A fault, a barrier or killed clients, until their own method ends them or a `with` block does."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    @abstractmethod
    def _end(self) -> None:
        """End the effect; a second call does nothing."""

"""Division of a long request: a request that names many topics, groups or resources is a row of small ones.

Each part goes to the rule as a request of its own. The table of requests names the array to divide (`requests.py`);
`parts.py` gives the parts their turns, and `long_answers.py` keeps their answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

PART: Final = 16
"""Elements of a part, unless the table of requests says otherwise."""
HEAVY: Final = 1000
"""The weight that ends a part."""

Weigh: TypeAlias = Callable[[Sequence[Any]], int]
"""Returns the weight of elements: the number of members, partitions, offsets or producers in their answers, roughly.
One call weighs all elements of a request, since nearly all requests have few and light ones."""


class Divided(NamedTuple):
    """The division of an API's long requests. `parts` yields them, or is None for a request that is short enough; in
    place of a part it may yield the number of an earlier one: the same answer stands here again. `answers` is the array
    of the response that has all their answers. `merge` makes one element of those of it that belong together: then the
    whole answer is encoded at the end. `common` makes the object that all parts have in common (`Exchange.common`)."""

    parts: Callable[[Any, Any], Iterator[Any] | None]
    answers: str
    merge: Callable[[list[Any]], list[Any]] | None = None
    common: Callable[[], Any] | None = None


def by(
    elements: str,
    answers: str,
    *,
    size: int = PART,
    once: bool = False,
    repeats: bool = False,
    alone: bool = False,
    together: Callable[[Any], Any] | None = None,
    common: Callable[[], Any] | None = None,
    weight: Callable[[Any, Sequence[Any]], int] | None = None,
) -> Divided:
    """Divide the array `elements` of a request into parts of `size`, or fewer with a heavy answer: `weight(exchange,
    elements)` weighs them. `once`: answer an element once if it is there twice. `repeats`: repeat
    the answer of an element that is there often, instead of making it again. `alone`: not where several processes share
    their topics, because the rule may park the request there. `together`: see `divide_together`; `common`: see
    `Divided`."""

    def parts(request: Any, call: Any) -> Iterator[Any] | None:
        if alone and call.broker.shared is not None:
            return None
        array = getattr(request, elements)
        if array is None or len(array) < 2:
            return None
        if len(array) <= size and (weight is None or weight(call, array) <= HEAVY):
            return None
        weigh = None if weight is None else partial(weight, call)
        if repeats:
            return divide_once(request, elements, array, size=size, weigh=weigh)
        if together is not None:
            return divide_together(request, elements, array, together, size=size)
        return divide(request, elements, dict.fromkeys(array) if once else array, size=size, weigh=weigh)

    return Divided(parts, answers, common=common)


def is_heavy(elements: Sequence[Any], weigh: Weigh) -> bool:
    """Return True if a few elements are to be divided for the weight of their answers."""
    return weigh(elements) > HEAVY


def divide(
    request: Any, name: str, elements: Iterable[Any], *, size: int = PART, weigh: Weigh | None = None
) -> Iterator[Any]:
    """Yield a request for each part of `elements`, the array `name` of a request."""
    part: list[Any] = []
    total = 0
    for element in elements:
        part.append(element)
        if weigh is not None:
            total += weigh((element,))
        if len(part) == size or total >= HEAVY:
            yield _part(request, name, part)
            part, total = [], 0
    if part:
        yield _part(request, name, part)


def divide_together(
    request: Any, name: str, elements: Iterable[Any], key: Callable[[Any], Any], *, size: int = PART
) -> Iterator[Any]:
    """Yield a request for the elements of each `size` keys: those of one key stay together, since the rule refuses
    them."""
    by_key: dict[Any, list[Any]] = {}
    for element in elements:
        by_key.setdefault(key(element), []).append(element)
    of_one_key = list(by_key.values())
    for at in range(0, len(of_one_key), size):
        yield _part(request, name, [each for elements in of_one_key[at : at + size] for each in elements])


def divide_once(
    request: Any, name: str, elements: Iterable[Any], *, size: int, weigh: Weigh | None = None
) -> Iterator[Any]:
    """Yield a request for each part of `elements`. An element that was there before is a part by itself, and from then
    on the number of this part."""
    numbers: dict[Any, int | None] = {}
    new: list[Any] = []
    yielded = total = 0
    for element in elements:
        key = _key(element)
        if key not in numbers:
            new.append(element)
            numbers[key] = None
            if weigh is not None:
                total += weigh((element,))
            if len(new) == size or total >= HEAVY:
                if len(new) == 1:
                    numbers[key] = yielded
                yield _part(request, name, new)
                yielded, new, total = yielded + 1, [], 0
            continue
        if new:
            yield _part(request, name, new)
            yielded, new, total = yielded + 1, [], 0
        number = numbers[key]
        if number is None:
            numbers[key] = yielded
            yield _part(request, name, [element])
        else:
            yield number
        yielded += 1
    if new:
        yield _part(request, name, new)


def _part(request: Any, name: str, elements: list[Any]) -> Any:
    part = copy(request)
    setattr(part, name, elements)
    return part


def _key(element: Any) -> Any:
    """Return a key that equal elements have in common. An element with elements of its own has one for itself."""
    key = element
    if not isinstance(element, str):
        values = (getattr(element, each.name) for each in element.fields)
        key = tuple(tuple(each) if isinstance(each, list) else each for each in values)
    try:
        hash(key)
    except TypeError:
        return object()
    return key

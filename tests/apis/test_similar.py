"""The name that a person may have meant."""

import pytest

from kafka_shim.apis import similar
from kafka_shim.apis.similar import LONGEST, MOST, similar_name


def test_the_most_similar_name_is_found() -> None:
    assert similar_name("ordres", ["payments", "orders", "order"]) == "orders"
    assert similar_name("zzz", ["payments", "orders"]) is None
    assert similar_name("orders", []) is None


@pytest.mark.parametrize(
    ("name", "names"), [("x" * (LONGEST + 1), ["x"]), ("x" * 1_000_000, ["x"]), ("x" * 10, ["x" * (MOST // 100)] * 11)]
)
def test_what_takes_long_is_not_compared(name: str, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similar, "get_close_matches", lambda *_: pytest.fail("compared"))
    assert similar_name(name, names) is None

"""The way of a request in docs/architecture.md is the way the code goes."""

from tests.walk import PAGE, written


def test_requests_go_the_way_the_document_says() -> None:
    text = PAGE.read_text()
    assert written(text) == text, "write the lists anew: python -m tests.walk"

"""Contradictions in an answer of `why`: two sentences that cannot both be true."""

from __future__ import annotations

from kafka_shim.why.explanation import Explanation


def contradictions(explanation: Explanation) -> list[str]:
    """Return a sentence for each contradiction in the text of an answer."""
    return list(_needless(explanation))


def _needless(explanation: Explanation) -> list[str]:
    """Return a sentence for each setting that is a remedy and also among those that would not help."""
    advice = explanation.advice
    words = {word.strip(",;()") for note in advice.would_not_help for word in note.split()}
    return [
        f"{each.setting} is a remedy and would not help"
        for each in advice.remedies
        if words & {each.setting, each.key} - {""}
    ]

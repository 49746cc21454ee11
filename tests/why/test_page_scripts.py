"""The scripts of the page share one scope: a name that two of them declare is the last one's for both."""

import re
from collections import Counter

from kafka_shim.why.page import SCRIPTS, asset

DECLARED = re.compile(r"^(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)


def test_no_two_scripts_declare_one_name() -> None:
    names = Counter(name for script in SCRIPTS for name in DECLARED.findall(asset(script).decode()))
    assert names.total() > 150
    assert [name for name, count in names.items() if count > 1] == []

"""The rules that tests/by_hand/mutations removes stand in the sources, and in the table of docs."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def mutations(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests/by_hand/mutations")
    import mutations_command

    return mutations_command


def test_each_rule_can_be_removed(mutations):
    for rule in mutations.RULES:
        text = (ROOT / rule.file).read_text()
        assert mutations.mutated(text, rule) != text


def test_the_page_has_a_row_for_each(mutations):
    page = (ROOT / "docs/work/rule-mutations.md").read_text()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines()
            if line.startswith("| ")]
    assert [rule.rule for rule in mutations.RULES if rows.count(rule.rule) != 1] == []

"""Every patch has a header as DEP-3 wants it; a malformed one is refused with the remedy."""

from __future__ import annotations

from datetime import date

import pytest

from building import BuildError, series
from building.patch_header import LONGEST_PURPOSE, parse_header, read_header, split_remark
from building.source_tree import PATCHES

PATHS = series.read_series(PATCHES)
COMMIT = "commit:" + "0123456789abcdef" * 2 + "01234567"
FIELDS = {
    "Description": "changes a greeting\n To be tested.",
    "Origin": "other, horovod-opt",
    "Forwarded": "no",
    "Last-Update": "2026-11-28",
}


def write(**fields: str | None) -> str:
    """A patch with the header FIELDS, but for `fields`; None leaves one out."""
    values = {name.replace("_", "-"): value for name, value in fields.items()}
    lines = [f"{name}: {value}" for name, value in {**FIELDS, **values}.items()
             if value is not None]
    return "\n".join(lines) + "\n\n--- a/greeting.txt\n+++ b/greeting.txt\n@@ -1 +1 @@\n-1\n+2\n"


def refusal(text: str) -> str:
    with pytest.raises(BuildError) as caught:
        parse_header(text, "greeting.patch")
    assert str(caught.value).startswith("greeting.patch:")
    return str(caught.value)


# The patches of this repository


@pytest.mark.parametrize("patch", PATHS, ids=lambda path: path.stem)
def test_header_of_the_patch(patch):
    header = read_header(patch)
    if patch.parent.name != "hooks":
        assert not header.forwarded.startswith("not-needed"), "upstream's users meet it, too"


# What a header may be


def test_short_header():
    header = parse_header(write(), "greeting.patch")
    assert (header.purpose, header.reason) == ("changes a greeting", "To be tested.")
    assert (header.origin, header.forwarded) == ("other, horovod-opt", "no")
    assert header.last_update == date(2026, 11, 28)
    assert header.bug is None and header.applied_upstream is None


def test_long_header():
    description = "changes a greeting: a lot\n Why: it is old.\n .\n - It was new.\n   Once."
    header = parse_header(write(Description=description, Bug="https://example.org/issues/1",
                                Applied_Upstream=f"{COMMIT}\n (in part:\n a word)",
                                Forwarded="not-needed (nobody\n reads it)"), "greeting.patch")
    assert header.purpose == "changes a greeting: a lot"
    assert header.reason == "Why: it is old.\n.\n- It was new.\n  Once."
    assert header.bug == "https://example.org/issues/1"
    assert split_remark(header.applied_upstream) == (COMMIT, "in part: a word")
    assert split_remark(header.forwarded) == ("not-needed", "nobody reads it")
    assert split_remark("no") == ("no", "")


@pytest.mark.parametrize("field", FIELDS)
def test_required_field_is_missing(field):
    assert f"the header has no {field}; add one" in refusal(write(**{field: None}))


@pytest.mark.parametrize("field, value, rule", [
    ("Origin", "horovod-opt", "upstream, backport, vendor or other, then a comma"),
    ("Origin", "other,", "upstream, backport, vendor or other, then a comma"),
    ("Bug", "#4047", "a URL"),
    ("Bug", "https://example.org/ and more", "a URL"),
    ("Forwarded", "yes", "no, not-needed with the reason in parentheses, or a URL"),
    ("Forwarded", "not-needed", "no, not-needed with the reason in parentheses, or a URL"),
    ("Forwarded", "not-needed ()", "no, not-needed with the reason in parentheses, or a URL"),
    ("Applied-Upstream", "master", "commit:HASH of 40 digits"),
    ("Applied-Upstream", "commit:01234567", "commit:HASH of 40 digits"),
    ("Applied-Upstream", f"{COMMIT} in part", "a remark in parentheses"),
    ("Last-Update", "28 November 2026", "a date, YYYY-MM-DD"),
    ("Last-Update", "20261128", "a date, YYYY-MM-DD"),
    ("Last-Update", "2026-11-31", "a date, YYYY-MM-DD"),
])
def test_value_that_is_not_allowed(field, value, rule):
    message = refusal(write(**{field: value}))
    assert f"{field} is " in message and rule in message


def test_first_line_of_the_description_is_too_long():
    parse_header(write(Description="x" * LONGEST_PURPOSE + "\n Why."), "greeting.patch")
    message = refusal(write(Description="x" * (LONGEST_PURPOSE + 1) + "\n Why."))
    assert "Description has 161 characters; leave 160" in message


def test_description_does_not_say_why():
    assert "does not say why" in refusal(write(Description="changes a greeting"))


@pytest.mark.parametrize("text, message", [
    (write(Upstream="not fixed"), ":6: Upstream is not a field of a header"),
    (write(Origin="other, horovod-opt\nOrigin: other, me"), ":4: a second Origin; leave one"),
    (write(Description="changes a greeting\nTo be tested."), ":2: neither 'Field: value' nor"),
    (write(Description="changes a greeting\n\n To be tested."), ":2: neither 'Field: value' nor"),
    (write(Description=""), ":1: neither 'Field: value' nor"),
    (" indented\n" + write(), ":1: neither 'Field: value' nor"),
    (write().replace("\n\n---", "\n---"), "no header before the first ---"),
    (write().partition("\n\n")[2], "no header before the first ---"),
    ("", "no header before the first ---"),
], ids=["unknown", "twice", "not-indented", "empty-line", "empty-field", "no-field",
        "no-empty-line", "no-header", "empty"])
def test_malformed_header_is_refused(text, message):
    assert message in refusal(text)

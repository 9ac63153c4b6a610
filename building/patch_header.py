"""Reads the header of a patch, which follows Debian's patch tagging guidelines (DEP-3).

    Description: what the patch does, in one line
     Why it does so, in as many lines as that takes, each indented by one space. A line with a
     full stop alone separates paragraphs.
    Origin: other, horovod-opt
    Bug: https://...
    Forwarded: no
    Applied-Upstream: commit:... (what of the patch upstream's master has)
    Last-Update: 2026-11-28

Bug and Applied-Upstream are left out where there is nothing to say.
"""

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Optional

from building import BuildError

LONGEST_PURPOSE = 160  # characters
REQUIRED = ("Description", "Origin", "Forwarded", "Last-Update")
ALLOWED = {
    "Origin": (r"(upstream|backport|vendor|other), \S.*",
               "upstream, backport, vendor or other, then a comma and where it is from"),
    "Bug": (r"https?://[^\s/]+/\S+", "a URL"),
    "Forwarded": (r"no|not-needed \(.+\)|https?://[^\s/]+/\S+",
                  "no, not-needed with the reason in parentheses, or a URL"),
    "Applied-Upstream": (r"commit:[0-9a-f]{40}( \(.+\))?",
                         "commit:HASH of 40 digits, then a remark in parentheses if it needs one"),
    "Last-Update": (r"\d{4}-\d{2}-\d{2}", "a date, YYYY-MM-DD"),
}
FIELD = re.compile(r"([A-Z][A-Za-z-]*): (\S.*)")


@dataclass(frozen=True)
class PatchHeader:
    """What the fields say. A field that is left out is None."""

    purpose: str  # the first line of Description
    reason: str  # its other lines
    origin: str
    forwarded: str
    last_update: date
    bug: Optional[str] = None
    applied_upstream: Optional[str] = None


def read_header(patch: Path) -> PatchHeader:
    """The header of a file. Raises BuildError if it is malformed."""
    return parse_header(patch.read_text(), patch.name)


def parse_header(text: str, name: str) -> PatchHeader:
    """The header of a patch's text. Raises BuildError with `name` and the remedy."""
    fields = _split_fields(text, name)
    for field in REQUIRED:
        if field not in fields:
            raise BuildError(f"{name}: the header has no {field}; add one (docs/work/patches.md)")
    purpose, _, reason = fields.pop("Description").partition("\n")
    if len(purpose) > LONGEST_PURPOSE:
        raise BuildError(f"{name}: the first line of Description has {len(purpose)} characters; "
                         f"leave {LONGEST_PURPOSE} and move the rest to the lines after it")
    if not reason:
        raise BuildError(f"{name}: Description does not say why; add lines that do, each indented "
                         "by one space")
    values = {field: " ".join(value.split()) for field, value in fields.items()}
    for field, value in values.items():
        pattern, rule = ALLOWED[field]
        if not re.fullmatch(pattern, value):
            raise BuildError(f"{name}: {field} is {value!r}; it must be {rule}")
    return PatchHeader(purpose, reason, values["Origin"], values["Forwarded"],
                       _read_date(values["Last-Update"], name), values.get("Bug"),
                       values.get("Applied-Upstream"))


def split_remark(value: str) -> tuple[str, str]:
    """A field's value and the remark in parentheses after it, "" if it has none."""
    word, _, remark = value.partition(" (")
    return word, remark[:-1]


def _split_fields(text: str, name: str) -> dict[str, str]:
    """Values by field, with the line breaks of the file and without the indentation."""
    header, separator, _ = text.partition("\n\n--- ")
    if not separator:
        raise BuildError(f"{name}: no header before the first ---; begin with Description: and end "
                         "with one empty line")
    fields: dict[str, str] = {}
    field = None
    for number, line in enumerate(header.split("\n"), 1):
        match = FIELD.fullmatch(line)
        if match is not None:
            field = match[1]
            if field not in REQUIRED and field not in ALLOWED:
                raise BuildError(f"{name}:{number}: {field} is not a field of a header; they are "
                                 f"Description, {', '.join(ALLOWED)}")
            if field in fields:
                raise BuildError(f"{name}:{number}: a second {field}; leave one")
            fields[field] = match[2]
        elif field is not None and re.match(r" \s*\S", line):
            fields[field] += f"\n{line[1:]}"
        else:
            raise BuildError(f"{name}:{number}: neither 'Field: value' nor the next line of a "
                             "field, which is indented by one space")
    return fields


def _read_date(text: str, name: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BuildError(f"{name}: Last-Update is {text}, which is no day of the calendar; it must "
                         "be a date, YYYY-MM-DD") from None

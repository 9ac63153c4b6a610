"""What users write for their files: paths, globs, brace ranges, or several of them."""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from typing import Union

from horovod_opt.io.errors import InputError, tell

Pattern = Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]]

MOST = 1_000_000  # paths that braces may stand for
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")
# pathlib makes one slash of two.
_SCHEME = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9+.-]+):(?P<path>/.*)", re.DOTALL)
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_PIPE = "pipe:"
_JOINT = "::"


def absolute(pattern: Pattern) -> tuple[str, ...]:
    """A pattern's paths and globs, each absolute, sorted, without braces. Raises InputError if it
    is none, and for what is not in a file system."""
    return tuple(sorted({os.path.abspath(os.path.expanduser(path))
                         for text in texts_of(pattern) for path in _paths(text)}))


def texts_of(pattern: Pattern) -> list[str]:
    """What a pattern consists of, as it was given. Raises InputError if it is none."""
    items = [pattern] if isinstance(pattern, (str, os.PathLike)) else pattern
    try:
        texts = [os.fspath(item) for item in items]
    except TypeError:
        texts = []
    if not texts or not all(isinstance(text, str) and text and "\0" not in text for text in texts):
        raise InputError(f"{tell(pattern)} names no data; remedy: a path, a glob, or a list of "
                         "them")
    return texts


def root_of(patterns: Sequence[str]) -> str:
    """The folder that names of files are relative to: it depends on no file that is found."""
    return os.path.commonpath([fixed_folder(item) for item in patterns])


def fixed_folder(pattern: str) -> str:
    """The folder that a path or glob names whatever is found."""
    if os.path.isdir(pattern):
        return pattern
    if not os.path.lexists(pattern):
        while glob.has_magic(pattern):
            pattern = os.path.dirname(pattern)
            if not glob.has_magic(pattern):
                return pattern
    return os.path.dirname(pattern)


def remedy(pattern: str) -> str:
    """What to do about a path or a glob that names nothing. Brackets in the name of a folder or
    file that is there are no part of a glob."""
    path = pattern
    while path != os.path.dirname(path):
        if "[" in os.path.basename(path) and os.path.lexists(path):
            rest = pattern[len(path):]
            return (f"[...] in a glob stands for one of the characters in it: {glob.escape(path)}"
                    f"{rest}, as glob.escape() writes it")
        path = os.path.dirname(path)
    return "correct the path or the glob"


def _paths(text: str) -> list[str]:
    if os.path.lexists(os.path.expanduser(text)):  # whatever its name looks like
        return [text]
    refuse_program(text)
    _refuse_drive(text)
    _refuse_address(text)
    refuse_joined(text)
    paths = []
    for path in expand(text):
        paths.append(path)
        if len(paths) > MOST:
            raise InputError(f"{text}: more than {MOST} paths; remedy: smaller ranges in braces, "
                             "or a glob")
    return paths


def refuse_program(text: str) -> None:
    """What other loaders run."""
    if text.startswith(_PIPE):
        raise InputError(f"{text}: a program's output can be read once, in its order, and samples "
                         "are read by their place in a file; remedy: let the program write files, "
                         "and open them")


def _refuse_drive(text: str) -> None:
    """Paths as Windows has them."""
    if _DRIVE.match(text) and not os.path.lexists(text[:2]):
        raise InputError(f"{text}: a path of Windows, which has no meaning here; remedy: the path "
                         "that this system has for it, such as /mnt/c/data for C:\\data in WSL")


def _refuse_address(text: str) -> None:
    """What other loaders fetch."""
    scheme = _SCHEME.fullmatch(text)
    if scheme is None:
        return
    name, path = scheme["name"].lower(), "/" + scheme["path"].lstrip("/")
    if name == "file":
        raise InputError(f"{text}: an address, where a path is wanted; remedy: {path}")
    raise InputError(f"{name}:/{path}: files at {name}: addresses are not fetched, and samples are "
                     "read by their place in a file; remedy: copy them to a folder that every node "
                     "has, or mount them, and open that path; or stage_in= of open, a folder of "
                     "the node that they are brought to")


def refuse_joined(text: str) -> None:
    """What WebDataset takes for several. A name may have these characters, too, as of a folder
    that is there."""
    if _JOINT in text and not any(glob.glob(os.path.expanduser(path), recursive=True)
                                  for path in itertools.islice(expand(text), MOST)):
        raise InputError(f"{text}: no such files; remedy: a list of paths or globs: "
                         f"{text.split(_JOINT)}")


def expand(text: str) -> Iterator[str]:
    """As a shell does, but for ranges of letters: {a,b}, {00..12}, {0..12..3}, nested."""
    found = _first_braces(text)
    if found is None:
        yield text
        return
    begin, commas, end = found
    edges = [begin, *commas, end]
    choices = [text[first + 1:after] for first, after in zip(edges, edges[1:])]
    numbers = _RANGE.fullmatch(choices[0]) if len(choices) == 1 else None
    for choice in _numbers(numbers) if numbers else choices:
        for middle in [choice] if numbers else expand(choice):
            for rest in expand(text[end + 1:]):
                yield text[:begin] + middle + rest


def _first_braces(text: str) -> tuple[int, list[int], int] | None:
    """Where the first braces that stand for something begin, have commas, and end."""
    for begin in (at for at, character in enumerate(text) if character == "{"):
        depth, commas = 0, []
        for at in range(begin, len(text)):
            depth += (text[at] == "{") - (text[at] == "}")
            if text[at] == "," and depth == 1:
                commas.append(at)
            if depth == 0:
                if commas or _RANGE.fullmatch(text[begin + 1:at]):
                    return begin, commas, at
                break
    return None


def _numbers(numbers: re.Match) -> Iterator[str]:
    """With leading zeros, if one of both ends has some."""
    first, last, step = numbers.groups()
    has_zeros = any(re.match("-?0.", end) for end in (first, last))
    width = max(len(first), len(last)) if has_zeros else 0
    begin, end, stride = int(first), int(last), max(abs(int(step or 1)), 1)
    values = range(begin, end + 1, stride) if begin <= end else range(begin, end - 1, -stride)
    return (f"{value:0{width}d}" for value in values)

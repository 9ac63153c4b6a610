"""The rooms of the repository: what imports what, and how large a folder and a file may be."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("horovod_opt", "graph_analysis")
FOLDERS = ("building", "examples", "experiments", "graph_analysis", "horovod_lab", "horovod_opt",
           "tests")
DOOR = Path("horovod_opt/cli.py")  # where the command line hands over
MOST_FILES = 20  # of code in a folder
SMALL = 40  # lines
STAND_INS = Path("tests/native/interleaving/product.h")  # in the place of types of the product


def code() -> list[Path]:
    """Every file of code, from the root."""
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return sorted(path.relative_to(ROOT) for path in files if path.suffix in (".py", ".cc", ".h"))


def imports(path: Path) -> set[str]:
    """The modules that a file names in an import, wherever it stands."""
    names = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def test_the_product_imports_nothing_of_the_lab_but_where_the_command_line_hands_over():
    users = [path for path in code() if path.parts[0] in PRODUCT and path.suffix == ".py"
             and any(name.split(".")[0] == "horovod_lab" for name in imports(path))]
    assert users == [DOOR]


@pytest.mark.parametrize("module", [
    "horovod_opt", "horovod_opt.runtime", "horovod_opt.doctor.inspection", "horovod_opt.io",
    "horovod_opt.planning.plan_command", "horovod_opt.launcher", "graph_analysis"])
def test_a_training_loads_nothing_of_the_lab(module):
    program = (f"import {module}, sys\n"
               "print([name for name in sys.modules if name.startswith('horovod_lab')])")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         cwd=ROOT, check=True)
    assert run.stdout == "[]\n"


TYPE = re.compile(
    r"(?:class|struct|enum class|enum) (?:alignas\(\w+\) )?(\w+)(?: final)?(?: :| \{)")


def test_a_type_of_c_plus_plus_has_a_name_of_its_own():
    """Two of a name in one namespace, in sources that never include both, link without a word, and
    one has the other's functions (the one definition rule)."""
    files = defaultdict(set)
    for path in code():
        if path.suffix == ".py" or not {"csrc", "native"} & set(path.parts) or path == STAND_INS:
            continue
        namespaces = []
        for line in (ROOT / path).read_text().splitlines():
            if opened := re.fullmatch(r"namespace ?([\w:]*) \{", line):
                namespaces.append(opened[1])
            elif line.startswith("}  // namespace"):
                del namespaces[-1:]
            elif (name := TYPE.match(line)) and namespaces == ["horovod_opt"]:
                files[name[1]].add(str(path))
    assert len(files) > 100
    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}


def test_no_folder_is_crowded():
    folders = Counter(path.parent for path in code())
    assert {folder: files for folder, files in folders.items() if files > MOST_FILES} == {}


def test_few_files_are_small():
    """Splitting below an idea hides the whole: at most one file in ten. A script of examples/habits
    is all that a habit takes."""
    files = [path for path in code() if path.parts[:2] != ("examples", "habits")]
    small = [path for path in files if len((ROOT / path).read_text().splitlines()) < SMALL]
    assert len(small) <= len(files) / 10, "\n".join(map(str, small))

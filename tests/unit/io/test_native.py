"""The input side's C interface: one table, which the library, its header and ctypes agree on."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import google_crc32c
import numpy as np
import pytest

from horovod_opt.io import native, native_table
from horovod_opt.native import c_interface

FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def exported(library: Path) -> set[str]:
    """Its own C functions, as a linker sees them."""
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    return {name.partition("@")[0] for _, kind, name in map(str.split, symbols.splitlines())
            if kind == "T"}


def test_the_library_exports_what_is_in_the_table(compiled):
    if shutil.which("nm") is None:
        pytest.skip("needs nm, of binutils")
    names = [function.name for function in native_table.FUNCTIONS]
    assert len(set(names)) == len(names)
    assert exported(compiled) == set(names)


def test_a_library_of_another_build_is_refused(tmp_path, monkeypatch):
    for name, source, built in (
            ("stale", 'const char* hio_abi(void) { return "0123456789"; }', "0123456789"),
            ("other", "int nothing;", "none")):
        library = tmp_path / f"{name}.so"
        (tmp_path / f"{name}.c").write_text(source)
        subprocess.run(["gcc", "-shared", "-fPIC", tmp_path / f"{name}.c", "-o", library],
                       check=True)
        monkeypatch.setenv(native.PATH, str(library))
        with pytest.raises(ImportError, match=re.escape(
                f"{library} does not belong to this horovod_opt")) as error:
            native.library.__wrapped__()
        assert f"native interface is {built}, Python's is {native_table.HASH}" in str(error.value)
        assert "remedy: pip install --force-reinstall horovod-opt" in str(error.value)


def test_a_library_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv(native.PATH, str(tmp_path / "missing.so"))
    with pytest.raises(ImportError, match="missing.so. Remedy: pip install --force-reinstall"):
        native.library.__wrapped__()


def test_the_hash_follows_the_table(monkeypatch):
    assert c_interface.hash_of(native_table._declarations()) == native_table.HASH
    monkeypatch.setattr(native_table, "FUNCTIONS", native_table.FUNCTIONS[:-1])
    assert c_interface.hash_of(native_table._declarations()) != native_table.HASH


@pytest.mark.parametrize("compiler, suffix, standard", [
    ("gcc", "c", "c11"), ("g++", "cc", "c++17")])
def test_the_header_is_c_and_cpp(tmp_path, compiler, suffix, standard):
    (tmp_path / "horovod_opt_io_abi.h").write_text(native_table.header())
    (tmp_path / f"twice.{suffix}").write_text('#include "horovod_opt_io_abi.h"\n' * 2)
    subprocess.run([compiler, f"-std={standard}", *FLAGS, "-fsyntax-only", f"twice.{suffix}"],
                   cwd=tmp_path, check=True)


def test_the_command_writes_the_header_without_other_packages():
    """A build has Python alone."""
    root = Path(__file__).parents[3]
    program = (f"import runpy, sys; sys.path.insert(0, {str(root)!r}); "
               "runpy.run_module('horovod_opt.io.native_table', run_name='__main__')")
    answer = subprocess.run([sys.executable, "-I", "-S", "-W", "error", "-c", program], check=True,
                            capture_output=True, text=True)
    assert (answer.stdout, answer.stderr) == (native_table.header(), "")


def test_the_header_says_what_each_function_does():
    header = native_table.header()
    for function in native_table.FUNCTIONS:
        first_words = " ".join(function.doc.split()[:4])
        assert f"/* {first_words}" in header or not function.doc
    assert max(map(len, header.splitlines())) <= 120


def test_structs_have_the_compilers_layout(tmp_path):
    (tmp_path / "horovod_opt_io_abi.h").write_text(native_table.header())
    lines, expected = [], []
    for name, struct in native_table.STRUCTS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        expected.append(f"{name} {ctypes.sizeof(struct)}")
        for field, _ in struct._fields_:
            lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), '
                         f"sizeof((({name}*)0)->{field}));")
            place = getattr(struct, field)
            expected.append(f"{name}.{field} {place.offset} {place.size}")
    (tmp_path / "layout.c").write_text(
        '#include "horovod_opt_io_abi.h"\n#include <stddef.h>\n#include <stdio.h>\n'
        "int main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n")
    subprocess.run(["gcc", "layout.c", "-o", "layout"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "layout"], capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines() == expected


@pytest.mark.parametrize("size", [0, 1, 8, 1000, native._SHORT - 1, native._SHORT, 100_000])
def test_checksums_are_those_of_other_implementations(size):
    data = np.random.default_rng(size).bytes(size)
    assert native.crc32c(data) == google_crc32c.value(data)
    assert native.crc32c(np.frombuffer(data, np.uint8)) == google_crc32c.value(data)
    assert native.crc32c(data[3:], native.crc32c(data[:3])) == google_crc32c.value(data)

"""The generated C header and the ctypes structs describe the same memory."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from pathlib import Path

from graph_analysis.reductions import DTYPES, REDUCE_OPS
from horovod_opt import counters, settings
from horovod_opt.native import c_interface, header, structs

STRUCTS = {"HorovodOptSettings": structs.NativeSettings, "HorovodOptStats": structs.NativeStats}


def test_layout_is_the_compilers(tmp_path: Path):
    (tmp_path / "horovod_opt_abi.h").write_text(header.header())
    lines = []
    for name, struct in STRUCTS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for field, _ in struct._fields_:
            lines.append(
                f'printf("{name}.{field} %zu %d\\n", offsetof({name}, {field}), '
                f"_Generic((({name}*)0)->{field}, int64_t: 0, double: 1));"
            )
    (tmp_path / "layout.c").write_text(
        '#include "horovod_opt_abi.h"\n#include <stddef.h>\n#include <stdio.h>\n'
        "int main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n"
    )
    flags = ["-Wall", "-Wextra", "-Werror", "-std=c11"]
    subprocess.run(["gcc", *flags, "layout.c", "-o", "layout"], cwd=tmp_path, check=True)
    program = subprocess.run([tmp_path / "layout"], capture_output=True, text=True, check=True)

    expected = []
    for name, struct in STRUCTS.items():
        expected.append(f"{name} {ctypes.sizeof(struct)}")
        for field, kind in struct._fields_:
            is_double = int(kind is ctypes.c_double)
            expected.append(f"{name}.{field} {getattr(struct, field).offset} {is_double}")
    assert program.stdout.splitlines() == expected


def test_the_header_is_cpp_too(tmp_path: Path):
    (tmp_path / "horovod_opt_abi.h").write_text(header.header())
    (tmp_path / "twice.cc").write_text('#include "horovod_opt_abi.h"\n' * 2)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    subprocess.run(["g++", *flags, "twice.cc"], cwd=tmp_path, check=True)


def test_the_command_writes_the_header_without_warnings():
    command = [sys.executable, "-W", "error", "-m", "horovod_opt.native.header"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == header.header()
    assert answer.stderr == ""
    assert f'#define HOROVOD_OPT_ABI "{header.HASH}"' in answer.stdout


def test_the_hash_follows_the_structs(monkeypatch):
    def hash_now() -> str:
        return c_interface.hash_of(header._declarations())

    assert hash_now() == header.HASH
    monkeypatch.setattr(counters, "TABLE", counters.TABLE[::-1])
    assert hash_now() != header.HASH


def test_the_table_of_reductions_is_pythons(tmp_path: Path):
    (tmp_path / "horovod_opt_abi.h").write_text(header.header())
    (tmp_path / "rows.c").write_text(
        '#include "horovod_opt_abi.h"\n#include <stdio.h>\n'
        '#define DTYPE(name, number, bytes) printf("%s %d %d\\n", #name, number, bytes);\n'
        '#define REDUCE_OP(name, number, words) printf("%s %d %s\\n", #name, number, words);\n'
        "int main(void) { HOROVOD_OPT_DTYPES(DTYPE) HOROVOD_OPT_REDUCE_OPS(REDUCE_OP) return 0; }\n"
    )
    subprocess.run(["gcc", "-Wall", "-Werror", "rows.c", "-o", "rows"], cwd=tmp_path, check=True)
    program = subprocess.run([tmp_path / "rows"], capture_output=True, text=True, check=True)
    assert program.stdout.splitlines() == [
        *(f"{name.upper()} {dtype.number} {dtype.bytes}" for name, dtype in DTYPES.items()),
        *(f"{words.upper()} {number} {words}" for number, words in REDUCE_OPS.items()),
    ]


def test_names_of_the_enumerators():
    constants = dict(re.findall(r"(HOROVOD_OPT_[A-Z_]+) = (\d+),", header.header()))
    assert constants == {
        **{f"HOROVOD_OPT_MODE_{mode.upper()}": str(bit) for mode, bit in settings.MODES.items()},
        "HOROVOD_OPT_CONTROLLER_MPI": "0",
        "HOROVOD_OPT_CONTROLLER_GLOO": "1",
        "HOROVOD_OPT_MESSAGES_NONE": "0",
        "HOROVOD_OPT_MESSAGES_MPI": "1",
        "HOROVOD_OPT_MESSAGES_TCP": "2",
    }


def test_settings_reach_the_native_side():
    native = structs.to_native(settings.Settings(mode="nbcs+scp", gs_interval=7, scp_core=-2))
    assert (native.mode, native.gs_interval, native.scp_core) == (6, 7, -2)
    assert native.nbcs_sleep_max_us == settings.Settings().nbcs_sleep_max_us


def test_counters_come_back():
    native = structs.NativeStats(rank=3, mode=5, controller=1, wait_seconds=0.5, data_bytes=2**40)
    stats = structs.from_native(native)
    assert (stats.rank, stats.mode, stats.controller) == (3, "gs+scp", "gloo")
    assert (stats.wait_seconds, stats.data_bytes) == (0.5, 2**40)


def test_the_package_imports_nothing_heavy():
    code = (
        "import sys, json; import horovod_opt.native.structs, horovod_opt.runtime; "
        "horovod_opt.stats; "
        "print(json.dumps([m for m in ('horovod', 'tensorflow', 'torch', 'rich', 'psutil') "
        "if m in sys.modules]))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert json.loads(answer.stdout) == []

"""The calls of the patched Horovod, against a small native library of our own."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

import horovod_opt
from horovod_opt import runtime
from horovod_opt.counters import TABLE
from horovod_opt.io import totals
from horovod_opt.launcher import built
from horovod_opt.native import header, structs
from horovod_opt.settings import Settings

# Keeps what it is told, counts up from 1 in every field of the counters, and has RANKS ranks.
SOURCE = """
#include "horovod_opt_abi.h"
#include <string.h>

static HorovodOptSettings settings;
static char texts[2][4096];
static const char* init_error = "";
static int initialized = 0, ranks = 0;
static int64_t input_samples = 0, span = 0;

static void Fill(int rank, HorovodOptStats* out) {
%s
  out->rank = rank; out->size = 2; out->mode = settings.mode; out->controller = 1;
  out->messages = 2;
}
const char* horovod_opt_abi(void) { return ABI; }
void horovod_opt_configure(const HorovodOptSettings* s, const char* text, const char* error) {
  settings = *s; strcpy(texts[0], text); strcpy(texts[1], error);
}
const char* horovod_opt_init_error(void) { return init_error; }
int horovod_opt_stats(HorovodOptStats* out) {
  if (!initialized) return -1;
  Fill(0, out);
  return 0;
}
const char* horovod_opt_plans(void) {
  return "plan\\ta1\\twarming up\\t0\\t0\\tcompiled\\t\\nbucket\\t0\\nslot\\t0\\tx\\n"
         "plan\\tb2\\tactive\\t9\\t0\\trun\\t\\nbucket\\t0\\nslot\\t9\\ty\\n"
         "plan\\tc3\\twarming up\\t1\\t0\\todd\\tits own reason\\nbucket\\t0\\nslot\\t0\\tz\\n";
}
void horovod_opt_set_input(HorovodOptStats* input) { input_samples = input->input_samples; }
int64_t test_input_samples(void) { return input_samples; }
void horovod_opt_timeline_span(const char* row, const char* name, int64_t begin, int64_t end) {
  span = end - begin;
}
int64_t test_span(void) { return span; }
int horovod_opt_gathered_ranks(void) { return ranks; }
int horovod_opt_gathered_stats(int rank, HorovodOptStats* out) {
  if (rank < 0 || rank >= ranks) return -1;
  Fill(rank, out);
  return 0;
}
const char* horovod_opt_add_plan(const char* text) { (void)text; return ""; }
void horovod_opt_remove_plan(const char* text) { (void)text; }
void horovod_opt_reject_plan(const char* hash, const char* reason) { (void)hash; (void)reason; }
void horovod_opt_leave_out(int64_t key, const char* reason) { (void)key; (void)reason; }
void test_init(const char* error) { init_error = error; initialized = 1; }
void test_shutdown(int gathered) { ranks = gathered; }
const char* test_text(int which) { return texts[which]; }
int64_t test_mode(void) { return settings.mode; }
"""


def build(folder: Path, abi_hash: str = header.HASH, name: str = "mpi_lib.so") -> Path:
    folder.mkdir(parents=True)
    (folder / "horovod_opt_abi.h").write_text(header.header())
    fill = "".join(f"  out->{row.field} = {n + 1};\n" for n, row in enumerate(TABLE))
    (folder / "fake.c").write_text(SOURCE % fill)
    command = ["gcc", "-shared", "-fPIC", f'-DABI="{abi_hash}"', "fake.c", "-o", name]
    subprocess.run(command, cwd=folder, check=True)
    return folder / name


@pytest.fixture(autouse=True)
def _nothing_initialized(monkeypatch):
    monkeypatch.setattr(runtime, "_libraries", {})


@pytest.fixture
def lib(tmp_path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(build(tmp_path / "horovod" / "tensorflow")))


def read_configuration(lib: ctypes.CDLL) -> tuple[str, str]:
    """The settings' text and the error that the native side got."""
    lib.test_text.restype = ctypes.c_char_p
    return lib.test_text(0).decode(), lib.test_text(1).decode()


def test_settings_reach_the_library(lib, monkeypatch):
    monkeypatch.setenv("HOROVOD_OPT_MODE", "NBCS+gs")
    runtime.configure(lib)
    build = f"horovod-opt={built.identity()}\n"
    assert read_configuration(lib) == (Settings(mode="gs+nbcs").text + build, "")
    assert lib.test_mode() == structs.settings.MODES["gs"] | structs.settings.MODES["nbcs"]


def test_wrong_settings_are_told_not_raised(lib, monkeypatch):
    monkeypatch.setenv("HOROVOD_OPT_MODE", "nbsc")
    runtime.configure(lib)
    text, error = read_configuration(lib)
    assert text == Settings().text
    assert error.startswith("HOROVOD_OPT_MODE='nbsc': ")
    assert lib.test_mode() == 0


def test_a_name_that_is_no_text_is_told(lib, monkeypatch):
    monkeypatch.setenv("HOROVOD_OPT_\udcff", "1")
    runtime.configure(lib)
    assert "HOROVOD_OPT_\\udcff='1': there is no such setting" in read_configuration(lib)[1]


def test_the_ranks_error_is_raised(lib):
    runtime.configure(lib)
    lib.test_init(b"")
    assert runtime.raise_init_error(lib) is None
    message = ctypes.c_char_p("ranks 0, 2-5 differ in größe".encode())
    lib.test_init(message)
    with pytest.raises(horovod_opt.SettingsError, match="ranks 0, 2-5 differ in größe"):
        runtime.raise_init_error(lib)


def test_stats(lib, monkeypatch):
    monkeypatch.setenv("HOROVOD_OPT_MODE", "scp")
    runtime.configure(lib)
    lib.test_init(b"")
    stats = dataclasses.asdict(horovod_opt.stats())
    assert stats.pop("mode") == "scp"
    assert stats.pop("controller") == "gloo"
    assert stats.pop("messages") == "tcp"
    assert (stats.pop("rank"), stats.pop("size")) == (0, 2)
    names = [row.field for row in TABLE]
    assert stats == {name: names.index(name) + 1 for name in stats}


def test_the_input_side_goes_to_the_library(lib):
    runtime.set_input({"input_samples": 7})  # nothing is initialized: no library to tell
    assert lib.test_input_samples() == 0
    runtime.configure(lib)
    lib.test_init(b"")
    runtime.set_input({"input_samples": 8, "input_wait_seconds": 0.5})
    assert lib.test_input_samples() == 8


def test_a_wait_for_input_is_in_the_timeline_of_every_rank(lib, monkeypatch):
    runtime.configure(lib)
    totals.add_wait(100, 350)
    assert lib.test_span() == 0  # no rank but the first has a timeline
    monkeypatch.setenv("HOROVOD_OPT_TIMELINE_RANKS", "1")
    runtime.configure(lib)
    totals.add_wait(100, 350)
    assert lib.test_span() == 250


def test_stats_before_init(lib):
    with pytest.raises(ValueError, match=r"needs hvd\.init.*: nothing"):
        horovod_opt.stats()
    runtime.configure(lib)
    with pytest.raises(ValueError, match=r"needs hvd\.init"):
        horovod_opt.stats()
    lib.test_init(b"")
    with pytest.raises(ValueError, match=r"stats\('torch'\) needs.*: tensorflow"):
        horovod_opt.stats("torch")


def test_stats_name_a_foreign_horovod(monkeypatch):
    foreign = type(sys)("horovod")
    foreign.__version__ = "0.28.1"
    monkeypatch.setitem(sys.modules, "horovod", foreign)
    with pytest.raises(ValueError, match=r"0\.28\.1, is not the one of horovod-opt"):
        horovod_opt.stats()


def test_the_framework_initialised_last_is_the_default(lib, tmp_path, monkeypatch):
    torch = ctypes.CDLL(str(build(tmp_path / "horovod" / "torch", name="mpi_lib_v2.so")))
    for mode, library in {"gs": lib, "nbcs": torch}.items():
        monkeypatch.setenv("HOROVOD_OPT_MODE", mode)
        runtime.configure(library)
        library.test_init(b"")
    assert horovod_opt.stats().mode == "nbcs"
    assert horovod_opt.stats("tensorflow").mode == "gs"
    monkeypatch.setenv("HOROVOD_OPT_MODE", "scp")
    runtime.configure(lib)
    assert horovod_opt.stats().mode == "scp"


@pytest.mark.parametrize("built", ["0123456789abcdef", ""])
def test_another_build_is_refused(tmp_path, built):
    lib = ctypes.CDLL(str(build(tmp_path / "horovod" / "tensorflow", built)))
    with pytest.raises(ImportError) as caught:
        runtime.configure(lib)
    message = str(caught.value)
    assert f"is {built}, Python's is {header.HASH}" in message
    assert "pip install --force-reinstall horovod-opt" in message


def test_upstreams_library_is_refused(tmp_path):
    (tmp_path / "none.c").write_text("")
    subprocess.run(["gcc", "-shared", "-fPIC", "none.c", "-o", "none.so"], cwd=tmp_path, check=True)
    with pytest.raises(ImportError, match="native interface is none"):
        runtime.configure(ctypes.CDLL(str(tmp_path / "none.so")))


@pytest.mark.parametrize("framework, value, says", [
    ("tensorflow", "1", True), ("tensorflow", "0", False), ("tensorflow", "", False),
    ("tensorflow", "true", False), ("torch", "1", False)])
def test_plans_say_why_xla_never_reaches_them(tmp_path, monkeypatch, framework, value, says):
    lib = ctypes.CDLL(str(build(tmp_path / "horovod" / framework)))
    monkeypatch.setenv("HOROVOD_ENABLE_XLA_OPS", value)
    runtime.configure(lib)
    lib.test_init(b"")
    compiled, active, odd = horovod_opt.plans()
    assert (active.state, active.reason) == ("active", "")
    assert odd.reason == "its own reason"
    assert compiled.state == "warming up"
    assert compiled.reason == says * (
        "HOROVOD_ENABLE_XLA_OPS=1: tensors of what TensorFlow compiles by XLA are negotiated and "
        "never reach their plan")


def test_report_prints_once_for_each_init(lib, capsys):
    for _ in range(2):
        runtime.configure(lib)
        lib.test_init(b"")
        lib.test_shutdown(0)
        runtime.report(lib)
        assert capsys.readouterr().err == ""
        lib.test_shutdown(2)
        runtime.report(lib)
        runtime.report(lib)
        captured = capsys.readouterr()
        assert captured.err.count("What the background thread cost") == 1
        assert "rank 1" in captured.err
        assert captured.out == ""


def test_report_at_exit(tmp_path):
    """As in a job that calls neither shutdown nor anything after training."""
    library = build(tmp_path / "horovod" / "torch")
    code = (
        "import atexit, ctypes, sys\nfrom horovod_opt import runtime\n"
        "lib = ctypes.CDLL(sys.argv[1])\nruntime.configure(lib)\nlib.test_init(b'')\n"
        "atexit.register(lambda: (lib.test_shutdown(3), runtime.report(lib)))\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, library], capture_output=True, text=True, check=True
    )
    assert "rank 2" in answer.stderr and "Traceback" not in answer.stderr


def test_report_without_init_prints_nothing(lib, capsys):
    lib.test_shutdown(2)
    runtime.report(lib)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("mode", "value", "expected"),
    [("off", None, None), ("gs", None, "1"), ("nbcs+scp", None, "1"), ("gs", "0", "0"),
     ("nonsense", None, None)],
)
def test_open_mpi_yields_in_every_mode_but_off(lib, monkeypatch, mode, value, expected):
    name = "OMPI_MCA_mpi_yield_when_idle"
    monkeypatch.setenv(name, "to be restored")
    monkeypatch.delenv(name)
    if value is not None:
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOROVOD_OPT_MODE", mode)
    runtime.configure(lib)
    assert os.environ.get(name) == expected

"""Whether every symbol that Horovod's library for TensorFlow needs, built for GPUs, is in what
TensorFlow's wheel exports. No GPU is needed: compiles the two sources that use TensorFlow for GPUs,
against the wheel's own headers and CUDA's. A wheel and its libraries take 3 GiB of FOLDER while it
is looked at. Exit status 1 if something is missing."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpu_table import FAILED, PASSED, Row

from building import cuda, source_tree

ROOT = Path(__file__).parents[3]
VERSIONS = ("2.16.2", "2.17.1", "2.18.1", "2.19.1", "2.20.0", "2.21.0")
SOURCES = ("mpi_ops", "xla_mpi_ops")
EXPORTING = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")
# Of the names in a mangled symbol: what only TensorFlow's libraries can have.
THEIRS = re.compile("10tensorflow|15stream_executor|3xla|3tsl|4absl|6google8protobuf")
STREAM = re.compile("15stream_executor")
HEADERS = ("", "external/highwayhash", "external/farmhash_archive/src")


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/by_hand/gpu/symbols", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="for wheels and objects")
    parser.add_argument("--versions", type=lambda text: text.split(","), default=list(VERSIONS),
                        metavar="VERSION,...", help=f"of TensorFlow ({','.join(VERSIONS)})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the rows go, too")
    return parser.parse_args(argv)


def unpack_wheel(version: str, folder: Path) -> None:
    """Its headers, and `exported`: what its libraries define."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
               "--disable-pip-version-check", "--dest", str(folder), f"tensorflow=={version}"]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("tensorflow-*.whl")
    patterns = ["tensorflow/include/*", *(f"tensorflow/{name}" for name in EXPORTING)]
    subprocess.run(["unzip", "-q", "-o", str(wheel), *patterns, "-d", str(folder)], check=True)
    libraries = [folder / "tensorflow" / name for name in EXPORTING]
    exported = symbols_of(["nm", "-D", "--defined-only", *map(str, libraries)])
    (folder / "exported").write_text("\n".join(sorted(exported)) + "\n")
    for path in (wheel, *libraries):
        path.unlink()


def symbols_of(command: Sequence[str]) -> set[str]:
    """What nm lists, without versions."""
    output = subprocess.run(command, check=True, text=True, capture_output=True).stdout
    return {line.split()[-1].partition("@")[0] for line in output.splitlines()
            if line.strip() and not line.endswith(":")}


def mpi_compiler() -> str:
    beside = Path(sys.executable).with_name("mpicxx")
    return str(beside) if beside.exists() else "mpicxx"


def compile_command(source: Path, target: Path, version: str, wheel: Path, upstream: Path,
                    generated: Path, toolkit: Path) -> list[str]:
    numbers = [int(number) for number in version.split(".")]
    number = numbers[0] * 10**9 + numbers[1] * 10**6 + numbers[2] * 10**3
    third_party = upstream / "third_party"
    return [mpi_compiler(), "-std=c++17", "-O2", "-DNDEBUG", "-fPIC", "-w", "-c", str(source),
            "-o", str(target), "-DHAVE_GPU=1", "-DHAVE_CUDA=1", "-DHAVE_MPI=1",
            f"-DTENSORFLOW_VERSION={number}", "-DEIGEN_MAX_ALIGN_BYTES=64",
            "-D_GLIBCXX_USE_CXX11_ABI=1", f"-I{upstream}",
            *(f"-I{wheel / 'tensorflow/include' / name}" for name in HEADERS),
            f"-I{ROOT}", f"-I{generated}", f"-I{toolkit / 'include'}",
            *(f"-I{third_party / name}" for name in ("boost/assert/include", "boost/config/include",
              "boost/core/include", "boost/detail/include", "boost/iterator/include",
              "boost/lockfree/include", "boost/mpl/include", "boost/parameter/include",
              "boost/predef/include", "boost/preprocessor/include",
              "boost/static_assert/include", "boost/type_traits/include",
              "boost/utility/include", "lbfgs/include", "flatbuffers/include"))]


def missing(needed: Iterable[str], exported: set[str]) -> list[str]:
    return sorted(symbol for symbol in needed if THEIRS.search(symbol) and symbol not in exported)


def row(version: str, needed: set[str], exported: set[str]) -> Row:
    lost = missing(needed, exported)
    theirs = [symbol for symbol in needed if THEIRS.search(symbol)]
    streams = sum(bool(STREAM.search(symbol)) for symbol in theirs)
    value = f"{len(theirs)} symbols, {streams} of stream_executor"
    if lost:
        value += f", {len(lost)} missing: {', '.join(lost[:3])}"
    return Row("", f"TensorFlow {version}", value, FAILED if lost else PASSED)


def look(version: str, folder: Path, upstream: Path, generated: Path, toolkit: Path) -> Row:
    wheel = folder / version
    wheel.mkdir(parents=True, exist_ok=True)
    if not (wheel / "exported").exists():
        unpack_wheel(version, wheel)
    needed: set[str] = set()
    defined: set[str] = set()
    for name in SOURCES:
        target = wheel / f"{name}.o"
        source = upstream / "horovod/tensorflow" / f"{name}.cc"
        result = subprocess.run(compile_command(source, target, version, wheel, upstream, generated,
                                                toolkit), text=True, capture_output=True)
        if result.returncode:
            errors = [line for line in result.stderr.splitlines() if "error" in line]
            return Row("", f"TensorFlow {version}", f"{name}.cc: {(errors or ['no error'])[0]}",
                       FAILED)
        needed |= symbols_of(["nm", "--undefined-only", str(target)])
        defined |= symbols_of(["nm", "--defined-only", str(target)])
    return row(version, needed - defined, set((wheel / "exported").read_text().split()))


def main() -> int:
    arguments = parse_arguments()
    toolkit = cuda.find_toolkit(os.environ)
    if toolkit is None or shutil.which("unzip") is None:
        print("error: needs CUDA's headers (HOROVOD_CUDA_HOME) and unzip", file=sys.stderr)
        return 2
    folder = arguments.folder.absolute()
    upstream = source_tree.prepare(folder / "upstream")
    generated = folder / "generated"
    generated.mkdir(exist_ok=True)
    header = subprocess.run([sys.executable, "-m", "horovod_opt.native.header"], check=True,
                            text=True, capture_output=True, cwd=ROOT).stdout
    (generated / "horovod_opt_abi.h").write_text(header)
    rows = []
    for version in arguments.versions:
        rows.append(look(version, folder, upstream, generated, Path(toolkit.home)))
        print(f"{rows[-1].what}: {rows[-1].value}  {rows[-1].outcome}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps([vars(it) for it in rows], indent=1) + "\n")
    return int(any(it.outcome == FAILED for it in rows))

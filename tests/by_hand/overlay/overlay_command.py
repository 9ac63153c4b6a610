"""Runs each program on a folder and on a pack in the folder's place, and prints a table."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

READERS = Path(__file__).with_name("readers.py")
MADE = Path(__file__).with_name("made_files.py")
WORKS, PASSED_ON, REFUSED, NOT_RUN, WRONG = "works", "passed on", "refused", "not run", "WRONG"
TIME_LIMIT = 300

GO = """package main
import ("fmt"; "hash/crc32"; "os"; "path/filepath")
func main() {
    sum := uint32(0)
    err := filepath.Walk(os.Args[1], func(path string, info os.FileInfo, err error) error {
        if err != nil { return err }
        if !info.IsDir() {
            data, err := os.ReadFile(path)
            if err != nil { return err }
            sum ^= crc32.ChecksumIEEE(data)
        }
        return nil
    })
    if err != nil { fmt.Println(err); os.Exit(1) }
    fmt.Println(sum)
}
"""
C = """#include <stdio.h>
int main(int count, char** words) {
    char path[4096];
    snprintf(path, sizeof path, "%s/table.csv", words[1]);
    FILE* file = fopen(path, "r");
    long sum = 0, byte;
    if (!file) return perror(path), 1;
    while ((byte = fgetc(file)) != EOF) sum = sum * 31 + byte;
    return printf("%ld\\n", sum) < 0;
}
"""


class Row(NamedTuple):
    """`command` has {root}; `expected`: a missed call is none of ours to answer."""

    name: str
    command: list[str]
    expected: str = WORKS
    why_not: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, metavar="PYTHON",
                        help="that has the libraries of readers.py (this one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return _run(Path(folder), options.python)


def _run(work: Path, python: str) -> int:
    command = Path(sys.executable).with_name("horovod-opt")
    source = work / "source"
    subprocess.run([python, MADE, source], check=True)
    subprocess.run([command, "pack", source, work / "pack"], check=True)
    seen = work / "seen"
    failed = False
    print("| program | outcome | expected |\n| --- | --- | --- |", flush=True)
    for row in rows(python, work):
        outcome = (f"{NOT_RUN}: {row.why_not}" if row.why_not
                   else _outcome(row, command, work / "pack", source, seen))
        failed |= outcome.split(":")[0] not in (row.expected, NOT_RUN)
        print(f"| {row.name} | {outcome} | {row.expected} |", flush=True)
    return int(failed)


def _outcome(row: Row, command: Path, pack: Path, source: Path, seen: Path) -> str:
    def run(words: list[str], root: Path) -> subprocess.CompletedProcess:
        return subprocess.run([*words, *(word.replace("{root}", str(root))
                                         for word in row.command)],
                              capture_output=True, text=True, timeout=TIME_LIMIT, check=False)

    plain = run([], source)
    if plain.returncode != 0:
        lines = plain.stderr.strip().splitlines()
        return f"{NOT_RUN}: {lines[-1] if lines else plain.returncode}"[:100]
    ours = run([str(command), "io", "run", "--pack", str(pack), "--at", str(seen), "--"], seen)
    if ours.returncode == 0:
        same = ours.stdout.replace(str(seen), str(source)) == plain.stdout
        return WORKS if same else f"{WRONG}: {ours.stdout[:60]!r}"
    if ours.returncode == 2 and "horovod-opt io run" in ours.stderr:
        return REFUSED
    texts = ours.stdout + ours.stderr
    is_missing = any(word in texts for word in (
        "o such file", "FileNotFound", "not found", "does not exist", "cannot access", "can't cd"))
    return PASSED_ON if is_missing else f"{WRONG}: {texts.strip()[-80:]!r}"


def rows(python: str, work: Path) -> list[Row]:
    """All programs, each with what it is to end as."""
    def reader(name: str, what: str, expected: str = WORKS) -> Row:
        return Row(what, [python, str(READERS), name, "{root}"], expected)

    return [
        reader("pil", "PIL, with Python's `glob`"),
        reader("cv2_imread", "`cv2.imread`"),
        reader("tf_read_file", "`tf.io.read_file`, `tf.io.gfile.glob`"),
        reader("tf_record_dataset", "`tf.data.TFRecordDataset`"),
        reader("tf_list_files", "`tf.data.Dataset.list_files`, parallel `map`"),
        reader("keras_folder", "`keras.utils.image_dataset_from_directory`"),
        reader("image_folder", "torchvision's ImageFolder"),
        reader("image_folder_workers", "the same in DataLoader's workers"),
        reader("torch_load", "`torch.load(mmap=True)`"),
        reader("h5py_twice", "h5py, a file opened twice"),
        reader("numpy_memmap", "`np.load(mmap_mode=)`, `np.memmap`"),
        reader("mmap_of_everything", "`mmap`, `Path.rglob`"),
        reader("pandas_csv", "pandas, CSV"),
        reader("pyarrow_parquet", "pyarrow, Parquet"),
        reader("sqlite", "sqlite3, read-only"),
        Row("`cp -r`, `diff -r`", ["sh", "-c", f"rm -rf {work}/copy && cp -r {{root}} {work}/copy "
                                  f"&& diff -r {{root}} {work}/copy"]),
        Row("`find`, `xargs sha256sum`", ["sh", "-ec", "cd / && find {root} -type f | sort | xargs "
                                          "sha256sum"]),
        Row("`tar`", ["sh", "-ec", "tar -C {root} -cf - --sort=name . | tar -tf -"]),
        Row("`grep -r`", ["sh", "-ec", "grep -rc 1 {root} | sort"]),
        Row("`ls -lR`", ["sh", "-ec", "ls -lR --time-style=full-iso {root} | grep ^-"]),
        Row("bash: a glob, `test`, `<`", ["bash", "-ec", "for f in {root}/images/*/*.jpg; do "
                                          "test -r $f; cksum < $f; done"]),
        Row("C, `fopen`", [_compiled(work, "dynamic", "cc"), "{root}"]),
        reader("libc_glob", "libc's `glob()`"),
        Row("`cd` below it, where it is not there", ["sh", "-ec", "cd {root}; cat table.csv"]),
        Row("C, linked statically", [_compiled(work, "static", "cc", "-static"), "{root}"],
            REFUSED),
        _go(work),
    ]


def _compiled(work: Path, name: str, *command: str) -> str:
    source = work / "main.c"
    source.write_text(C)
    subprocess.run([*command, "-o", work / name, source], check=True)
    return str(work / name)


def _go(work: Path) -> Row:
    name = "Go: a static program"
    if shutil.which("go") is None:
        return Row(name, [], REFUSED, "no Go here")
    (work / "main.go").write_text(GO)
    subprocess.run(["go", "build", "-o", work / "go", work / "main.go"], check=True,
                   env={"PATH": "/usr/bin:/bin", "HOME": str(work), "CGO_ENABLED": "0"})
    return Row(name, [str(work / "go"), "{root}"], REFUSED)

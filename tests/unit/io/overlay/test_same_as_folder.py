"""A program sees below the folder what the pack was made of, whatever call it asks by."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Draws a path and a call, and does it below both folders; prints what differs.
DRAWN = r"""
import os, random, shutil, stat, sys
seen, source, seed = sys.argv[1:]
draw = random.Random(int(seed))
names = [os.path.relpath(os.path.join(folder, name), source) for folder, folders, files
         in os.walk(source) for name in folders + files] + ["", "none", "a/none", "README/x"]

def path(root):
    words = draw.choice(names).split("/")
    for _ in range(draw.randrange(3)):
        words.insert(draw.randrange(len(words) + 1), draw.choice([".", "", "a/..", "none/..", "b"]))
    end = draw.choice(["", "", "", "/", "/.", "/.."])
    return root + "/" + "/".join(words) + end

def attributes(status):
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        return "folder"
    return kind, stat.S_IMODE(status.st_mode), status.st_size, status.st_mtime_ns

def content(p):
    with open(p, "rb") as file:
        file.seek(draw.choice([0, 0, 1, 4096]))
        status = os.fstat(file.fileno())
        assert os.path.samestat(status, os.stat(p)), p
        return file.read(), attributes(status)

def at_folder(p):
    fd = os.open(os.path.dirname(p), os.O_RDONLY | os.O_DIRECTORY)
    try:
        name = os.path.basename(p) or "."
        found = attributes(os.stat(name, dir_fd=fd)), sorted(os.listdir(fd)), stat.S_IFMT(
            os.fstat(fd).st_mode)
        try:
            os.close(os.open(name, os.O_RDONLY, dir_fd=fd))
        except OSError as error:
            found += error.errno,
        return found
    finally:
        os.close(fd)

def entries(p):
    with os.scandir(p) as found:
        return sorted((e.name, e.is_dir(), e.is_file(), e.is_symlink()) for e in found)

def read_by_descriptors(p):
    fd = os.open(p, os.O_RDONLY)
    try:
        other = os.dup(fd)
        try:
            first = os.read(fd, 7)
        except OSError:  # a folder: EISDIR there, EBADF here
            return "cannot be read"
        return first, os.read(other, 7), os.pread(fd, 9, 2), os.lseek(fd, 0, os.SEEK_END)
    finally:
        os.close(fd)
        os.close(other)

CALLS = [
    lambda p: attributes(os.stat(p)), lambda p: attributes(os.lstat(p)), content, at_folder,
    lambda p: sorted(os.listdir(p)), entries, read_by_descriptors,
    lambda p: (os.path.exists(p), os.path.isdir(p), os.path.isfile(p), os.path.islink(p)),
    lambda p: [os.access(p, how) for how in (os.F_OK, os.R_OK, os.X_OK)],
    lambda p: os.readlink(p), lambda p: os.listxattr(p),
    lambda p: os.path.realpath(p).removeprefix(os.path.realpath(root)),
]
wrong = 0
for i in range(1500):
    call, state = draw.choice(CALLS), draw.getstate()
    results = []
    for root in (source, seen):
        draw.setstate(state)
        where = path(root)
        try:
            results.append(call(where))
        except OSError as error:
            results.append((type(error).__name__, error.errno))
    # What is above the folder is the kernel's, which need not have it.
    if results[0] != results[1] and not os.path.relpath(where, seen).startswith(".."):
        wrong += 1
        print(i, where, results)
print("wrong:", wrong)
"""


@pytest.mark.parametrize("seed", range(2))
def test_drawn_calls(job, seed):
    out = job.python(DRAWN, str(job.at), str(job.source), str(seed))
    assert out.splitlines()[-1] == "wrong: 0", out[:4000]


@pytest.mark.parametrize("job", [None, 3], indirect=True, ids=["plain", "zstd"])
def test_all_contents(job):
    counters = job.counters("diff", "-r", str(job.source), str(job.at))
    assert counters["opens_local"] + counters["opens_store"] == len(
        [path for path in job.source.rglob("*") if path.is_file()])
    assert counters["failures"] == counters["refused"] == 0
    assert (counters["opens_store"] > 0) == any(
        path.name for path in job.pack.glob("*.tar") if b".zst\0" in path.read_bytes())


def test_programs_of_the_shell(job, tmp_path):
    done = job.run("sh", "-ec", f"""
        find {job.at} -type f | wc -l
        wc -c < "{job.at}/a/in/x y.txt"
        tar cf - -C {job.at} a | tar tf - | wc -l
        cp -rp {job.at} {tmp_path}/copy
        ls {job.at}/a/*.bin | wc -l
        readlink -f {job.at}/a/../b//./1.bin
        """)
    assert done.stderr == ""
    files = [path for path in job.source.rglob("*") if path.is_file()]
    of_a = list((job.source / "a").rglob("*"))
    assert done.stdout.split("\n")[:-1] == [
        str(len(files)), "495", str(len(of_a) + 1), "6", f"{job.at}/b/1.bin"]
    subprocess.run(["diff", "-r", job.source, tmp_path / "copy"], check=True)
    for path in files:
        copy = (tmp_path / "copy" / path.relative_to(job.source)).stat()
        assert (copy.st_mtime_ns, copy.st_mode) == (path.stat().st_mtime_ns, path.stat().st_mode)


CHANGES = r"""
import errno, os, sys
root, outside = sys.argv[1:]
open(outside, "w").close()
file, new, folder = root + "/a/1.bin", root + "/a/new", root + "/a"
for name, change, expected in [
    ("write", lambda: open(file, "w"), "EROFS"), ("append", lambda: open(file, "ab"), "EROFS"),
    ("both", lambda: open(file, "r+b"), "EROFS"), ("new", lambda: open(new, "w"), "EROFS"),
    ("exclusive", lambda: open(file, "x"), "EEXIST"),
    ("in nothing", lambda: open(root + "/none/new", "w"), "ENOENT"),
    ("folder", lambda: open(folder, "w"), "EISDIR"),
    ("unlink", lambda: os.unlink(file), "EROFS"), ("rmdir", lambda: os.rmdir(folder), "EROFS"),
    ("unlink nothing", lambda: os.unlink(new), "ENOENT"),
    ("mkdir", lambda: os.mkdir(new), "EROFS"), ("mkdir again", lambda: os.mkdir(folder), "EEXIST"),
    ("out", lambda: os.rename(file, outside), "EROFS"),
    ("in", lambda: os.rename(outside, new), "EROFS"),
    ("link", lambda: os.link(outside, new), "EROFS"),
    ("symlink", lambda: os.symlink("x", new), "EROFS"),
    ("truncate", lambda: os.truncate(file, 0), "EROFS"),
    ("chmod", lambda: os.chmod(file, 0), "EROFS"),
    ("utime", lambda: os.utime(file), "EROFS"), ("chown", lambda: os.chown(file, 0, 0), "EROFS"),
    ("fifo", lambda: os.mkfifo(new), "EROFS"),
    ("descriptor", lambda: os.write(os.open(file, os.O_RDONLY), b"x"), "EBADF"),
    ("memory", lambda: os.ftruncate(os.open(file, os.O_RDONLY), 0), "EINVAL"),
]:
    try:
        change()
        print(name, "was done")
    except OSError as error:
        if errno.errorcode[error.errno] != expected:
            print(name, error)
print(os.access(file, os.W_OK), os.path.getsize(outside), open(file, "rb").read())
"""


def test_nothing_is_changed(job, tmp_path):
    assert job.python(CHANGES, str(job.at), str(tmp_path / "outside")) == "False 0 b'\\x01'\n"


IN_PROCESSES = r"""
import multiprocessing, os, sys, threading
import numpy as np
root = sys.argv[1]

def total(_):
    return sum(len(open(f"{root}/{name}/{i}.bin", "rb").read()) for name in "ab" for i in range(6))

if __name__ == "__main__":
    totals, threads = [], [threading.Thread(target=lambda: totals.append(total(0)))
                           for _ in range(8)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            totals += pool.map(total, range(4))
    print(set(totals), np.memmap(root + "/b/3.bin", mode="r").sum(),
          os.getpid() == int(sys.argv[2]))
"""


GOES = r"""
import glob, os, subprocess, sys
root = sys.argv[1]

def look():
    entries = sorted(os.listdir("."))
    shell = subprocess.run(["sh", "-c", "pwd -P; ls | wc -l; cd .. && cat README; cd in 2>&-"],
                           stdout=subprocess.PIPE, text=True).stdout
    return (os.getcwd().removeprefix(os.path.realpath(root)), entries, len(glob.glob("*")),
            os.path.realpath("x y.txt").removeprefix(os.path.realpath(root)),
            shell.replace(os.path.realpath(root), ""))

os.chdir(root + "/a")
print(look(), open("1.bin", "rb").read(), open("in/x y.txt").read(5))
os.chdir("in")
print(look(), os.path.exists("../1.bin"), os.stat("../../README").st_size)
os.chdir("../../b/.")
print(look())
folder = os.open("../a/in", os.O_RDONLY)
os.fchdir(folder)
print(look(), open("x y.txt").read(5))
for wrong in ("x y.txt", "none", "../1.bin/x"):
    try:
        os.chdir(wrong)
    except OSError as error:
        print(error.errno, os.getcwd().removeprefix(os.path.realpath(root)))
pid = os.fork()
if pid == 0:
    os.chdir("..")
    print(look(), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
os.chdir("/")
print(os.getcwd(), os.path.exists("usr"))
"""


def test_going_there(job):
    """Where it is not there, as where it is: nothing is left, and libc's own calls find nothing."""
    plain = subprocess.run([sys.executable, "-c", GOES, job.source], stdout=subprocess.PIPE,
                           text=True, check=True)
    assert "/a/in" in plain.stdout
    assert job.python(GOES, str(job.at)) == plain.stdout
    assert not list(Path("/dev/shm").glob("hvdopt:*")) + list(Path("/tmp").glob("hvdopt:*"))
    assert job.python("import ctypes, os, sys; os.chdir(sys.argv[1]); "
                      "print(ctypes.CDLL(None).syscall(2, b'README', 0))", str(job.at)) == "-1\n"


GLOBS = r"""
import ctypes, sys

class Found(ctypes.Structure):  # glob_t
    _fields_ = [("count", ctypes.c_size_t), ("paths", ctypes.POINTER(ctypes.c_char_p)),
                ("first", ctypes.c_size_t), ("flags", ctypes.c_int), ("rest", ctypes.c_void_p * 5)]

root = sys.argv[1]
libc = ctypes.CDLL(None)
for name in ("glob", "glob64"):
    for pattern in ("*", "*/*.bin", "a/in/*", "a/[0-2].bin", "{a,b}/3*", "none/*", "*/", ".h*"):
        found = Found()
        result = getattr(libc, name)(f"{root}/{pattern}".encode(), 1 << 10, None,
                                     ctypes.byref(found))
        print(pattern, result, [found.paths[i].decode().removeprefix(root)
                                for i in range(found.count)], found.flags & 1 << 6)
        libc.globfree(ctypes.byref(found))
"""


def test_globs_of_libc(job):
    plain = subprocess.run([sys.executable, "-c", GLOBS, job.source], stdout=subprocess.PIPE,
                           text=True, check=True)
    assert plain.stdout.count("/3.bin") > 4
    assert job.python(GLOBS, str(job.at)) == plain.stdout


def test_threads_and_processes(job, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(IN_PROCESSES)
    process = job.start("sh", "-c", f'exec "{sys.executable}" "{script}" "{job.at}" $$')
    out, err = process.communicate(timeout=60)
    assert (out, err) == (f"{{{2 * (1 + 4095 + 4096 + 4097 + 100_000)}}} {3 * 4096} True\n", "")


def test_the_folder_that_is_there(job):
    """The pack's files lie over it; a program may go there, and come to it by a link."""
    job.at.mkdir()
    (job.at / "later").write_text("not packed")
    link = job.at.with_name("link")
    link.symlink_to(job.at)
    assert job.python(r"""
import os, subprocess, sys
root, link = sys.argv[1:]
print(os.path.exists(root + "/later"), os.listdir(link))
os.chdir(root)
print(os.path.exists("later"), open("README").read(), open("./a/../README").read(), end="")
print(os.path.exists("../set/later"), os.path.exists("../set/README"), os.path.exists("../none"))
""", str(job.at), str(link)) == (
        "False ['later']\nFalse read me\n read me\nFalse True False\n")


def test_a_link_is_given(job):
    """The folder is meant by both names, then."""
    job.at.mkdir()
    link = job.at.with_name("link")
    link.symlink_to(job.at)
    at, job.at = job.at, link
    read_each = "import sys; print(*[open(root + '/README').read() for root in sys.argv[1:]])"
    assert job.python(read_each, str(at), str(link)) == "read me\n read me\n\n"

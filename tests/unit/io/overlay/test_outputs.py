"""What programs write below the folder comes to `--outputs`, complete or not at all."""

from __future__ import annotations

import errno
import mmap
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from events import wait_until

from horovod_opt.io.errors import DataError, InputError
from horovod_opt.io.overlay import outputs
from horovod_opt.io.overlay.outputs import Destination, Outputs

# Without names, and with hidden ones, as on file systems that know no others.
KINDS = ["unnamed", "hidden"]
STARTED = """
import sys
from pathlib import Path
from horovod_opt.io.overlay import launch, outputs
from horovod_opt.io.overlay.peers import Place
look = outputs._look_at
outputs._look_at = lambda folder: (False, *look(folder)[1:])
pack, at, to, *command = sys.argv[1:]
launch.run(Path(pack), at, Place(), outputs.Destination(Path(to), False), None, command)
"""


@pytest.fixture(params=KINDS)
def writing(request, job, tmp_path):
    """A job with outputs; `start` as Job's."""
    job.outputs = tmp_path / "out"
    job.outputs.mkdir()
    plain = job.start

    def start(*command, options=(), **more):
        if request.param == "unnamed":
            return plain(*command, options=("--outputs", str(job.outputs), *options), **more)
        return subprocess.Popen([sys.executable, "-c", STARTED, str(job.pack), str(job.at),
                                 str(job.outputs), *command],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    job.start = start
    return job


def files(folder: Path) -> dict[str, bytes | None]:
    """Of all that is there, also what is hidden; None for folders and links to nothing."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
            for path in folder.rglob("*")}


WAYS = r"""
import ctypes, mmap, os, subprocess, sys, tempfile
root, out = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = libc.freopen.restype = ctypes.c_void_p
data = b"x" * 100_000

def has_name(seen):
    return os.path.exists(out + os.path.normpath(seen).removeprefix(root))

def stream(path):
    file = ctypes.c_void_p(libc.fopen(path.encode(), b"w"))
    assert libc.fwrite(data, 1, len(data), file) == len(data)
    assert libc.fclose(file) == 0

def stream_again(path):
    file = ctypes.c_void_p(libc.fopen((path + ".first").encode(), b"w"))
    assert libc.fwrite(data, 1, 7, file) == 7
    file = ctypes.c_void_p(libc.freopen(path.encode(), b"w", file))
    assert open(path + ".first", "rb").read() == data[:7] and not has_name(path)
    assert libc.fwrite(data, 1, len(data), file) == len(data)
    assert libc.fclose(file) == 0

def plain(path):
    with open(path, "xb") as file:
        file.write(data)
        assert not has_name(path) and os.path.basename(path) not in os.listdir(
            os.path.dirname(path))
        # The process itself finds it, as HDF5 wants to.
        assert os.path.samestat(os.stat(path), os.fstat(file.fileno())) and os.access(path, 0)

def duplicates(path):
    first = os.open(path, os.O_RDWR | os.O_CREAT)
    second, third = os.dup(first), os.open(os.devnull, os.O_RDONLY)
    os.close(first)
    assert not has_name(path) and os.write(second, data) == len(data)
    os.dup2(third, second)
    assert has_name(path)
    os.close(second), os.close(third)

def of_a_child(path):
    with open(path, "wb") as file:
        subprocess.run(["sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x"], stdout=file)

def by_a_child(path):
    subprocess.run(["sh", "-c", 'head -c 100000 /dev/zero | tr "\\0" x > "$0"', path])

def opened_again(path):
    subprocess.run(["sh", "-c", 'exec > "$0"; head -c 99999 /dev/zero | tr "\\0" x; '
                    'printf x >> /proc/self/fd/1', path])

def of_a_fork(path):
    file = open(path, "wb", buffering=0)
    if os.fork() == 0:
        file.write(data)
        os._exit(0)
    os.wait()
    assert not has_name(path)
    file.close()

def renamed(path):
    with tempfile.NamedTemporaryFile(dir=root, delete=False) as file:
        file.write(data)
    os.rename(file.name, path)

def at_the_folder(path):
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    with open(os.open(os.path.basename(path), os.O_WRONLY | os.O_CREAT, dir_fd=folder), "wb") as f:
        f.write(data)
    os.close(folder)

def appended(path):
    for part in (data[:9], data[9:]):
        with open(path, "ab") as file:
            file.write(part)

def mapped(path):
    with open(path, "w+b") as file:
        file.truncate(len(data))
        memory = mmap.mmap(file.fileno(), len(data))
    assert not has_name(path)
    memory[:] = data
    del memory  # closes its descriptor, then ends the mapping
    assert has_name(path)

def left_mapped(path):
    with open(path, "w+b") as file:
        file.truncate(len(data))
        left.append(mmap.mmap(file.fileno(), len(data)))
    left[-1][:] = data

def left_open(path):
    left.append(open(path, "wb"))
    left[-1].write(data)

def left_open_by_a_child(path):
    subprocess.run([sys.executable, "-c", "import os, sys\n"
                    "os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), b'x' * 100_000)\n"
                    "os._exit(3)", path])

left, ways = [], [value for value in list(globals().values()) if getattr(
    value, "__code__", None) and value.__code__.co_varnames[:1] == ("path",)]
os.makedirs(root + "/new/deep")
for way in ways:
    for place in ("", "a/../second-", "new/deep/"):
        way(f"{root}/{place}{way.__name__}")
print(len(ways))
"""


def test_ways_to_write(writing):
    """Whatever call a program makes and closes a file by; not seen before it is closed."""
    out = writing.python(WAYS, str(writing.at), str(writing.outputs))
    count = int(out)
    writing.wait_for_stores()
    found = files(writing.outputs)
    whole = {name: data for name, data in found.items() if data == b"x" * 100_000}
    firsts = {name: data for name, data in found.items() if name.partition(".first")[1]}
    assert count > 10 and len(whole) == 3 * count
    assert set(firsts.values()) == {b"x" * 7} and len(firsts) == 3
    assert set(found) - set(whole) - set(firsts) == {"new", "new/deep"}


# Draws calls that change something, and makes them below both folders; prints what differs.
DRAWN = r"""
import os, random, shutil, stat, sys
seen, plain, seed = sys.argv[1:]
draw = random.Random(int(seed))
used, folders = [], ["", "a", "b", "empty", "made", "made/in", "a/made"]
names = [os.path.join(folder, name) for folder in folders for name in ("x", "y.txt", "made", "in")]

def path(root):
    words = draw.choice(names).split("/")
    for _ in range(draw.randrange(2)):
        words.insert(draw.randrange(len(words)), draw.choice([".", "", "a/..", "kept/.."]))
    used.append("/".join(words))
    return root + "/" + "/".join(words) + draw.choice(["", "", "", "", "/"])

def write(root):
    with open(path(root), draw.choice(["wb", "wb", "xb", "ab", "r+b", "w+b"])) as file:
        for _ in range(draw.randrange(3)):
            file.write(bytes([draw.randrange(256)]) * draw.choice([0, 1, 4096, 70_000]))
        return file.tell()

def read(root):
    with open(path(root), "rb") as file:
        return file.read()

def entries(root):
    with os.scandir(path(root) if draw.random() < .5 else root) as found:
        return sorted((e.name, e.is_dir(), e.is_file(), e.is_symlink()) for e in found)

def attributes(root):
    status = os.lstat(path(root))
    return status.st_mode if not stat.S_ISDIR(status.st_mode) else "folder"

def with_two(call):  # of two paths that are both wrong, either may be named
    def made(root):
        try:
            call(path(root), path(root))
        except OSError as error:
            return "refused" if error.errno == 30 else "error"
    return made

CALLS = [write, write, write, read, entries, attributes,
         lambda root: os.mkdir(path(root)), lambda root: os.makedirs(path(root)),
         lambda root: os.unlink(path(root)), lambda root: os.rmdir(path(root)),
         with_two(os.rename), with_two(os.link), with_two(shutil.copyfile),
         lambda root: os.symlink(draw.choice(["x", "y.txt"]), path(root)),
         lambda root: os.readlink(path(root)), lambda root: os.truncate(path(root), 3),
         lambda root: os.chmod(path(root), draw.choice([0o600, 0o644])),
         lambda root: os.path.exists(path(root))]
os.mkdir(plain + "/kept"), os.mkdir(seen + "/kept")
wrong = done = 0
for i in range(1200):
    call, state = draw.choice(CALLS), draw.getstate()
    results = []
    for root in (plain, seen):
        draw.setstate(state)
        try:
            results.append(call(root))
            done += 1
        except (OSError, shutil.Error) as error:
            results.append((type(error).__name__, getattr(error, "errno", 0)))
    # The pack's own files and folders cannot be changed: EROFS.
    if results[0] != results[1] and results[1] not in (("OSError", 30), "refused"):
        wrong += 1
        print(i, call.__code__.co_firstlineno, used[-4:], results)
        break
    if results[0] != results[1]:
        assert not isinstance(results[0], bytes)
        shutil.rmtree(plain), shutil.copytree(seen, plain, symlinks=True)
print("wrong:", wrong, done > 200)
"""


@pytest.mark.parametrize("seed", range(2))
def test_drawn_changes(writing, tmp_path, seed):
    """As in a folder that is a copy of what the pack was made of."""
    plain = tmp_path / "plain"
    subprocess.run(["cp", "-r", writing.source, plain], check=True)
    out = writing.python(DRAWN, str(writing.at), str(plain), str(seed))
    assert out.splitlines()[-1] == "wrong: 0 True", out[:4000]
    assert not [name for name in files(writing.outputs) if "horovod-opt" in name]


WRITER = r"""
import os, sys
print(flush=True)
for i in range(10**6):
    with open(f"{sys.argv[1]}/{i}", "wb", buffering=0) as file:
        for _ in range(5):
            file.write(bytes([i % 256]) * 1000)
"""


def test_a_kill_leaves_nothing(writing, tmp_path):
    """Of a file that was not closed; those that were are whole."""
    draw = random.Random(1)
    for _ in range(4):
        process = writing.start(sys.executable, "-c", WRITER, str(writing.at))
        process.stdout.readline()
        number = draw.randrange(20)
        wait_until(lambda: len(list(writing.outputs.iterdir())) >= number)
        process.kill()
        process.communicate(timeout=60)
        writing.wait_for_stores()
        found = files(writing.outputs)
        assert all(data == bytes([int(name) % 256]) * 5000 for name, data in found.items())
        for name in found:
            (writing.outputs / name).unlink()


def test_who_was_killed(writing):
    """A child's death is not its parent's; a program that cannot say that it closed a file is heard
    of by name."""
    done = writing.run("sh", "-c", r'''
        exec 5> "$0/kept"; sh -c 'echo line >&5; kill -9 $$'; echo more >&5; exec 5>&-
        cat "$0/kept"
        sh -c 'exec 6> "$0/torn"; echo line >&6; kill -9 $$' "$0"; ls "$0" | grep -c torn
        echo again > "$0/torn"; cat "$0/torn"''', str(writing.at))
    assert done.stdout == "line\nmore\n0\nagain\n"
    assert f"{writing.outputs}/torn: not kept: the program that wrote it was killed" in done.stderr


def test_who_writes_longer_than_the_program(writing):
    """The store lasts as long."""
    done = writing.run("sh", "-c", 'exec 5> "$0/late"; (sleep 1; echo late >&5) > /dev/null 2>&1 &',
                       str(writing.at))
    assert done.returncode == 0
    writing.wait_for_stores()
    assert files(writing.outputs) == {"late": b"late\n"}


FAILS = r"""
import ctypes, os, resource, sys
root, outputs = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = ctypes.c_void_p
resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
file = ctypes.c_void_p(libc.fopen((root + "/large").encode(), b"w"))
libc.fwrite(b"x" * 8000, 1, 8000, file), libc.fwrite(b"x" * 2000, 1, 2000, file)
print(libc.fclose(file), os.path.exists(root + "/large"))
for how, name in (("w", "taken"), ("x", "taken")):
    file = open(f"{root}/{name}{how}", "w")
    try:
        open(f"{root}/{name}{how}", "w")
    except FileExistsError:
        print("one writer")
    open(f"{outputs}/{name}{how}", "w").write("another's")
    try:
        file.close()
    except OSError as error:
        print(error.strerror)
    print(open(f"{root}/{name}{how}").read())
"""


def test_errors_of_close(writing):
    """It says what has failed, and nobody's file is lost."""
    done = writing.run(sys.executable, "-c", FAILS, str(writing.at), str(writing.outputs))
    assert done.stdout.splitlines() == [
        "-1 False", *["one writer", "File exists", "another's"] * 2], done.stderr
    assert set(files(writing.outputs)) == {"takenw", "takenx"}
    assert "large: not kept: " in done.stderr
    assert "takenw: not kept: File exists when it was to get its name" in done.stderr


def test_the_store_is_killed(writing):
    process = writing.start(sys.executable, "-c", r"""
import sys
file = open(sys.argv[1] + "/file", "w")
print(flush=True)
input()
for what in (file.close, lambda: open(sys.argv[1] + "/later", "w")):
    try:
        what()
    except OSError as error:
        print(error.strerror, flush=True)
""", str(writing.at), stdin=subprocess.PIPE)
    process.stdout.readline()
    store, = writing.stores()
    os.kill(store, signal.SIGKILL)
    out, err = process.communicate("\n", timeout=60)
    assert out == "Input/output error\n" * 2
    assert err.count("the store of the job has ended") == 2
    assert [name for name in files(writing.outputs) if not name.startswith(outputs.DRAFT)] == []


class Owner:
    """Of all names: what Peers is to a job of one node."""

    def __init__(self) -> None:
        self.claimed: set[str] = set()

    def claim(self, path: str) -> bool:
        is_free = path not in self.claimed
        self.claimed.add(path)
        return is_free

    def free(self, path: str) -> None:
        self.claimed.remove(path)


@pytest.fixture
def store(tmp_path):
    """The store's part alone: with a file "new" that a program has open."""
    folder = tmp_path / "folder"
    folder.mkdir()
    said: list[str] = []
    made = Outputs(Destination(folder, True), Owner(), said.append)
    made.said = said
    made.path = folder / "new"
    made.file = os.open(folder, os.O_TMPFILE | os.O_RDWR)
    os.write(made.file, b"data")
    assert made.create(os.dup(made.file), b"-" + os.fsencode(made.path)) == 0
    return made


def close(store, is_well: bool = True) -> int:
    handed_over = os.dup(store.file)
    os.close(store.file)
    return store.close(handed_over, is_well)


def test_what_is_synced_when(store, monkeypatch):
    """W4."""
    synced = []

    def fsync(fd):
        synced.append((os.readlink(f"/proc/self/fd/{fd}").split()[0], store.path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    assert close(store) == 0
    assert [is_there for _, is_there in synced] == [False, True]
    assert synced[1][0] == str(store.path.parent)
    assert store.counters == {"outputs": 1, "outputs_dropped": 0} and not store.is_pending()
    assert store._peers.claimed == set()


@pytest.mark.parametrize("what", ["contents", "folder"])
def test_a_sync_fails(store, monkeypatch, what):
    """close() ends with the storage's error; contents that may be lost get no name."""
    def fsync(fd):
        if os.path.isdir(f"/proc/self/fd/{fd}") == (what == "folder"):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    assert close(store) == errno.EIO
    word = "not kept" if what == "contents" else "not synced"
    assert len(store.said) == 1 and f"{word}: Input/output error" in store.said[0]
    assert store.path.exists() == (what == "folder")


def test_the_old_file_is_there_until_the_new_one_is(store, monkeypatch):
    """W5: at no call is there another than one of both, also where replacing fails."""
    close(store)
    store.path.chmod(0o640)
    store.file = os.open(store.folder, os.O_TMPFILE | os.O_RDWR)
    assert store.create(os.dup(store.file), b"x" + os.fsencode(store.path)) == errno.EEXIST
    assert store.create(os.dup(store.file), b"-" + os.fsencode(store.path)) == 0
    other = os.open(store.folder, os.O_TMPFILE | os.O_RDWR)
    assert store.create(other, b"-" + os.fsencode(store.path)) == errno.EEXIST
    os.write(store.file, b"newer")
    replace = os.replace

    def fail(source, target):
        assert store.path.read_bytes() == b"data"
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    for is_full in (True, False):
        assert close(store) == (errno.ENOSPC if is_full else 0)
        assert store.path.read_bytes() == (b"data" if is_full else b"newer")
        assert [path.name for path in store.path.parent.iterdir()] == ["new"]
        if is_full:
            store.file = os.open(store.folder, os.O_TMPFILE | os.O_RDWR)
            os.write(store.file, b"newer")
            assert store.create(os.dup(store.file), b"-" + os.fsencode(store.path)) == 0


def test_closed_unsaid(store):
    """W3; and W2: not while somebody says that he closes it."""
    again = os.open(f"/proc/self/fd/{store.file}", os.O_WRONLY)
    os.close(again)
    store.take_events(lambda what, *arguments: what(*arguments))
    assert store.is_pending() and not store.said
    handed_over = os.dup(store.file)
    os.close(store.file)
    store.take_events(lambda what, *arguments: what(*arguments))
    assert store.is_pending() and not store.said
    os.close(handed_over)
    store.take_events(lambda what, *arguments: what(*arguments))
    assert not store.is_pending() and outputs.KILLED in store.said[0]
    assert not store.path.exists() and store._peers.claimed == set()


def test_mapped(store):
    """A file that was closed is complete when it is not mapped any more."""
    memory = mmap.mmap(store.file, 4)
    status = os.fstat(store.file)
    assert close(store) == outputs.OPEN_STILL
    store.note_mapping((status.st_dev, status.st_ino))
    memory[:] = b"DATA"
    memory.close()
    store.take_events(lambda what, *arguments: what(*arguments))
    assert store.path.read_bytes() == b"DATA" and not store.said


def test_without_leases(tmp_path):
    """As on file systems of a network."""
    made = Outputs(Destination(tmp_path, False), Owner(), print)
    made._has_leases = False
    for name, is_said in (("kept", True), ("dropped", False)):
        file = os.open(tmp_path, os.O_TMPFILE | os.O_RDWR)
        assert made.create(os.dup(file), b"-" + os.fsencode(tmp_path / name)) == 0
        if is_said:
            made.file = file
            assert close(made) == 0
        else:
            os.close(file)
            made.take_events(lambda what, *arguments: what(*arguments))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_folders_that_cannot_be(job, tmp_path):
    inside = job.at / "out"
    for options, why in ((("--durable",), "--durable without --outputs"),
                         (("--outputs", str(tmp_path / "none")), "no folder"),
                         (("--outputs", str(job.pack)), "inside of it, or around it"),
                         (("--outputs", str(job.at.parent)), "inside of it, or around it")):
        done = job.run("true", options=options)
        assert done.returncode == 2 and why in done.stderr, done.stderr
    inside.mkdir(parents=True)
    with pytest.raises(InputError, match="around it"):
        Destination(inside, False).check(job.pack, [str(job.at)])
    with pytest.raises(DataError, match="may write to"):
        Outputs(Destination(Path("/proc/self"), False), Owner(), print)

"""What is refused before a program starts, what it hears of a damaged pack, and what is left."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from overlaid import READ_ALL

from horovod_opt import settings
from horovod_opt.io.errors import InputError
from horovod_opt.io.overlay import program
from horovod_opt.io.overlay.launch import roots_of


@pytest.fixture(scope="module")
def static_program(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-static", "-o", folder / "main", folder / "main.c"], check=True)
    return folder / "main"


def test_programs_that_would_see_nothing(static_program, tmp_path):
    script = tmp_path / "script"
    script.write_text(f"#!{static_program}\n")
    with_env = tmp_path / "with_env"
    with_env.write_text("#!/usr/bin/env -S main\n")
    user = tmp_path / "user"
    shutil.copy("/bin/true", user)
    machine, musl = tmp_path / "machine", tmp_path / "musl"
    code = bytearray(Path("/bin/true").read_bytes())
    interpreter = program._interpreter("/bin/true", bytes(code[:4096])).rstrip(b"\0")
    musl.write_bytes(code.replace(interpreter, b"/lib/ld-musl.so.1".ljust(len(interpreter), b"\0")))
    code[18:20] = b"\xff\x00"
    machine.write_bytes(code)
    for path in (script, with_env, user, machine, musl):
        path.chmod(0o755)
    user.chmod(0o4755)
    variables = {"PATH": f"{static_program.parent}:{os.environ['PATH']}"}
    for path, why in ((static_program, "statically"), (script, "statically"),
                      (with_env, "statically"), (user, "another user"),
                      (machine, "another machine"), (musl, "musl"), ("nothing", "no such program")):
        with pytest.raises(InputError, match=why):
            program.require_dynamic(str(path), variables)
    plain = tmp_path / "plain"
    plain.write_text("#!/usr/bin/env -S sh -e\n")
    plain.chmod(0o755)
    assert program.require_dynamic(str(plain), variables) == str(plain)
    assert program.require_dynamic("sh", variables) == shutil.which("sh")


@pytest.mark.parametrize("at", ["/", "/data/../set", "."])
def test_folders_that_nothing_can_be_laid_over(at, monkeypatch):
    monkeypatch.chdir("/")
    with pytest.raises(InputError, match="--at"):
        roots_of(at)


def test_another_preload_stays(job):
    assert job.python("import os; print(os.environ['LD_PRELOAD'].split(':')[1:])", env={
        **os.environ, "LD_PRELOAD": "libm.so.6"}) == "['libm.so.6']\n"


def test_hvd_init_takes_the_environment():
    variables = program.environment({}, Path("/lib/overlay.so"), "/proc/1/fd/3")
    assert settings.load(variables) == settings.load({})


@pytest.mark.parametrize("job", [None, 3], indirect=True, ids=["plain", "zstd"])
def test_other_bytes_are_an_error(job):
    """Of no file comes another's byte, whichever one of a tar is another."""
    tar = sorted(job.pack.glob("*.tar"))[0]
    data = bytearray(tar.read_bytes())
    for place in range(600, len(data), 4099):
        data[place] ^= 1
    tar.write_bytes(data)
    done = job.run(sys.executable, "-c", READ_ALL, str(job.at), str(job.source))
    assert done.returncode == 0, done.stderr
    read, failed = map(int, done.stdout.split())
    assert read > 0 and failed > 0
    assert f"{tar} has other bytes" in done.stderr and "io stage" in done.stderr


def test_a_tar_that_is_missing_or_cut(job):
    tar = sorted(job.pack.glob("*.tar"))[-1]
    os.truncate(tar, tar.stat().st_size - 512)
    cut = job.run("true")
    tar.unlink()
    missing = job.run("true")
    assert (cut.returncode, missing.returncode) == (1, 1)
    assert f"{tar}: size" in cut.stderr
    assert tar.name in missing.stderr and "--replicas all, or --meet" in missing.stderr


def test_a_tar_goes_while_it_is_read(job):
    done = job.run("sh", "-c", f"rm {job.pack}/*.tar; cat {job.at}/README")
    assert done.returncode == 1
    assert "README: its part" in done.stderr and "No such file" in done.stderr
    assert "Input/output error" in done.stderr


def test_what_ends_when(job):
    """The store lasts as long as any program that was started with it, and goes by itself, also
    when they were killed. Programs are this process' own: same number, status, signals."""
    options = ("--counters", str(job.counters_file))
    first = job.start("sh", "-c", f"echo $$; cat {job.at}/README; read line; cat {job.at}/README",
                      options=options, stdin=subprocess.PIPE)
    assert [first.stdout.readline() for _ in range(2)] == [f"{first.pid}\n", "read me\n"]
    second = job.start("sh", "-c", f"cat {job.at}/README; kill -9 $$", options=options)
    assert second.communicate(timeout=60)[0] == "read me\n"
    assert second.returncode == -signal.SIGKILL
    assert not job.counters_file.exists()
    assert first.communicate("\n", timeout=60)[0] == "read me\n"
    assert job.last_counters()["opens_local"] == 3
    assert job.stores() == []


@pytest.mark.parametrize("job", [3], indirect=True, ids=["zstd"])
def test_the_store_is_killed(job):
    """What programs read themselves goes on; the rest is an error, and a program that is started
    later says that it sees nothing."""
    process = job.start(
        "sh", "-c", f"echo; read line; cat {job.at}/a/1.bin; cat '{job.at}/a/in/x y.txt'; "
        f"exec cat {job.at}/README", stdin=subprocess.PIPE)
    process.stdout.readline()
    store, = job.stores()
    os.kill(store, signal.SIGKILL)
    out, err = process.communicate("\n", timeout=60)
    assert process.returncode == 1
    assert "this program sees the files of storage alone" in err


def test_the_last_look(job):
    """Programs that begin as others end all have a store (O2)."""
    running, ended = [], 0
    for i in range(6):
        running.append(job.start("cat", f"{job.at}/README"))
        time.sleep(0.02 * (i % 3))
    for process in running:
        out, err = process.communicate(timeout=60)
        assert (out, err, process.returncode) == ("read me\n", "", 0)
        ended += 1
    assert ended == 6
    end = time.monotonic() + 60
    while job.stores():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_modes_are_those_of_the_folder(job):
    modes = {path.relative_to(job.source).as_posix(): stat.S_IMODE(path.stat().st_mode)
             for path in job.source.rglob("*.bin")}
    assert set(modes.values()) == {0o644, 0o755}
    assert job.python("import os, sys\nfor name in sys.argv[2:]:\n"
                      "    print(oct(os.stat(sys.argv[1] + '/' + name).st_mode & 0o777))",
                      str(job.at), *modes).split() == [oct(mode) for mode in modes.values()]

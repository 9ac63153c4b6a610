"""The launcher's HTTP servers answer nobody but the job's own processes."""

from __future__ import annotations

import os
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from jobs import BIN, HANG_SECONDS, inherited

from horovod_opt.launcher import job_secret

RANK = """
import json, os, sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from horovod_opt.launcher import job_secret

url = "http://{HOROVOD_GLOO_RENDEZVOUS_ADDR}:{HOROVOD_GLOO_RENDEZVOUS_PORT}".format(**os.environ)

def status(headers):
    try:
        return urlopen(Request(f"{url}/global/nothing", headers=headers)).status
    except HTTPError as error:
        return error.code

print("says", status({}), status(job_secret.headers()))
"""


def status(port: int, method: str, headers: dict[str, str], data: bytes | None = None) -> int:
    request = Request(f"http://127.0.0.1:{port}/scope/key", data, headers, method=method)
    try:
        return urlopen(request, timeout=HANG_SECONDS).status
    except HTTPError as error:
        return error.code


@pytest.fixture(params=["rendezvous", "values"])
def start(request, need):
    """Starts one of the two servers; returns its port."""
    need("torch", "gloo")
    from horovod.runner.http.http_server import KVStoreServer, RendezvousServer

    stops = []

    def start() -> int:
        if request.param == "rendezvous":
            server = RendezvousServer()
            port = server.start()
            server.init([])
            stops.append(server.stop)
        else:
            server = KVStoreServer(verbose=False)
            port = server.start_server()
            stops.append(server.shutdown_server)
        return port

    yield start
    for stop in stops:
        stop()


@pytest.mark.parametrize("headers", [
    {}, {job_secret.HEADER: ""}, {job_secret.HEADER: "0" * 64}, {job_secret.HEADER: "\xe9"}])
def test_strangers_get_no_answer(start, headers):
    with job_secret.new_secret():
        port, known = start(), job_secret.headers()
        for method, data in ("GET", None), ("HEAD", None), ("DELETE", None), ("PUT", b"evil"):
            assert status(port, method, headers, data) == 403
        assert status(port, "GET", known) == 404, "nothing has been put there"
        assert status(port, "PUT", known, b"value") == 200
        assert status(port, "GET", known) == 200


def test_launchers_without_a_secret_answer(start):
    port = start()
    assert status(port, "PUT", {}, b"value") == 200
    assert status(port, "GET", {job_secret.HEADER: "of another job"}) == 200


def test_each_job_has_another_secret(monkeypatch):
    monkeypatch.setenv(job_secret.VARIABLE, "of the job that launches this one")
    secrets = set()
    for _ in range(2):
        with job_secret.new_secret():
            secrets.add(os.environ[job_secret.VARIABLE])
        assert os.environ[job_secret.VARIABLE] == "of the job that launches this one"
    assert len(secrets) == 2
    assert all(len(secret) == 64 for secret in secrets)


def test_ranks_know_the_secret(need, tmp_path):
    need("torch", "gloo")
    rank = tmp_path / "rank.py"
    rank.write_text(RANK)
    run = subprocess.run([BIN / "horovodrun", "--gloo", "-np", "2", sys.executable, rank],
                         env=inherited(), capture_output=True, text=True, check=False,
                         timeout=HANG_SECONDS)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("says 403 404") == 2

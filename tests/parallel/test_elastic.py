"""Elastic training goes on from the last commit when a worker has died and a new one has come."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("mode", ["gs", "nbcs", "topo"])
def test_resumes_after_a_death(job, tmp_path, mode):
    # Three names of this host: Horovod takes two, and not again the one where a worker died.
    hosts = tmp_path / "hosts.sh"
    hosts.write_text("#!/bin/sh\nprintf '%s:1\\n' localhost 127.0.0.1 127.1\n")
    hosts.chmod(0o755)
    options = (
        *("--gloo", "-np", 2, "--min-np", 2, "--max-np", 2, "--network-interfaces", "lo"),
        *("--host-discovery-script", hosts),
    )
    ended = job("elastic", controller="gloo", options=options, HOROVOD_OPT_MODE=mode)
    ended.succeeded()
    died, replaced, lived = sorted(
        (path.read_text().splitlines() for path in tmp_path.glob("notes.*")), key=len
    )
    first, again = "starts at step 0 with 2 ranks", "starts at step 6 with 2 ranks"
    assert died == [first]
    assert lived[:-1] == [first, again]
    assert replaced[:-1] == [again]
    assert lived[-1].startswith("ends with ")
    assert replaced[-1] == lived[-1]

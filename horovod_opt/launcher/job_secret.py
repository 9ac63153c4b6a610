"""The secret of a job: without it the launcher's HTTP servers answer nobody.

They tell ranks each other's addresses and, for `horovod.run()` and elastic jobs, hold pickles that
ranks and the launcher load: whoever may write there runs any program in both. The launcher makes a
secret for each job, ranks get it in their environment, and every request has it in its header. It
is neither encrypted nor hidden from users of the hosts that may look at the job's command lines.
Servers of launchers that make none, those of Ray and Spark, ask for none.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
from collections.abc import Iterator, Mapping

VARIABLE = "HOROVOD_JOB_SECRET"
HEADER = "X-Horovod-Job-Secret"  # also in patches/faults/launcher-secret.patch, for C++


@contextlib.contextmanager
def new_secret() -> Iterator[None]:
    """This process launches a job: all that it starts meanwhile knows the job's secret."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = secrets.token_hex(32)
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


def headers() -> dict[str, str]:
    """What this process adds to a request."""
    secret = os.environ.get(VARIABLE)
    return {HEADER: secret} if secret else {}


def of_server() -> str:
    """What a server that starts now asks for; empty: nothing."""
    return os.environ.get(VARIABLE, "")


def knows(request: Mapping[str, str], secret: str) -> bool:
    """Whether the headers of a request have the server's secret."""
    return hmac.compare_digest((request.get(HEADER) or "").encode(), secret.encode()) or not secret

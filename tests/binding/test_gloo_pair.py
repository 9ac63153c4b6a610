"""What somebody who reaches the port of a Gloo connection can do there: gloo_pair.cc. Nothing of it
ends the process or touches memory that is not for him."""

from __future__ import annotations

import re
import subprocess

import pytest
from against_horovod import HERE, compile_with_gloo

SEED, ROUNDS = 20261128, 200
OPTIONS = ("-fsanitize=address", "-fno-omit-frame-pointer", "-g1", "-O0")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, str]:
    """Of each case, what the rank says."""
    folder = tmp_path_factory.mktemp("gloo")
    program = compile_with_gloo(HERE / "gloo_pair.cc", folder / "gloo_pair", *OPTIONS)
    # AddressSanitizer before GCC 14 may not start where addresses are randomized by much.
    command = ["setarch", "-R", str(program), str(SEED), str(ROUNDS)]
    run = subprocess.run(command, check=False, timeout=240, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return dict(line.split(" ", 1) for line in run.stdout.splitlines())


@pytest.mark.parametrize("case, text", [
    ("wrapped", "sends 48 bytes to offset 18446744073709551584 of a buffer of 64 bytes, slot 7"),
    ("slot", "sends 32 bytes that this rank has not asked for, slot 4"),
    ("length", "sends 33 bytes where this rank expects 32, slot 5"),
    ("twice", "sends 32 bytes that this rank has not asked for, slot 5"),
])
def test_data_that_nobody_waits_for_is_refused(outcomes, case, text):
    assert outcomes[case].startswith("intact, ")
    assert re.search(rf"peer \[127\.0\.0\.1\]:\d+ {re.escape(text)}", outcomes[case])


def test_what_is_no_message_is_refused(outcomes):
    assert "does not speak Gloo's protocol: opcode" in outcomes["text"]
    assert "look for another program that connects to this port" in outcomes["text"]


def test_a_buffer_that_is_gone_is_not_written_to(outcomes):
    assert outcomes["gone"] == "received"


def test_a_message_that_is_given_up_ends_the_connection(outcomes):
    assert re.search(r"a message to \[127\.0\.0\.1\]:\d+, slot 7, was given up before it had left",
                     outcomes["given-up"])


@pytest.mark.parametrize("case", ["sends", "receives"])
def test_announcements_have_a_limit(outcomes, case):
    assert "rank 1 announces more messages than any collective has" in outcomes[case]


def test_only_the_peer_is_let_in(outcomes):
    assert outcomes["strangers"] == "received 12345678"


def test_messages_drawn_at_random(outcomes):
    received, refused, ended = map(int, re.findall(r"\d+", outcomes["drawn"]))
    assert received + refused + ended == 6 * ROUNDS
    assert received >= 6 * ROUNDS / 2, "the right ones"
    assert refused > 0 and ended > 0

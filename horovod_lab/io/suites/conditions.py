"""What the options of a suite on small records ask for: can it be measured, and here?"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from horovod_lab.io.data.records import LEAST_BYTES
from horovod_lab.io.testbeds.by_name import STANDS
from horovod_opt.arguments import Refusal


def check(options: argparse.Namespace) -> None:
    """Raises Refusal for what cannot be measured anywhere."""
    nodes, ranks = options.nodes, max(options.ranks)
    uneven = [one for one in options.ranks if one % nodes]
    if uneven:
        raise Refusal(f"--ranks {uneven[0]} cannot be shared equally by {nodes} nodes; remedy: a "
                      f"multiple of {nodes}, or other --nodes")
    least = options.batch * ranks
    if options.records < least:
        raise Refusal(f"--records {options.records} is less than a batch of {options.batch} for "
                      f"each of {ranks} ranks; remedy: at least {least}")
    if options.record_bytes <= LEAST_BYTES:
        raise Refusal(f"--record-bytes {options.record_bytes}; remedy: at least {LEAST_BYTES + 1}, "
                      "for a number, a checksum, and something between")


def try_stand(options: argparse.Namespace) -> None:
    """Makes the stand once, of nothing. Raises Refusal if it cannot be made here."""
    data = options.data or options.output / "io-data"
    data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=data) as folder:
        nothing = Path(folder, "nothing")
        nothing.mkdir()
        try:
            with STANDS[options.stand](nothing, options.nodes):
                pass
        except OSError as error:
            raise Refusal(f"--stand {options.stand} cannot be made: {error}; remedy: a machine, or "
                          "a container, whose root may mount file systems") from error

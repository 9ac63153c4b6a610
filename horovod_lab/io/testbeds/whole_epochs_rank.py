"""One rank of a job that takes whole epochs: says when it had its first batch, and which records
came. Its time is for taking them: their bytes are not looked at."""

from __future__ import annotations

import importlib
import os
import time

from horovod_lab.io.data.records import NUMBER
from horovod_lab.io.peers import KEEPING, PEERS
from horovod_lab.io.testbeds.first_epoch_rank import open_stream, parse
from horovod_lab.io.testbeds.rendezvous import Rendezvous


def main() -> None:
    options, peer = parse({**PEERS, KEEPING.name: KEEPING}, "epochs")
    rendezvous = Rendezvous(options.rendezvous, options.parent)
    libraries = ["torch", "horovod_opt.io.torch"] if "torch" in peer.needs else []
    for module in (f"horovod_lab.io.peers.{peer.module}", *libraries):
        importlib.import_module(module)
    rendezvous.publish(f"ready.{options.rank}", {"pid": os.getpid()})
    rendezvous.wait_for("go0")
    stream = open_stream(options, peer, options.epochs)
    for epoch in range(options.epochs):
        rendezvous.wait_for(f"go{epoch}")
        first, numbers = 0.0, []
        for batch in stream.epoch(epoch):
            first = first or time.monotonic()
            rendezvous.check_parent()
            numbers += [NUMBER.unpack_from(record)[0] for record in batch]
        rendezvous.publish(f"taken{epoch}.{options.rank}", {"first": first, "numbers": numbers})
    rendezvous.wait_for("stop")  # others may still need what this one serves
    stream.close()


if __name__ == "__main__":
    main()

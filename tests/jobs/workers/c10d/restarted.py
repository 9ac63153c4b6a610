"""One rank of a job of torchrun, of which rank 1 is killed in the first attempt. Each rank adds a
line to a file of its own in each attempt. torchrun's store still holds what the first attempt has
written, addresses of ranks that are gone among it."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

folder, attempt = Path(sys.argv[1]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
# torchrun ends the others by it, perhaps before they have found what has happened.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def tell(**values: object) -> None:
    with (folder / f"rank-{dist.get_rank()}").open("a") as file:
        file.write(json.dumps({"attempt": attempt, **values}) + "\n")
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


dist.init_process_group("hvdopt")
group = dist.new_group()
for size in (10, 300_000):
    dist.all_reduce(torch.ones(size), group=group)
rank, ranks = dist.get_rank(), dist.get_world_size()
token = torch.zeros(3)  # by gloo, once around
if rank:
    dist.recv(token, rank - 1)
dist.send(token + 1, (rank + 1) % ranks)
if not rank:
    dist.recv(token, ranks - 1)
    assert token.tolist() == [3.0, 3.0, 3.0], token
bits = torch.tensor([1 << rank])
dist.all_reduce(bits, op=dist.ReduceOp.BOR, group=group)
assert bits.item() == 7, bits
if attempt == 0:
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        dist.all_reduce(torch.ones(10), group=group)
    except dist.DistBackendError as error:
        tell(error=str(error).splitlines()[0])
    time.sleep(60)  # torchrun ends it
    sys.exit("torchrun has not noticed that rank 1 was killed")
tensor = torch.ones(10) * dist.get_rank()
dist.all_reduce(tensor, group=group)
tell(sum=tensor.sum().item())
dist.destroy_process_group()

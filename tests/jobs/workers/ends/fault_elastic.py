"""Trains elastically: a worker dies between two commits and is replaced, later a third comes."""

import os
import signal
import time

import horovod.torch as hvd
import torch
from common import FOLDER, graph_plans
from fault_common import digest, network

COMMIT_EVERY, DEATH, GROWTH, STEPS_OF_THREE = 3, 7, 13, 9

hosts = FOLDER / "hosts"
died = FOLDER / "died"
hvd.init()
torch.set_num_threads(1)
model = network()
# One whose weights change without a gradient, and differ if its state does.
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, of_three=0)


def note(text: str) -> None:
    with open(FOLDER / f"notes.{os.getpid()}", "a") as file:
        file.write(text + "\n")


def weights() -> str:
    return digest(model.state_dict())


def add_host(name: str) -> None:
    """Horovod asks for them every second."""
    with open(hosts, "a") as file:
        file.write(f"{name}:1\n")


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    note(f"starts at step {state.step} with {hvd.size()} ranks, {weights()}")
    while state.of_three < STEPS_OF_THREE:
        if state.step == DEATH and hvd.rank() == 1 and not died.exists():
            died.touch()
            add_host("127.1")
            os.kill(os.getpid(), signal.SIGKILL)
        if state.step >= GROWTH and hvd.size() == 2:
            time.sleep(0.1)
        generator = torch.Generator().manual_seed(10 * state.step + hvd.rank())
        optimizer.zero_grad()
        model(torch.randn(8, 8, generator=generator)).square().mean().backward()
        optimizer.step()
        state.step += 1
        state.of_three += hvd.size() == 3
        if state.step == GROWTH and hvd.rank() == 0:
            add_host("127.0.1")
        if state.step % COMMIT_EVERY == 0:
            if hvd.rank() == 0:
                note(f"commits step {state.step}, {weights()}")
            state.commit()


train(state)
states = [plan.state for plan in graph_plans()]
note(f"ends with {states}, {weights()}")
hvd.shutdown()

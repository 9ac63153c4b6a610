"""hio.torch.Resume: a training that goes on where it was stopped, with its model and optimizer."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest
from data_sets import tfrecord
from thread_ranks import in_job, succeeded

torch = pytest.importorskip("torch")

import horovod_opt.io as hio

pytestmark = pytest.mark.usefixtures("unsynced")
COUNT = 60


@pytest.fixture
def tfrecords(tmp_path) -> str:
    tfrecord(tmp_path / "a.tfrecord", [i.to_bytes(4, "little") for i in range(COUNT)])
    return str(tmp_path / "a.tfrecord")


def decode(sample: hio.Sample) -> torch.Tensor:
    return torch.tensor([float(int.from_bytes(sample.data[:4], "little"))])


class Stopped(Exception):
    pass


def train(data, folder, seen, stop=-1, kill=None, **options) -> torch.nn.Module:
    """Two epochs; raises Stopped after so many steps, or has a signal then."""
    torch.manual_seed(3)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.Adam(model.parameters())
    resume = hio.torch.Resume(data, folder, model=model, optimizer=optimizer, **options)
    steps = 0
    loader = hio.torch.loader(data, 5, decode=decode)
    while data.epoch < 2 and not resume.is_asked_to_stop:
        for batch in loader:
            optimizer.zero_grad()
            model(batch / COUNT).sum().backward()
            optimizer.step()
            seen.update(batch.flatten().int().tolist())
            steps += 1
            if steps == stop and kill:
                os.kill(os.getpid(), kill)
            if resume.step():
                break
            if steps == stop and not kill:
                raise Stopped
    resume.close()
    return model


@pytest.mark.parametrize("with_fast", [False, True])
def test_it_goes_on_as_if_nothing_had_happened(tfrecords, tmp_path, with_fast):
    fast = tmp_path / "fast" if with_fast else None
    with hio.open(tfrecords, seed=5, chunk_samples=8) as data:
        whole = train(data, tmp_path / "whole", Counter())
    seen: Counter = Counter()
    for stop in (7, 9, -1):
        with hio.open(tfrecords, seed=5, chunk_samples=8) as data:
            try:
                model = train(data, tmp_path / "slow", seen, stop, every=1, fast=fast)
            except Stopped:
                pass
    assert set(seen.values()) == {2} and len(seen) == COUNT
    assert all(map(torch.equal, model.parameters(), whole.parameters()))
    assert [path.name for path in (tmp_path / "slow").iterdir() if path.name[0] != "."] == ["120"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_and_sigterm_ends(tfrecords, tmp_path, number):
    seen: Counter = Counter()
    with hio.open(tfrecords, seed=5, chunk_samples=8) as data:
        train(data, tmp_path / "slow", seen, 4, number, signals=(signal.SIGTERM, signal.SIGUSR1))
        assert data.epoch == (0 if number == signal.SIGTERM else 2)
    with hio.open(tfrecords, seed=5, chunk_samples=8) as data:
        resume = hio.torch.Resume(data, tmp_path / "slow", model=torch.nn.Linear(1, 1),
                                  optimizer=torch.optim.Adam(torch.nn.Linear(1, 1).parameters()))
        resume.close()
        assert resume.is_resumed and (data.epoch, data.position) == (0, 20)


def test_other_numbers_of_ranks_go_on(tfrecords, tmp_path):
    def of_ranks(seen, stop):
        def run(open, rank):
            with open(tfrecords, seed=5, chunk_samples=8) as data:
                try:
                    train(data, tmp_path / "slow", seen, stop, every=1, fast=tmp_path / "fast")
                except Stopped:
                    pass

        return run

    seen: Counter = Counter()
    succeeded(in_job(2, of_ranks(seen, 4)))
    succeeded(in_job(3, of_ranks(seen, -1)))
    assert set(seen.values()) == {2} and len(seen) == COUNT


def test_bad_arguments_and_other_states_are_refused(tfrecords, tmp_path):
    model = torch.nn.Linear(1, 1)
    with hio.open(tfrecords, seed=5) as data:
        with pytest.raises(hio.InputError, match="every=0; remedy"):
            hio.torch.Resume(data, tmp_path / "slow", every=0)
        with pytest.raises(hio.InputError, match="model=3 has no state_dict"):
            hio.torch.Resume(data, tmp_path / "slow", model=3)
        with hio.torch.Resume(data, tmp_path / "slow", model=model) as resume:
            resume.save()
        with pytest.raises(hio.InputError, match="has model, and here are net; remedy"):
            hio.torch.Resume(data, tmp_path / "slow", net=model)
        with pytest.raises(hio.InputError, match="(?s)cannot be loaded: .*remedy"):
            hio.torch.Resume(data, tmp_path / "slow", model=torch.nn.Linear(2, 1))
        (tmp_path / "slow" / "0" / "0" / "state.pt").write_text("")
        with pytest.raises(hio.InputError, match="none is as it was saved"):
            hio.torch.Resume(data, tmp_path / "slow", model=model)

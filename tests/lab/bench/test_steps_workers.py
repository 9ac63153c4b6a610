"""Parts of the workers of the suite steps, in one process and without Horovod."""

from __future__ import annotations

import gc

import numpy as np
import pytest


@pytest.fixture
def steps(worker):
    return worker("steps")


def test_a_rank_has_the_same_inputs_in_every_job_and_others_than_its_peer(steps):
    for inputs in (steps.texts, steps.rows):
        for first, second, of_peer in zip(inputs(0), inputs(0), inputs(1)):
            assert np.array_equal(first, second) and not np.array_equal(first, of_peer)
    tokens, classes = steps.texts(0)
    assert tokens.shape == (64, 50) and classes.shape == (64,)
    assert 0 <= tokens.min() and tokens.max() < 20_000


def test_the_text_model_is_an_embedding_and_14_layers(worker, steps):
    torch = pytest.importorskip("torch")
    model = worker("dense_torch").Text()
    assert model.table.weight.shape == (20_000, 128)
    assert sum(isinstance(layer, torch.nn.Linear) for layer in model.layers) == 14
    tokens, _ = steps.texts(0)
    model(torch.from_numpy(tokens)).sum().backward()
    assert model.table.weight.grad.is_sparse


# The operators of SyncBatchNorm, beside PyTorch's batch_norm of all ranks' values together.


@pytest.fixture
def operators(worker):
    torch = pytest.importorskip("torch")
    library = worker("sync_batch_norm_torch").register_on_cpu()
    yield torch
    del library
    gc.collect()


EPS, MOMENTUM = 1e-5, 0.1


def of_two_ranks(torch):
    """Values (batch, channels, height, width) of ranks with different batches; channels differ."""
    random = torch.Generator().manual_seed(0)
    scale = torch.tensor([1.0, 3.0, 0.5]).view(1, 3, 1, 1)
    return [scale * torch.randn(batch, 3, 2, 4, generator=random, dtype=torch.float64) + scale
            for batch in (2, 5)]


def gather(torch, ranks, running=(None, None)):
    means, invstds = zip(*(torch.batch_norm_stats(values, EPS) for values in ranks))
    counts = torch.tensor([values.numel() / 3 for values in ranks], dtype=torch.float64)
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        ranks[0], torch.stack(means), torch.stack(invstds), *running, MOMENTUM, EPS, counts)
    return mean, invstd, counts


def test_forward_is_that_of_all_values_together(operators):
    torch = operators
    ranks = of_two_ranks(torch)
    weight, bias = torch.tensor([2.0, 1.0, -1.0]).double(), torch.tensor([0.0, 1.0, 5.0]).double()
    running, expected_running = ([torch.zeros(3).double(), torch.ones(3).double()]
                                 for _ in range(2))
    mean, invstd, _ = gather(torch, ranks, running)
    expected = torch.nn.functional.batch_norm(
        torch.cat(ranks), *expected_running, weight, bias, True, MOMENTUM, EPS)
    result = [torch.batch_norm_elemt(values, weight, bias, mean, invstd, EPS) for values in ranks]
    torch.testing.assert_close(torch.cat(result), expected)
    torch.testing.assert_close(running, expected_running)


def test_backward_is_that_of_all_values_together(operators):
    torch = operators
    ranks = of_two_ranks(torch)
    weight = torch.tensor([2.0, 1.0, -1.0]).double().requires_grad_()
    bias = torch.zeros(3).double().requires_grad_()
    whole = torch.cat(ranks).requires_grad_()
    gradients = [torch.cos(7 * values) for values in ranks]  # of the result
    torch.nn.functional.batch_norm(whole, None, None, weight, bias, True, MOMENTUM, EPS).backward(
        torch.cat(gradients))

    mean, invstd, counts = gather(torch, ranks)
    reduced = [torch.batch_norm_backward_reduce(dy, values, mean, invstd, weight, True, True, True)
               for dy, values in zip(gradients, ranks)]
    sum_dy, sum_dy_xmu, of_weight, of_bias = (sum(parts) for parts in zip(*reduced))
    torch.testing.assert_close((of_weight, of_bias), (weight.grad, bias.grad))
    result = [torch.batch_norm_backward_elemt(dy, values, mean, invstd, weight, sum_dy, sum_dy_xmu,
                                              counts.int()) for dy, values in zip(gradients, ranks)]
    torch.testing.assert_close(torch.cat(result), whole.grad)


# ZeRO-1


@pytest.mark.parametrize("parts", [2, 3])
def test_parameters_and_gradients_become_views_of_two_tensors(worker, parts):
    torch = pytest.importorskip("torch")
    flatten = worker("zero1_torch").flatten
    model = torch.nn.Linear(3, 2)
    before = torch.cat([model.weight.detach().reshape(-1), model.bias.detach()])
    values, gradients = flatten(list(model.parameters()), parts)
    assert len(values) == len(gradients) and len(values) % parts == 0
    assert torch.equal(values[:8], before) and not values[8:].any()
    model(torch.tensor([[1.0, 2.0, 3.0]])).sum().backward()
    assert gradients[:8].tolist() == [1, 2, 3, 1, 2, 3, 1, 1]
    values.fill_(7)
    assert model.weight.tolist() == [[7, 7, 7]] * 2 and model.bias.tolist() == [7, 7]

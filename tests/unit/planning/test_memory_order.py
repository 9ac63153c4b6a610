"""In which order elements are sent, and when they are copied, without Horovod's native library."""

from __future__ import annotations

import itertools
import random

import pytest

torch = pytest.importorskip("torch")

from horovod_opt.pytorch import memory_order  # noqa: E402
from horovod_opt.pytorch.memory_order import GradientOrders, on_wire, result_of  # noqa: E402


def tensors(count: int = 300):
    """Dense tensors in every order of up to five dimensions, some of size 1."""
    generator = random.Random(5)
    for _ in range(count):
        shape = [generator.choice((1, 2, 3)) for _ in range(generator.randint(0, 5))]
        order = generator.sample(range(len(shape)), len(shape))
        memory = torch.arange(torch.Size(shape).numel(), dtype=torch.float32)
        yield memory.view([shape[dim] for dim in order]).permute(memory_order.inverse(tuple(order)))


def holes_and_overlaps():
    base = torch.arange(60.0).view(6, 10)
    return {"holes": base[::2, ::3], "column": base[:, 3:4], "expanded": base[:, :1].expand(6, 4),
            "windows": torch.arange(5.0).unfold(0, 3, 1)}


def test_the_order_is_that_of_the_memory():
    for tensor in tensors():
        order = memory_order.order_of(tensor)
        if order is None:
            assert tensor.is_contiguous()
        else:
            sent = tensor.permute(order)
            assert sent.is_contiguous() and not tensor.is_contiguous()
            assert sent.permute(memory_order.inverse(order)).stride() == tensor.stride()
    for tensor in holes_and_overlaps().values():
        assert memory_order.order_of(tensor) is None


def test_the_order_does_not_depend_on_strides_that_mean_nothing():
    """Those of dimensions of size 1, which differ between ranks."""
    shape = (3, 1, 4, 1)
    orders = {memory_order.order_of(torch.arange(12.0).as_strided(shape, (1, first, 3, last)))
              for first, last in itertools.product((0, 1, 3, 12, 100), repeat=2)}
    assert len(orders) == 1 and None not in orders


def test_what_is_contiguous_is_sent_itself():
    for tensor in tensors():
        sent, written, result = on_wire(tensor, tensor)
        assert sent.is_contiguous() and sent is written
        assert (sent is tensor) == tensor.is_contiguous()
        assert result_of(result) is tensor


@pytest.mark.parametrize("name", holes_and_overlaps())
def test_what_is_received_in_place_is_copied_back(name):
    tensor = holes_and_overlaps()[name]
    sent, written, result = on_wire(tensor, tensor)
    assert torch.equal(sent, tensor)
    written.mul_(2)
    before = tensor.clone()
    assert result_of(result) is tensor
    assert torch.equal(tensor, before * 2)


@pytest.mark.parametrize("name, shares", [("holes", False), ("column", False), ("expanded", True),
                                          ("windows", True)])
def test_elements_that_share_memory_get_one_value(name, shares, monkeypatch):
    mpi_ops = pytest.importorskip("horovod.torch.mpi_ops")
    monkeypatch.setattr(mpi_ops, "rank", lambda: 3)
    tensor = holes_and_overlaps()[name]
    _, written, result = on_wire(tensor, tensor)
    written.copy_(torch.arange(float(tensor.numel())).view(tensor.shape))
    if shares:
        with pytest.raises(ValueError, match=r"rank 3: a tensor of shape .*tensor.clone\(\)"):
            result_of(result)
    else:
        assert torch.equal(result_of(result).flatten(), torch.arange(float(tensor.numel())))


def test_a_negated_view_is_sent_as_it_reads():
    memory = torch.arange(6.0)
    tensor = torch._neg_view(memory)
    sent, written, result = on_wire(tensor, tensor)
    assert sent.tolist() == [-value for value in range(6)] and not sent.is_neg()
    written.add_(1)
    assert result_of(result) is tensor
    assert memory.tolist() == [value - 1 for value in range(6)]


def test_a_group_is_copied_where_it_has_to_be():
    group = [torch.zeros(2, 3), torch.arange(6.0).view(2, 3).t(), torch.zeros(4)]
    sent, written, result = memory_order.group_on_wire(group, group)
    assert [part is tensor for part, tensor in zip(sent, group)] == [True, False, True]
    for part in written:
        part.add_(1)
    results = result_of(result)
    assert all(first is second for first, second in zip(results, group))
    assert group[1].tolist() == [[1, 4], [2, 5], [3, 6]] and group[0].sum() == 6


def test_a_gradient_in_the_order_of_its_parameter_is_not_copied():
    for tensor in tensors():
        parameter = torch.nn.Parameter(tensor)
        parameter.grad = torch.randn_like(parameter)
        memory, values = parameter.grad.data_ptr(), parameter.grad.clone()
        orders = GradientOrders()
        orders.add([parameter])
        sent = orders.to_wire(parameter, parameter.grad)
        assert sent.is_contiguous() and sent.data_ptr() == memory
        sent.mul_(2)
        orders.set_gradient(parameter, sent)
        assert parameter.grad.data_ptr() == memory
        assert parameter.grad.stride() == parameter.stride() or 1 in parameter.shape
        assert torch.equal(parameter.grad, values * 2)


def test_a_gradient_in_another_order_is_copied_and_stays_where_it_is():
    """Ranks send equal memory, whatever their gradients' layouts."""
    shape = (3, 4, 2)
    values = torch.arange(24.0).view(shape)
    layouts = [values.permute(order).contiguous().permute(memory_order.inverse(order))
               for order in itertools.permutations(range(3))]
    layouts += [torch.zeros(6, 8, 2)[::2, ::2].copy_(values), values[:, :, :1].expand(shape)]
    for parameter in map(torch.nn.Parameter, layouts[:6]):
        orders = GradientOrders()
        orders.add([parameter])
        for gradient in layouts:
            parameter.grad = gradient.clone(memory_format=torch.preserve_format) if (
                gradient.stride() != (8, 2, 0)) else gradient
            memory, before = parameter.grad, parameter.grad.clone()
            sent = orders.to_wire(parameter, parameter.grad)
            order = memory_order.order_of(parameter) or range(3)
            assert sent.is_contiguous() and torch.equal(sent, before.permute(*order))
            orders.set_gradient(parameter, sent.clone().add_(1))
            assert torch.equal(parameter.grad, before + 1)
            assert parameter.grad is memory


def test_ranks_that_differ_are_named():
    shape, strides, turned = [2, 3], [3, 1], [1, 2]
    row_major, other = [shape, strides, None], [shape, turned, [1, 0]]
    difference = memory_order._difference
    assert difference([{"a": row_major}, {"a": row_major}], [0, 1]) == ""
    assert difference([{"a": other}, {"a": other}], [0, 1]) == ""
    text = difference([{"b": row_major, "a": row_major}, {"b": row_major, "a": row_major},
                       {"b": row_major, "a": other}], [0, 3, 5])
    assert "parameter 'a' of shape [2, 3] has strides [3, 1] on rank 0 and [1, 2] on rank 5" in text
    # Another model is another error, in the first step.
    assert difference([{"a": other}, {"b": row_major}], [0, 1]) == ""
    assert difference([{"a": other}, {"a": [[3, 2], [2, 1], None]}], [0, 1]) == ""

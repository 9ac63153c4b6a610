"""Upstream's operations of PyTorch by the type of a tensor, and the splits of an alltoall."""

from __future__ import annotations

import warnings
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")
tensor_types = pytest.importorskip("horovod_opt.pytorch.tensor_types")

INT32 = 2**31


def type_of(name: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch calls complex32 experimental
        return torch.empty(0, dtype=getattr(torch, name)).type()


@pytest.mark.parametrize("name", tensor_types.TYPES)
def test_name_of_a_type(name):
    if not hasattr(torch, name):
        pytest.skip("a type of later versions of PyTorch")
    assert type_of(name) == f"torch.{tensor_types.TYPES[name]}Tensor"


def test_every_type_that_has_plain_bytes():
    """A type that PyTorch adds gets a row, or a reason here."""
    dtypes = {str(value).partition(".")[2] for value in vars(torch).values()
              if isinstance(value, torch.dtype)}
    # Scales are elsewhere, or elements have no whole number of bytes.
    others = {name for name in dtypes if name.startswith(("q", "bits"))
              or name.strip("uint").isdigit() and int(name.strip("uint")) < 8}
    assert dtypes - others == {name for name in tensor_types.TYPES if hasattr(torch, name)}


def test_operations_of_float16_are_those_of_every_type():
    library = ModuleType("library")
    names = ("allreduce_async_torch_HalfTensor", "allgather_async_torch_cuda_HalfTensor",
             "allreduce_async_torch_FloatTensor", "join")
    for name in names:
        setattr(library, name, object())
    before = {*vars(library)}
    tensor_types.add_operations(library)
    added = {}
    for prefix in "allreduce_async_torch", "allgather_async_torch_cuda":
        of_half = getattr(library, f"{prefix}_HalfTensor")
        added |= {f"{prefix}_{text}Tensor": of_half for text in tensor_types.TYPES.values()}
    assert {*vars(library)} - before == {*added} - before
    assert all(getattr(library, name) is of_half for name, of_half in added.items())


@pytest.mark.parametrize("splits, dtype, numbers", [
    (None, "int32", []),
    ([], "int32", []),
    ([1, 2], "int32", [1, 2]),
    ((0, -1), "int32", [0, -1]),
    ([-INT32, INT32 - 1], "int32", [-INT32, INT32 - 1]),
    ([0, INT32], "int64", [0, INT32]),
    ([-INT32 - 1, 0], "int64", [-INT32 - 1, 0]),
    ([1.5, 0.5], "float32", [1.5, 0.5]),
    ([1.0, 2.0], "float32", [1.0, 2.0]),
    ([1j, 2], "complex64", [1j, 2]),
    ([[1], [2]], "int32", [[1], [2]]),
    (3, "int32", 3),
    (torch.tensor([1, 2]), "int64", [1, 2]),
    (torch.tensor([[1, 2], [3, 4]], dtype=torch.int32).t()[0], "int32", [1, 3]),
])
def test_splits(splits, dtype, numbers):
    tensor = tensor_types.splits_tensor(splits)
    assert tensor.dtype == getattr(torch, dtype)
    assert tensor.tolist() == numbers
    assert tensor.is_contiguous()


def test_splits_of_numpy_become_int32():
    numpy = pytest.importorskip("numpy")
    assert tensor_types.splits_tensor(numpy.array([1, 2])).dtype == torch.int32

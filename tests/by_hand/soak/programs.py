"""Programs: what all ranks call, as data. drawing.py draws them."""

from __future__ import annotations

from typing import NamedTuple, Union

FLOATS = ("float16", "bfloat16", "float32", "float64")
# Bytes of an element of types that are only moved.
MOVED = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "uint32": 4, "uint64": 8, "complex64": 8,
         "complex128": 16, "float8_e4m3fn": 1, "float8_e5m2": 1}
ROWS = 50  # of the dense tensor that a sparse one is part of

# A tensor with a layout has rows of this shape, in the memory of one of PyTorch's layouts.
ROW = (2, 3, 2)
ROW_ELEMENTS = 12
LAYOUTS = ("", "channels_last", "transposed", "sliced", "view")
EACH_ITS_OWN = "each its own"  # another one on each rank
EXPANDED = "expanded"  # all rows are the first one


class Collective(NamedTuple):
    """One collective of a function. `length` in elements, or rows, of each rank's part.

    sources    places of earlier collectives whose results its input is computed from
    among      the ranks of its process set, if it is not the global one
    sometimes  it is in a branch that every other call takes
    bits       not 0: its input is drawn from this, bit by bit (bits.py), and no other's source
    layout     of PyTorch's tensors
    in_place   whether PyTorch's result is in the input's memory
    """

    kind: str
    dtype: str
    length: int
    op: str = "Sum"
    scale: float = 1.0
    sources: tuple[int, ...] = ()
    among: tuple[int, ...] = ()
    sometimes: bool = False
    bits: int = 0
    layout: str = ""
    in_place: bool = False


class Function(NamedTuple):
    """Collectives, gone through `times` times in each call; in a graph, if TensorFlow has it and
    it is not `eager`."""

    collectives: tuple[Collective, ...]
    times: int = 1
    eager: bool = False


class Leave(NamedTuple):
    """What ranks leave by an exception that they catch: a turn, or a step.

    places   by rank, before which collective, or at which parameter's gradient; None: not at all
    again    how they go on: with the `same` optimizer, with `another` of new parameters, with one
             of the same parameters in its place (`replaced`), or `synchronized`
    elsewhere  whether all meet in another call before they go on
    """

    turn: int
    places: tuple[Union[int, None], ...]
    again: str = ""
    elsewhere: bool = False

    @property
    def ranks(self) -> list[int]:
        return [rank for rank, place in enumerate(self.places) if place is not None]

    def is_alike(self) -> bool:
        """All ranks leave, at one place."""
        return len({*self.places}) == 1


class Calls(NamedTuple):
    """Threads that call functions, each its own, in an order of its own. With `leaves` there is one
    thread."""

    functions: tuple[Function, ...]
    threads: tuple[tuple[int, ...], ...]
    leaves: tuple[Leave, ...] = ()


class Uneven(NamedTuple):
    """Ranks call a function, some more often than others, and join; then all call it `after`
    times."""

    function: Function
    calls_of_rank: tuple[int, ...]
    after: int


class Branches(NamedTuple):
    """Parameter p has a gradient on `rank` in `step` unless (step * a + rank * b + p) % m is 0."""

    a: int = 0
    b: int = 0
    m: int = 0

    def takes(self, rank: int, step: int, parameter: int) -> bool:
        if parameter == 0 or self.m == 0:
            return True
        return (step * self.a + rank * self.b + parameter) % self.m != 0


class Training(NamedTuple):
    """Steps of PyTorch's hvd.DistributedOptimizer; a join after them if ranks have different
    numbers, and then `after` more.

    beside     what is called between gradients and step
    layouts    of the parameters, in one of which a length is a multiple of a row's
    gradients  where they are: in `views` of one tensor, or in a memory of `another order`
    bits       not 0: gradients are drawn from this, and weights are zeros before each step
    """

    parameters: tuple[int, ...]  # lengths
    branches: Branches
    steps_of_rank: tuple[int, ...]
    after: int
    op: str
    predivide: float = 1.0
    passes: int = 1
    groups: int = 0
    compression: str = "none"
    beside: Union[Function, None] = None
    layouts: tuple[str, ...] = ()
    gradients: str = ""
    bits: int = 0
    dtype: str = "float32"
    leaves: tuple[Leave, ...] = ()


def parameter_at(about: Training, leave: Leave, rank: int, step: int) -> Union[int, None]:
    """The gradient at which a rank leaves. The last parameter's comes first: a rank that has sent
    nothing has not left the step, unless all leave alike. Raises IndexError if there is none."""
    place = leave.places[rank]
    if place is None or (leave.is_alike() and not about.branches.m):
        return place
    used = [each for each in range(len(about.parameters))
            if about.branches.takes(rank, step, each)][:-1]
    return used[min(place, len(used) - 1)]


Phase = Union[Calls, Uneven, Training]


def process_sets(ranks: int) -> list[tuple[int, ...]]:
    """Neighbours, which overlap."""
    return [(rank, rank + 1) for rank in range(ranks - 1)] if ranks > 2 else []


def kinds_of(about: Collective) -> list[str]:
    """Of KINDS in drawing.py; what a rank counts of them."""
    return [name for name, drawn in (
        ("bytes", about.dtype in MOVED), ("special", about.bits and about.dtype not in MOVED),
        ("layouts", about.layout), ("mixed", about.kind == "mixed")) if drawn]

"""Random programs: what all ranks call, drawn from a random.Random and from nothing else."""

from __future__ import annotations

from random import Random
from typing import NamedTuple, Union

FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = {"tensorflow": ("uint8", "int32", *FLOATS), "torch": ("int32", "int64", *FLOATS)}
OTHERS = ("broadcast", "allgather", "alltoall", "reducescatter", "grouped", "sparse")
ROWS = 50  # of the dense tensor that a sparse one is part of


class Collective(NamedTuple):
    """One collective of a function. `length` in elements, of each rank's part.

    sources    places of earlier collectives whose results its input is computed from
    among      the ranks of its process set, if it is not the global one
    sometimes  it is in a branch that every other call takes
    """

    kind: str
    dtype: str
    length: int
    op: str = "Sum"
    scale: float = 1.0
    sources: tuple[int, ...] = ()
    among: tuple[int, ...] = ()
    sometimes: bool = False


class Function(NamedTuple):
    """Collectives, gone through `times` times in each call; in a graph, if TensorFlow has it and
    it is not `eager`."""

    collectives: tuple[Collective, ...]
    times: int = 1
    eager: bool = False


class Calls(NamedTuple):
    """Threads that call functions, each its own, in an order of its own."""

    functions: tuple[Function, ...]
    threads: tuple[tuple[int, ...], ...]


class Uneven(NamedTuple):
    """Ranks call a function, some more often than others, and join; then all call it `after`
    times."""

    function: Function
    calls_of_rank: tuple[int, ...]
    after: int


class Branches(NamedTuple):
    """Parameter p has a gradient on `rank` in `step` unless (step * a + rank * b + p) % m is 0."""

    a: int
    b: int
    m: int

    def takes(self, rank: int, step: int, parameter: int) -> bool:
        if parameter == 0 or self.m == 0:
            return True
        return (step * self.a + rank * self.b + parameter) % self.m != 0


class Training(NamedTuple):
    """Steps of PyTorch's hvd.DistributedOptimizer; a join after them if ranks have different
    numbers, and then `after` more. `beside`: what is called between gradients and step."""

    parameters: tuple[int, ...]  # lengths
    branches: Branches
    steps_of_rank: tuple[int, ...]
    after: int
    op: str
    predivide: float
    passes: int
    groups: int
    compression: str
    beside: Union[Function, None]


Phase = Union[Calls, Uneven, Training]


def collective(random: Random, framework: str, ranks: int, place: int, plain: bool) -> Collective:
    """`plain`: a sum of all ranks, which a rank that has joined can take part in."""
    sources = tuple(sorted({random.randrange(place) for _ in range(random.randrange(3))})
                    ) if place else ()
    if not plain and random.random() < 0.35:
        kind = random.choice(OTHERS)
        dtypes = ("float32",) if kind == "sparse" else ("float32", "int32", "float64", "bfloat16")
        dtype = random.choice(dtypes)
        return Collective(kind, dtype, random.randint(1, 300), sources=sources,
                          among=_process_set(random, ranks) if kind != "sparse" else ())
    dtype = "float32" if plain else random.choice((*DTYPES[framework], "float32", "float32"))
    length = random.choice((0, 1, random.randint(2, 300), random.randint(300, 20_000)))
    scale = random.choice((1.0, 2.0)) if dtype in FLOATS else 1.0
    if plain:
        return Collective("allreduce", dtype, length, scale=scale, sources=sources)
    # A mean of three ranks would not be exact.
    mean = ("Average",) if dtype in FLOATS and ranks != 3 else ()
    among = _process_set(random, ranks) if random.random() < 0.3 else ()
    op = random.choice(("Sum", "Sum", "Min", "Max", *(() if among else mean)))
    return Collective("allreduce", dtype, length, op, scale, sources, among,
                      random.random() < 0.1)


def process_sets(ranks: int) -> list[tuple[int, ...]]:
    """Neighbours, which overlap."""
    return [(rank, rank + 1) for rank in range(ranks - 1)] if ranks > 2 else []


def _process_set(random: Random, ranks: int) -> tuple[int, ...]:
    return random.choice([(), *process_sets(ranks)])


def function(random: Random, framework: str, ranks: int, plain: bool = False) -> Function:
    collectives = tuple(collective(random, framework, ranks, place, plain)
                        for place in range(random.randint(1, 7)))
    if any(about.sometimes for about in collectives):
        # TensorFlow numbers branches, and ranks outside of a process set have fewer.
        collectives = tuple(about._replace(among=()) for about in collectives)
    times = random.choice((1, 1, 1, 1, 2, 3)) if not plain else 1
    return Function(collectives, times)


def calls(random: Random, framework: str, ranks: int) -> Calls:
    threads = random.choice((1, 1, 1, 2, 3))
    functions = [function(random, framework, ranks)
                 for _ in range(max(threads, random.randint(1, 3)))]
    if threads == 1 and random.random() < 0.3:
        # Not in several threads: TensorFlow has one kernel, with one name, for all eager
        # operations that are alike.
        functions[0] = functions[0]._replace(eager=True)
    own = [[place for place in range(len(functions)) if place % threads == thread]
           for thread in range(threads)]
    return Calls(tuple(functions), tuple(
        tuple(random.choice(own[thread]) for _ in range(random.randint(6, 20)))
        for thread in range(threads)))


def uneven(random: Random, framework: str, ranks: int) -> Uneven:
    return Uneven(function(random, framework, ranks, plain=True),
                  tuple(random.choice((0, random.randint(1, 14))) for _ in range(ranks)),
                  random.randint(3, 12))


def training(random: Random, ranks: int, may_join: bool) -> Training:
    parameters = tuple(random.choice((1, random.randint(2, 200), random.randint(200, 30_000)))
                       for _ in range(random.randint(1, 9)))
    steps = random.randint(6, 16)
    joins = may_join and random.random() < 0.3
    groups = random.choice((0, 0, 0, 1, 2)) if not joins else 0
    # Upstream reduces a group when all of it has gradients.
    always = groups or random.random() < 0.3
    branches = Branches(random.randrange(3), random.choice((0, 0, 1)), random.randint(2, 4))
    op = random.choice(("Sum", "Average")) if ranks != 3 else "Sum"
    return Training(
        parameters, Branches(0, 0, 0) if always else branches,
        tuple(max(0, steps - random.randint(0, 8) * joins) for _ in range(ranks)),
        random.randint(3, 10), op, 2.0 if op == "Average" and random.random() < 0.3 else 1.0,
        random.choice((1, 1, 2)), groups,
        random.choice(("none", "none", "none", "none", "fp16", "bf16")),
        function(random, "torch", ranks, plain=joins) if random.random() < 0.4 else None)


def phase(random: Random, framework: str, ranks: int, may_join: bool) -> Phase:
    if framework == "torch" and random.random() < 0.6:
        return training(random, ranks, may_join)
    if may_join and random.random() < 0.2:
        return uneven(random, framework, ranks)
    return calls(random, framework, ranks)

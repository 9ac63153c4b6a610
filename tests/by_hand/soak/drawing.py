"""Random programs, drawn from a random.Random and from nothing else."""

from __future__ import annotations

from random import Random
from typing import NamedTuple, Union

from programs import (
    EACH_ITS_OWN,
    EXPANDED,
    FLOATS,
    LAYOUTS,
    MOVED,
    ROW_ELEMENTS,
    Branches,
    Calls,
    Collective,
    Function,
    Leave,
    Phase,
    Training,
    Uneven,
    process_sets,
)

# What programs have beside plain numbers in plain tensors, each of which can be left out.
#   leaves        exceptions that the script catches: a step of some ranks, or all, has no end
#   special       NaNs, infinities, zeros of both signs, denormals, the greatest numbers
#   layouts       of PyTorch's tensors, parameters and gradients
#   bytes         types that are only moved
#   mixed         a group on some ranks, its tensors singly on others (TensorFlow)
KINDS = ("leaves", "special", "layouts", "bytes", "mixed")
DEFAULT_KINDS = KINDS[:-1]  # mixed groups end a job that sets HOROVOD_DISABLE_GROUP_FUSION

DTYPES = {"tensorflow": ("uint8", "int32", *FLOATS), "torch": ("int32", "int64", *FLOATS)}
MOVES = ("broadcast", "allgather", "alltoall")
OTHERS = (*MOVES, "reducescatter", "grouped", "sparse")
AGAIN = ("same", "another", "replaced", "synchronized")
SEEDS = 2**30


class Draw(NamedTuple):
    """What is drawn from, and for. `plans`: whether the mode may plan tensors. `plain`: sums of all
    ranks alone, which a rank that has joined, or left, can take part in."""

    random: Random
    framework: str
    ranks: int
    plans: bool
    kinds: frozenset[str] = frozenset(DEFAULT_KINDS)
    plain: bool = False

    def chance(self, of: float) -> bool:
        return self.random.random() < of

    def has(self, kind: str, of: float) -> bool:
        return self.chance(of) and kind in self.kinds

    def seed(self) -> int:
        return self.random.randint(1, SEEDS)

    def among(self) -> tuple[int, ...]:
        return self.random.choice([(), *process_sets(self.ranks)])

    def op(self, *others: str) -> str:
        """A mean of three ranks would not be exact."""
        return self.random.choice(("Sum", *others, *("Average",) * (self.ranks != 3)))


def collective(draw: Draw, earlier: list[Collective]) -> Collective:
    random = draw.random
    numbers = [place for place, other in enumerate(earlier) if not other.bits]
    sources = tuple(sorted({random.choice(numbers) for _ in range(random.randrange(3))})
                    ) if numbers else ()
    if draw.plain:
        length = random.choice((0, 1, random.randint(2, 300), random.randint(300, 20_000)))
        return Collective("allreduce", "float32", length, scale=random.choice((1.0, 2.0)),
                          sources=sources)
    about = random.choice((_of_bits, _of_numbers, _of_numbers, _of_numbers))(draw, sources)
    return _with_layout(draw, about)


def _of_numbers(draw: Draw, sources: tuple[int, ...]) -> Collective:
    random = draw.random
    if draw.framework == "tensorflow" and draw.has("mixed", 0.1):
        return Collective("mixed", "float32", random.randint(1, 300), sources=sources)
    if draw.chance(0.35):
        kind = random.choice(OTHERS)
        dtypes = ("float32",) if kind == "sparse" else ("float32", "int32", "float64", "bfloat16")
        return Collective(kind, random.choice(dtypes), random.randint(1, 300), sources=sources,
                          among=draw.among() if kind != "sparse" else ())
    dtype = random.choice((*DTYPES[draw.framework], "float32", "float32"))
    length = random.choice((0, 1, random.randint(2, 300), random.randint(300, 20_000)))
    scale = random.choice((1.0, 2.0)) if dtype in FLOATS else 1.0
    among = draw.among() if draw.chance(0.3) else ()
    op = random.choice(("Sum", "Sum", "Min", "Max"))
    if dtype in FLOATS and not among and draw.chance(0.2):
        op = draw.op()
    return Collective("allreduce", dtype, length, op, scale, sources, among, draw.chance(0.1))


def _of_bits(draw: Draw, sources: tuple[int, ...]) -> Collective:
    random = draw.random
    length = random.choice((1, random.randint(2, 300), random.randint(2, 3000)))
    if draw.has("bytes", 0.5):
        return Collective(random.choice(MOVES), random.choice([*MOVED]), min(length, 300),
                          among=draw.among(), bits=draw.seed())
    if "special" not in draw.kinds:
        return _of_numbers(draw, sources)
    kind = random.choice(("allreduce", "allreduce", "allreduce", "reducescatter", *MOVES))
    among = draw.among() if draw.chance(0.3) else ()
    op = draw.op("Sum", "Min", "Max", "Product") if kind == "allreduce" and not among else "Sum"
    return Collective(kind, random.choice(FLOATS), length, op, among=among, bits=draw.seed(),
                      sometimes=draw.chance(0.1))


def _with_layout(draw: Draw, about: Collective) -> Collective:
    if draw.framework != "torch" or about.kind == "sparse" or not draw.has("layouts", 0.4):
        return about
    layout = draw.random.choice((*LAYOUTS[1:], EACH_ITS_OWN, EXPANDED))
    if layout == EXPANDED and about.bits:
        layout = EACH_ITS_OWN
    in_place = (layout != EXPANDED and about.kind in ("allreduce", "broadcast")
                and draw.chance(0.3))
    return about._replace(layout=layout, in_place=in_place,
                          length=-(-about.length // ROW_ELEMENTS))


def function(draw: Draw) -> Function:
    collectives: list[Collective] = []
    for _ in range(draw.random.randint(1, 7)):
        collectives.append(collective(draw, collectives))
    if any(about.sometimes for about in collectives):
        # TensorFlow numbers branches, and ranks outside of a process set have fewer.
        collectives = [about._replace(among=()) for about in collectives]
    times = draw.random.choice((1, 1, 1, 1, 2, 3))
    if draw.plain or any(about.bits for about in collectives):
        times = 1
    return Function(tuple(collectives), times)


def calls(draw: Draw) -> Calls:
    random = draw.random
    threads = random.choice((1, 1, 1, 2, 3))
    functions = [function(draw) for _ in range(max(threads, random.randint(1, 3)))]
    if threads == 1 and draw.chance(0.3) and not any(
            about.kind == "mixed" for about in functions[0].collectives):
        # Not in several threads: TensorFlow has one kernel, with one name, for all eager
        # operations that are alike.
        functions[0] = functions[0]._replace(eager=True)
    own = [[place for place in range(len(functions)) if place % threads == thread]
           for thread in range(threads)]
    return Calls(tuple(functions), tuple(
        tuple(random.choice(own[thread]) for _ in range(random.randint(6, 20)))
        for thread in range(threads)))


def calls_that_fail(draw: Draw) -> Calls:
    """Where the mode does not plan, each sum needs the one before: then all ranks have sent the
    same when all fail. Else all need the first one, which every rank sends in every call: a rank
    that has sent nothing of a step has not left it."""
    draw, random = draw._replace(plain=True), draw.random
    functions = []
    for _ in range(random.randint(1, 2)):
        is_chain = not draw.plans or draw.chance(0.5)
        drawn = [collective(draw, []) for _ in range(random.randint(2, 7))]
        functions.append(Function(tuple(
            about._replace(sources=(place - 1 if is_chain else 0,) if place else ())
            for place, about in enumerate(drawn))))
    turns = random.randint(16, 36)
    order = tuple(random.randrange(len(functions)) for _ in range(turns))
    return Calls(tuple(functions), (order,), leaves(draw, turns, 7))


def leaves(draw: Draw, turns: int, places: int) -> tuple[Leave, ...]:
    """What ranks leave, sometimes in turns that follow each other at once."""
    random = draw.random
    chosen = sorted(random.sample(range(turns - 1), random.randint(1, 3)))
    return tuple(Leave(turn, _places(draw, places), random.choice(AGAIN), draw.chance(0.3))
                 for turn in chosen)


def _places(draw: Draw, places: int) -> tuple[Union[int, None], ...]:
    random = draw.random
    alike = (random.randrange(places),) * draw.ranks
    if not draw.plans or draw.chance(0.4):
        return alike
    own = [random.randrange(places) if draw.chance(0.5) else None for _ in range(draw.ranks)]
    own[random.randrange(draw.ranks)] = random.randrange(places)
    return tuple(own)


def uneven(draw: Draw) -> Uneven:
    random = draw.random
    return Uneven(function(draw._replace(plain=True)),
                  tuple(random.choice((0, random.randint(1, 14))) for _ in range(draw.ranks)),
                  random.randint(3, 12))


def training(draw: Draw, may_join: bool) -> Training:
    random = draw.random
    parameters = tuple(random.choice((1, random.randint(2, 200), random.randint(200, 30_000)))
                       for _ in range(random.randint(1, 9)))
    steps = random.randint(6, 16)
    if draw.has("special", 0.15):
        return _with_layouts(draw, Training(
            parameters, Branches(), (steps,) * draw.ranks, random.randint(3, 10), draw.op(),
            groups=random.choice((0, 0, 2)), bits=draw.seed(), dtype=random.choice(FLOATS)))
    joins = may_join and draw.chance(0.3)
    groups = random.choice((0, 0, 0, 1, 2)) if not joins else 0
    lefts: tuple[Leave, ...] = ()
    if not joins and draw.has("leaves", 0.4):
        steps = random.randint(14, 30)
        lefts = leaves(draw, steps, len(parameters))
    # Upstream reduces a group when all of it has gradients. Without plans all ranks must have sent
    # the same when they leave a step.
    always = groups or draw.chance(0.3) or (lefts and not draw.plans)
    branches = Branches(random.randrange(3), random.choice((0, 0, 1)), random.randint(2, 4))
    op = draw.op()
    return _with_layouts(draw, Training(
        parameters, Branches() if always else branches,
        tuple(max(0, steps - random.randint(0, 8) * joins) for _ in range(draw.ranks)),
        random.randint(3, 10), op, 2.0 if op == "Average" and draw.chance(0.3) else 1.0,
        random.choice((1, 1, 2)), groups,
        random.choice(("none", "none", "none", "none", "fp16", "bf16")),
        function(draw._replace(plain=joins)) if draw.chance(0.4) else None, leaves=lefts))


def _with_layouts(draw: Draw, about: Training) -> Training:
    if not draw.has("layouts", 0.5):
        return about
    layouts = tuple(draw.random.choice(("", "", "channels_last", "transposed"))
                    for _ in about.parameters)
    lengths = tuple(-(-length // ROW_ELEMENTS) * ROW_ELEMENTS if layout else length
                    for length, layout in zip(about.parameters, layouts))
    # Of zeros that are added to what is drawn, bits would not be left.
    where = draw.random.choice(("", "views", "another order")) if not about.bits else ""
    return about._replace(parameters=lengths, layouts=layouts, gradients=where)


def phase(draw: Draw, may_join: bool) -> Phase:
    if draw.framework == "torch" and draw.chance(0.6):
        return training(draw, may_join)
    if may_join and draw.chance(0.2):
        return uneven(draw)
    if draw.framework == "tensorflow" and draw.has("leaves", 0.25):
        return calls_that_fail(draw)
    return calls(draw)

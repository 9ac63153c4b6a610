"""Random orders and batches."""

from __future__ import annotations

from hypothesis import strategies as st

from horovod_opt.io.order.batches import LAST, Batches
from horovod_opt.io.order.order import Order


@st.composite
def orders(draw: st.DrawFn, most: int = 500) -> Order:
    samples = draw(st.integers(1, most))
    chunk_samples = draw(st.integers(1, 12) | st.integers(1, samples))
    chunks = -(-samples // chunk_samples)
    seed = draw(st.integers(0, 2**63 - 1))
    if not draw(st.integers(0, 9)):
        return Order(samples, chunk_samples, seed=seed, shuffle=False)
    return Order(samples, chunk_samples, draw(st.integers(1, min(chunks, 40))),
                 draw(st.integers(1, 9) | st.just(1000)), seed,
                 draw(st.binary(min_size=16, max_size=16)), version=draw(st.integers(1, 2)))


@st.composite
def batches(draw: st.DrawFn, order: Order) -> Batches:
    ranks = draw(st.integers(1, min(order.samples, 9)))
    size = draw(st.integers(ranks, ranks + 60))
    last = draw(st.sampled_from([name for name in LAST if name != "drop" or size <= order.samples]))
    start = draw(st.just(0) | st.integers(0, order.samples))
    if size % ranks == 0:
        return Batches(order, ranks, batch_size=size // ranks, last=last, start=start)
    return Batches(order, ranks, global_batch_size=size, last=last, start=start)


@st.composite
def jobs(draw: st.DrawFn, most: int = 500) -> tuple[Order, Batches]:
    order = draw(orders(most))
    return order, draw(batches(order))

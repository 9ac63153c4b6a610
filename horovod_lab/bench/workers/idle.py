"""CPU use after hvd.init() while nothing happens: percent of a core, of the busiest rank.

The threads that appeared during hvd.init() are Horovod's background thread and MPI's helpers;
upstream gives them no name to be found by.
"""

import time

import tensorflow  # noqa: F401  its threads must exist before hvd.init() to be told apart
from rank import Rank
from threads import cpu_seconds, thread_ids

SETTLE_SECONDS = 1.0


def main() -> None:
    rank = Rank("idle")
    if rank.uses_horovod:
        import horovod.tensorflow  # noqa: F401  likewise
    before = thread_ids()
    rank.init()
    rank.exchange(None)
    time.sleep(SETTLE_SECONDS)

    threads = thread_ids()
    new = threads - before
    used = {thread: cpu_seconds(thread) for thread in threads}
    started = time.perf_counter()
    time.sleep(rank.seconds)
    seconds = time.perf_counter() - started
    percent = {thread: 100 * (cpu_seconds(thread) - used[thread]) / seconds for thread in threads}

    background, process = sum(percent[thread] for thread in new), sum(percent.values())
    rank.report({"background_percent": max(rank.exchange(background)),
                 "process_percent": max(rank.exchange(process))},
                background_percent=background, process_percent=process)


if __name__ == "__main__":
    main()

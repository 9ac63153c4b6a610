"""The process of a job of the suite stream: takes epochs of one pipeline in several shapes, one
after the other, and counts what it gets."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tensorflow as tf

from horovod_lab.io.data import jpegs
from horovod_lab.io.suites.stream.pipelines import PIPELINES, Shape
from horovod_lab.io.testbeds.rendezvous import Rendezvous

AT_ONCE = 16  # files whose cached pages are forgotten at the same time


class WrongImages(Exception):
    """An epoch was not what is in the files; the text says what."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--series", choices=list(PIPELINES), required=True)
    for name in "data", "rendezvous":
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--shapes", type=json.loads, required=True)
    parser.add_argument("--parent", type=int, required=True)
    for name in "seconds", "step-seconds":
        parser.add_argument(f"--{name}", type=float, required=True)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    rendezvous = Rendezvous(options.rendezvous, options.parent)
    paths, pipeline = jpegs.names(options.data), PIPELINES[options.series]
    shapes = [Shape(**shape) for shape in options.shapes]
    for path in [] if options.cold else paths:
        Path(path).read_bytes()
    with pipeline(options.data, shapes[0]) as batches:
        list(batches.take(1))  # what is only done once

    try:
        for number, shape in enumerate(shapes):
            with pipeline(options.data, shape) as batches:
                if options.cold:
                    forget(paths)
                rendezvous.publish(f"ready.{number}", None)
                rendezvous.wait_for(f"go.{number}")
                result = measure(batches, shape, paths, options.seconds, options.step_seconds,
                                 (lambda: forget(paths)) if options.cold else lambda: None)
                rendezvous.publish(f"done.{number}", result)
                rendezvous.wait_for(f"counted.{number}")
    except WrongImages as error:
        sys.exit(f"{options.series}: {error}")


def measure(batches: tf.data.Dataset, shape: Shape, paths: Sequence[str], least: float,
            step_seconds: float, prepare: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Epochs until they have taken `least` seconds; `prepare` is called before all but the first,
    and takes no time. After each batch this thread sleeps for `step_seconds`, as it does while a
    GPU computes. `waited_seconds`: those in which it waited for a batch. Raises WrongImages."""
    total = None if shape.pixels is not None else sum(map(os.path.getsize, paths))
    images, steps, seconds, wait_seconds, cpu = 0, 0, 0.0, 0.0, 0.0
    for epoch in itertools.count(1):
        epoch_images, size = 0, 0
        iterator = iter(batches)
        cpu -= time.process_time()
        wait_start = start = time.monotonic()
        for batch in iterator:
            wait_seconds += time.monotonic() - wait_start
            epoch_images += batch.shape[0]
            steps += 1
            if total is not None:
                size += int(tf.reduce_sum(tf.strings.length(batch)))
            time.sleep(step_seconds)
            wait_start = time.monotonic()
        wait_seconds += time.monotonic() - wait_start
        seconds += time.monotonic() - start
        cpu += time.process_time()
        images += epoch_images
        if epoch_images != len(paths):
            raise WrongImages(f"{epoch_images} images of {len(paths)} files; remedy: remove "
                              f"{Path(paths[0]).parent}, which is then written anew")
        if total is not None and size != total:
            raise WrongImages(f"{size} bytes of files that have {total}")
        if seconds >= least:
            return {"images": images, "steps": steps, "epochs": epoch, "seconds": seconds,
                    "images_per_second": images / seconds, "waited_seconds": wait_seconds,
                    "cpu_ms_per_image": 1e3 * cpu / images}
        prepare()


def forget(paths: Sequence[str]) -> None:
    """The page cache holds nothing of them any more, as the source does it (IV). Names, sizes and
    where files are stay known."""
    def forget_file(path: str) -> None:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(forget_file, paths))


if __name__ == "__main__":
    main()

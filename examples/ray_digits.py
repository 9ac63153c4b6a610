"""Train the network of pytorch_digits.py on two workers of Ray.

    python examples/ray_digits.py
    HOROVOD_OPT_MODE=topo HOROVOD_OPT_STATS=1 python examples/ray_digits.py

It takes the cluster that RAY_ADDRESS names, or starts Ray on this machine. Settings of this process
reach the workers.
"""

import argparse
from pathlib import Path

import digits
import ray
from horovod.ray import RayExecutor

WORKERS = 2


def train(arguments: argparse.Namespace) -> None:
    import horovod.torch as hvd
    import pytorch_digits

    pytorch_digits.train(arguments)
    hvd.shutdown()  # prints the table of HOROVOD_OPT_STATS=1 before Ray ends the worker


def main() -> None:
    arguments = digits.parse_arguments(__doc__.splitlines()[0], learning_rate=0.02)
    ray.init(runtime_env={"working_dir": str(Path(__file__).parent)})
    executor = RayExecutor(RayExecutor.create_settings(timeout_s=60), num_workers=WORKERS)
    executor.start()
    executor.run(train, args=[arguments])
    executor.shutdown()


if __name__ == "__main__":
    main()

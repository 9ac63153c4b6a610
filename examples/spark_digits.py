"""Train the network of pytorch_digits.py in two tasks of Spark.

    python examples/spark_digits.py
    HOROVOD_OPT_MODE=topo HOROVOD_OPT_STATS=1 python examples/spark_digits.py

Started by spark-submit it runs where that says, else on this machine. Settings of this process
reach the ranks. On every node this folder and this Python must be at the same place.
"""

import os
import sys
from pathlib import Path

import digits
import horovod.spark
import pytorch_digits
from pyspark import SparkConf, SparkContext

RANKS = 2


def main() -> None:
    arguments = digits.parse_arguments(__doc__.splitlines()[0], learning_rate=0.02)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAppName("digits").setIfMissing("spark.master", f"local[{RANKS}]")
    context = SparkContext(conf=conf)
    horovod.spark.run(pytorch_digits.train, args=(arguments,), num_proc=RANKS,
                      env={"PYTHONPATH": str(Path(__file__).parent.resolve())})
    context.stop()


if __name__ == "__main__":
    main()

"""Whether the estimators of horovod.spark can read here. They do so through petastorm."""

from __future__ import annotations


def check(module: str) -> None:
    """For the import of `module`, horovod.spark.torch for one.

    Raises:
        ImportError: petastorm is not there, or not with a PyArrow that it can use.
    """
    try:
        from petastorm import make_batch_reader  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{module} reads its data through petastorm, which cannot be imported: {error}. "
            "petastorm 0.13.1, its last release, needs an old PyArrow (10.0.1 has been tried). "
            "Instead of an estimator, hand a training function to horovod.spark.run, as "
            "examples/spark_digits.py does, and read the data in it; see docs/use/ecosystem.md."
        ) from error

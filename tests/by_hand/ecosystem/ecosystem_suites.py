"""What is run on Ray and Spark: jobs of our own, and upstream's suites.

Upstream's suites of the estimators (test_spark_keras, test_spark_torch, test_spark_lightning) are
left out: see docs/use/ecosystem.md.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from suites import LEGACY_KERAS, Suite

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
_SPARK = find_spec("pyspark")
# Workers import what they run from there. Spark takes the Python that the PATH begins with, and
# executors of their own, as in upstream's elastic tests, only where it is told where Spark is.
_ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(map(str, (HERE / "ray_spark", ROOT / "examples"))),
    "PYSPARK_PYTHON": "python",
    **({"SPARK_HOME": str(Path(_SPARK.origin).parent)} if _SPARK else {}),
}

# Changes of upstream's tests, as in bfloat16.py: ray.init() of Ray 2 does not know the argument.
CHANGES = {"single/test_ray.py": ((r", _redis_max_memory=[0-9 *]+", ""),)}


def _suite(name: str, file: str, seconds: int, selected: str = "", **environment: str) -> Suite:
    return Suite(name, file, seconds, launched=False, environment={**_ENVIRONMENT, **environment},
                 selected=selected)


# Below tests/by_hand/ecosystem/ray_spark.
JOBS = (
    _suite("ray", "ray_jobs.py", 400, "test_static"),
    _suite("ray_elastic", "ray_jobs.py", 900, "not test_static"),
    _suite("spark", "spark_jobs.py", 900, "not test_run_elastic"),
    _suite("spark_elastic", "spark_jobs.py", 900, "test_run_elastic"),
)
# Below upstream's test.
UPSTREAM = (
    _suite("test_ray", "single/test_ray.py", 1800),
    _suite("test_ray_elastic", "single/test_ray_elastic.py", 900),
    _suite("test_ray_elastic_v2", "single/test_ray_elastic_v2.py", 900),
    _suite("test_spark", "integration/test_spark.py", 2400),
    _suite("test_elastic_spark_torch", "integration/test_elastic_spark_torch.py", 2400),
    _suite("test_elastic_spark_tensorflow2", "integration/test_elastic_spark_tensorflow2.py", 2400,
           **LEGACY_KERAS),
)

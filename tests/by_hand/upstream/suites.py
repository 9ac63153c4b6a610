"""Which of upstream's suites are run, and how.

Left out: suites that skip themselves with TensorFlow 2 or without a GPU, those of MXNet, those of
Spark and Ray (tests/by_hand/ecosystem has them), and elastic ones for TensorFlow 1
(tf.Session, tf.ConfigProto).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Suite:
    """A file below the folder of the tests, which is upstream's `test/` here, run as one job.

    `seconds` is many times what it takes on two idle cores: only a hang takes longer. Without
    `launched`, the suite is one process and its tests start jobs of their own. `selected`: which of
    them are run, as pytest's -k has it; all, if it is empty.
    """

    name: str
    file: str
    seconds: int = 600
    launched: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    selected: str = ""


def _alone(name: str, file: str, seconds: int = 600,
           environment: Mapping[str, str] | None = None) -> Suite:
    return Suite(name, file, seconds, launched=False, environment=environment or {})


LEGACY_KERAS = {"TF_USE_LEGACY_KERAS": "1"}

SUITES = (
    Suite("common", "parallel/test_common.py"),
    Suite("torch", "parallel/test_torch.py", 1200),
    Suite("adasum_torch", "parallel/test_adasum_pytorch.py"),
    Suite("timeline", "parallel/test_timeline.py"),
    Suite("stall", "integration/test_stall.py"),
    Suite("tensorflow", "parallel/test_tensorflow.py", 1800),
    Suite("adasum_tensorflow", "parallel/test_adasum_tensorflow.py"),
    Suite("process_sets", "parallel/test_tensorflow_process_sets.py", 900),
    Suite("process_sets_static", "parallel/test_process_sets_static.py"),
    Suite("process_sets_dynamic", "parallel/test_tensorflow_process_sets_dynamic.py"),
    Suite("process_sets_multi_comm", "parallel/test_process_sets_multi_comm.py"),
    Suite("keras", "parallel/test_tensorflow2_keras.py"),
    Suite("keras_process_sets", "parallel/test_tensorflow2_keras_process_sets.py"),
    Suite("legacy_keras", "parallel/test_tensorflow2_keras.py", environment=LEGACY_KERAS),
    Suite("legacy_keras_process_sets", "parallel/test_tensorflow2_keras_process_sets.py",
          environment=LEGACY_KERAS),
    Suite("compute_worker", "parallel/test_compute_worker.py"),
    _alone("static_run", "integration/test_static_run.py", 900),
    _alone("interactive_run", "integration/test_interactiverun.py", 900),
    _alone("elastic_torch", "integration/test_elastic_torch.py", 1200),
    _alone("elastic_tensorflow", "integration/test_elastic_tensorflow2.py", 1800),
    _alone("legacy_elastic_tensorflow", "integration/test_elastic_tensorflow2.py", 1800,
           LEGACY_KERAS),
    _alone("torch_elastic_state", "single/test_torch_elastic.py"),
    _alone("run", "single/test_run.py"),
    _alone("elastic_run", "single/test_elastic_run.py"),
    _alone("elastic_driver", "single/test_elastic_driver.py"),
    _alone("elastic_discovery", "single/test_elastic_discovery.py"),
    _alone("service", "single/test_service.py"),
    _alone("task_service", "single/test_task_service.py"),
    _alone("util", "single/test_util.py"),
)

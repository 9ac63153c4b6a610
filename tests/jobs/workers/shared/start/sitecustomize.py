"""Python runs this first in each process of a job, that of the launcher, too.

TensorFlow imports Keras, and Keras, where it finds them, packages for wrappers and pictures that no
worker has: a third of the time in which a worker starts.

horovodrun kills ranks 5 s after it has told them to end: here one that is only slow may say before
what it saw.
"""

import importlib.util
import sys

for name in ("matplotlib", "sklearn"):
    sys.modules[name] = None

ENDS, PATIENCE_SECONDS = "horovod.runner.common.util.safe_shell_exec", 60


class Patience:
    """Finds the module that ends ranks."""

    def find_spec(self, name, path=None, target=None):
        if name != ENDS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            module.GRACEFUL_TERMINATION_TIME_S = PATIENCE_SECONDS

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Patience())

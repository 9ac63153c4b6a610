"""Python runs this first in each process of a job.

TensorFlow imports Keras, and Keras, where it finds them, packages for wrappers and pictures that no
worker has: a third of the time in which a worker starts.
"""

import sys

for name in ("matplotlib", "sklearn"):
    sys.modules[name] = None

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).parent))  # a PEP 517 build does not add the project's folder

from building.commands import COMMANDS, PlatformDistribution  # noqa: E402

setup(cmdclass=COMMANDS, distclass=PlatformDistribution)

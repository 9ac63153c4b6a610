"""What this machine has of what a run needs, and what is said where something is missing. Only the
standard library is used here: nothing is installed yet."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wheel_folder import Manifest, Unusable

from building import cuda

# In a process of its own: what PyTorch takes of memory goes with it.
PROBE = """
import importlib.util, json, sysconfig
from importlib import metadata
found = {"torch": None, "torch_cuda": None, "gpus": [], "nccl": None,
         "sites": [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]}
for name in ("nvidia-nccl-cu12", "nvidia-nccl-cu13"):
    try:
        found["nccl"] = f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        pass
if importlib.util.find_spec("torch"):
    import torch
    found.update(torch=torch.__version__, torch_cuda=torch.version.cuda)
    found["sites"].append(torch.__file__.rsplit("/", 2)[0])
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            it = torch.cuda.get_device_properties(index)
            found["gpus"].append({"name": it.name, "capability": f"{it.major}{it.minor}",
                                  "memory_gib": round(it.total_memory / 2**30, 1)})
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Machine:
    python: str  # as in "3.12"
    torch: str | None
    torch_cuda: str | None  # None: PyTorch is not for CUDA
    gpus: list[dict[str, Any]]
    nccl: str | None       # the wheel's name and version
    sites: list[str]       # folders of packages, PyTorch's among them
    nvcc: str | None       # version of CUDA's compiler
    cuda_home: str | None  # its toolkit
    cpu: str
    cores: int

    def capabilities(self) -> str:
        """For which GPUs kernels are compiled: those that are here, or the H100 and the H200."""
        return ",".join(sorted({gpu["capability"] for gpu in self.gpus}, key=int)) or "90"

    def about(self) -> dict[str, Any]:
        """For the result's JSON."""
        known = {name: value for name, value in asdict(self).items() if name != "sites"}
        today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        return {"date": today, **known}

    def text(self) -> str:
        gpus = ", ".join(f"{gpu['name']} ({gpu['memory_gib']} GiB)" for gpu in self.gpus)
        return (f"{gpus or 'no GPU'}; {self.cpu}, {self.cores} cores; Python {self.python}, "
                f"PyTorch {self.torch}, nvcc {self.nvcc or 'none'}, {self.nccl or 'no NCCL wheel'}")


def examine() -> Machine:
    result = subprocess.run([sys.executable, "-c", PROBE], check=False, text=True,
                            stdin=subprocess.DEVNULL, capture_output=True)
    if result.returncode != 0:
        raise Unusable(f"PyTorch of {sys.executable} cannot be imported:\n{result.stderr[-800:]}")
    facts = json.loads(result.stdout.splitlines()[-1])
    toolkit = cuda.find_toolkit(os.environ)
    nvcc, cuda_home = (toolkit.version, toolkit.home) if toolkit else (None, None)
    return Machine(
        python=f"{sys.version_info.major}.{sys.version_info.minor}", nvcc=nvcc, cuda_home=cuda_home,
        cpu=_processor(), cores=_cores(), **facts)


def _processor() -> str:
    names = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return names[1] if names else platform.machine()


def _cores() -> int:
    """Physical ones that this process may use."""
    def siblings(cpu: int) -> str:
        file = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        return file.read_text() if file.is_file() else str(cpu)

    return len({siblings(cpu) for cpu in os.sched_getaffinity(0)})


def check(machine: Machine, manifest: Manifest, without_gpu: bool) -> None:
    """Raises Unusable if nothing can be run here."""
    if machine.python != manifest.python:
        raise Unusable(f"the folder is for Python {manifest.python}, and this is {machine.python}: "
                       f"tests/by_hand/gpu/collect --python {machine.python}")
    if machine.torch is None:
        raise Unusable(f"PyTorch is not installed for {sys.executable}: use the Python that has it")
    if without_gpu:
        return
    if not machine.gpus:
        raise Unusable(f"PyTorch {machine.torch} sees no GPU; --without-gpu runs what needs none")
    reason = why_not_nccl(machine, manifest)
    if reason:
        raise Unusable(reason)


def why_not_nccl(machine: Machine, manifest: Manifest) -> str:
    """Why the build with NCCL is not possible here; empty: it is."""
    if machine.torch_cuda is None:
        return f"PyTorch {machine.torch} is not for CUDA"
    major = cuda.major(machine.torch_cuda)
    if major != manifest.cuda:
        return (f"the folder is for CUDA {manifest.cuda}, and PyTorch {machine.torch} for CUDA "
                f"{machine.torch_cuda}: tests/by_hand/gpu/collect --cuda {major}")
    if machine.nvcc is None:
        return "there is no nvcc: put CUDA's compiler on PATH, or its folder into HOROVOD_CUDA_HOME"
    if cuda.major(machine.nvcc) != major:
        return (f"nvcc is {machine.nvcc}, and PyTorch {machine.torch} is for CUDA "
                f"{machine.torch_cuda}: let HOROVOD_CUDA_HOME name a toolkit of that version")
    if machine.nccl is None:
        return f"NCCL is missing: pip install nvidia-nccl-cu{major}"
    return ""

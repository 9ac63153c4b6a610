"""One rank of a program that knows nothing of its launcher: init_process_group() alone."""

import os
import sys

import torch
import torch.distributed as dist
from common import report

dist.init_process_group(sys.argv[2])
tensor = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(tensor)
report(rank=dist.get_rank(), sum=tensor.tolist(), address=os.environ["MASTER_ADDR"],
       local=[os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"]])
dist.destroy_process_group()

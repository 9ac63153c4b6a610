"""The input side for PyTorch: a loader of its own, a data set for PyTorch's, and resuming."""

from horovod_opt.io.torch.batch_sampler import BatchSampler
from horovod_opt.io.torch.dataset import Dataset
from horovod_opt.io.torch.loader import Loader as loader
from horovod_opt.io.torch.resume import Resume

__all__ = ["BatchSampler", "Dataset", "Resume", "loader"]

"""The input side for PyTorch: a loader of its own, and a data set for PyTorch's."""

from horovod_opt.io.torch.batch_sampler import BatchSampler
from horovod_opt.io.torch.dataset import Dataset
from horovod_opt.io.torch.loader import Loader as loader

__all__ = ["BatchSampler", "Dataset", "loader"]

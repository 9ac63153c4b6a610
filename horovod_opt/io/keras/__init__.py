"""The input side for Keras: training that goes on where it was stopped."""

from horovod_opt.io.keras.resume import Resume

__all__ = ["Resume"]

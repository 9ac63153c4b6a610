"""What Horovod reduces and how: data types and reduce operations. This is their one table.

Numbers are upstream's, of horovod/common/message.h. C++ gets the table with the generated header
(horovod_opt/native/header.py), and csrc/core/elements/arithmetic.h does not compile if
upstream's numbers are others.
"""

from __future__ import annotations

from typing import NamedTuple


class DataType(NamedTuple):
    """`number`: of horovod::common::DataType; `bytes`: of an element."""

    number: int
    bytes: int


# Those that an allreduce can have.
DTYPES = {
    "uint8": DataType(0, 1), "int8": DataType(1, 1), "int32": DataType(4, 4),
    "int64": DataType(5, 8), "float16": DataType(6, 2), "float32": DataType(7, 4),
    "float64": DataType(8, 8), "bfloat16": DataType(10, 2),
}

AVERAGE, SUM, ADASUM, MIN, MAX, PRODUCT = range(6)  # horovod::common::ReduceOp
REDUCE_OPS = {AVERAGE: "average", SUM: "sum", ADASUM: "Adasum", MIN: "min", MAX: "max",
              PRODUCT: "product"}

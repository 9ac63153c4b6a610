"""What bfloat16 needs in Python; the arithmetic is in csrc/core/base/bfloat16.h."""

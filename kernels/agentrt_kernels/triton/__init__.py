"""The contract in Triton: a kernel a file, for CUDA, and for the interpreter in tests.

Habits that hold in every file: values are widened to fp32 right after their load (the interpreter
cannot compute in bf16); operands of `tl.dot` keep their type unless `WIDE` is set, as it is under
the interpreter; lengths are read from device memory and grids follow from bounds, so that a CUDA
graph may be captured over any of them; what may overflow 32 bits, a page times its stride, has 64.
The torch reference of every operation stands in `agentrt_kernels.reference`.
"""

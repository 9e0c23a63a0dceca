"""One thread per process: the tests run in two processes, and idle threads that spin would make
both many times slower. No network: nothing here may depend on a hub. Kernels for GPUs are run by
Triton's interpreter where there is none; Triton asks for that before it is first imported."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

if not os.path.exists("/dev/nvidia0"):
    os.environ["TRITON_INTERPRET"] = "1"

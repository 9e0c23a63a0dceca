"""One thread per process: the tests run in two processes, and idle threads that spin would make
both many times slower. No network: nothing here may depend on a hub."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

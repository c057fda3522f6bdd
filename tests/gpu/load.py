"""A GPU load that ends by itself: python3 load.py GIB SECONDS BUSY(0|1). Needs torch."""

import sys
import time

import torch

gib, seconds, busy = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "1"
held = torch.empty(int(gib * 2**30), dtype=torch.uint8, device="cuda")
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.time() + seconds
while time.time() < end:
    if busy:
        b = a @ a
        torch.cuda.synchronize()
    else:
        time.sleep(0.1)

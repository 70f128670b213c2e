"""One rank of Python's DistributedDataParallel with the hook that the run's config names, by hookline's Python module.

Usage, under hookline launch: module_rank.py DIR STEPS BUCKET_CAP_MB SIZE…
"""

import pathlib
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hookline
from rank_training import Data, network, set_weights, train

folder = pathlib.Path(sys.argv[1])
steps, bucket_cap_mb, *sizes = map(int, sys.argv[2:])
dist.init_process_group("gloo")
rank = dist.get_rank()
data = Data.read(folder, rank, sizes)
net = network(sizes)
if rank == 0:
    set_weights(net, data.initial)
model = DistributedDataParallel(net, bucket_cap_mb=bucket_cap_mb)
hook = hookline.apply(model)
train(model, data, steps).numpy().tofile(folder / f"module{rank}.bin")
(folder / f"module{rank}.txt").write_text(str(hook.bytes_sent))
if rank == 0:
    (folder / "buckets.txt").write_text(str(len(hook.state_dict()["buckets"])))
dist.destroy_process_group()

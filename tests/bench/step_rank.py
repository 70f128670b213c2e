"""Python's side of the step benchmark: the model and the steps of step_rank.cc in torch's DistributedDataParallel, or, with
full_shard or shard_grad_op for a HOOK, in its FullyShardedDataParallel.

Usage: torchrun --nproc-per-node 2 step_rank.py STEPS HIDDEN HOOK WRAPPER RANK_OF_POWER_SGD [adamw | fused_adamw]

With BENCH_BACKEND=nccl or cuda:gloo in the environment it runs on a GPU, over NCCL or Gloo; with BENCH_HOOKS=hookline,
hooks come from hookline's Python module instead of PyTorch.
"""

import os
import resource
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.nn.parallel import DistributedDataParallel

INPUTS, OUTPUTS, BATCH, WARM_UP_STEPS = 1024, 10, 32, 5
BACKEND = os.environ.get("BENCH_BACKEND", "gloo")
ON_GPU = BACKEND != "gloo"
DEVICE = torch.device("cuda:0" if ON_GPU else "cpu")
STEPS_OF_A_TIME = 10 if ON_GPU else 1


def with_hooklines_hook(net, hook, wrapper, rank):
    import hookline

    ddp = DistributedDataParallel(net)
    options = {"matrix_approximation_rank": rank, "start_powerSGD_iter": 2} if hook == "power_sgd" else {}
    hookline.register(ddp, hook, wrapper=wrapper, **options)
    return ddp


def replicated(net, hook, wrapper, rank):
    if os.environ.get("BENCH_HOOKS") == "hookline":
        return with_hooklines_hook(net, hook, wrapper, rank)
    one_bucket = hook == "power_sgd"  # with more, PyTorch's hook crashes or hangs over Gloo
    if one_bucket:
        dist._DEFAULT_FIRST_BUCKET_BYTES = sys.maxsize
    ddp = DistributedDataParallel(net, bucket_cap_mb=1000 if one_bucket else None)
    if hook in ("fp16", "bf16"):
        ddp.register_comm_hook(None, getattr(default_hooks, f"{hook}_compress_hook"))
    elif hook == "power_sgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=2)
        run = powerSGD_hook.powerSGD_hook
        ddp.register_comm_hook(state, run if wrapper == "no" else default_hooks.fp16_compress_wrapper(run))
    return ddp


def sharded(net, strategy):
    """Each layer a unit, as in step_rank.cc."""
    options = {"sharding_strategy": ShardingStrategy[strategy.upper()], "use_orig_params": True, "device_id": DEVICE}
    for index, layer in enumerate(net):
        if isinstance(layer, torch.nn.Linear):
            net[index] = FullyShardedDataParallel(layer, **options)
    return FullyShardedDataParallel(net, **options)


def main():
    steps, hidden, rank = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[5])
    hook, wrapper = sys.argv[3:5]
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dist.init_process_group(BACKEND)
    net = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, OUTPUTS),
    ).to(DEVICE)
    model = sharded(net, hook) if hook in ("full_shard", "shard_grad_op") else replicated(net, hook, wrapper, rank)
    if len(sys.argv) > 6:
        optimizer = torch.optim.AdamW(model.parameters(), fused=sys.argv[6] == "fused_adamw" or None)
    else:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
    inputs, targets = torch.randn(BATCH, INPUTS).to(DEVICE), torch.randn(BATCH, OUTPUTS).to(DEVICE)
    times = []
    for each in range(-WARM_UP_STEPS, steps // STEPS_OF_A_TIME):
        start = time.perf_counter()
        for _ in range(STEPS_OF_A_TIME):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
        if ON_GPU:
            torch.cuda.synchronize()
        if each >= 0:
            times.append((time.perf_counter() - start) / STEPS_OF_A_TIME)
    if dist.get_rank() == 0:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"median {1000 * sorted(times)[len(times) // 2]:.3f} ms, peak {peak:.1f} MB", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # skips finalization, in which a Gloo thread that releases a hook's callback may abort


if __name__ == "__main__":
    main()

"""hookline's hooks in Python's DistributedDataParallel on a GPU. usage: gpu_test.py HOOKLINE

Two ranks share a GPU over Gloo, since NCCL needs a GPU for each rank; over NCCL there is one rank.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 8
START = 3


def train(device, hook, wrapper, options):
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.Tanh(), torch.nn.Linear(96, 8)).to(device)
    model = DistributedDataParallel(net, bucket_cap_mb=0.02)
    registered = hookline.register(model, hook, wrapper=wrapper, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
        loss = model(torch.randn(16, 64, generator=generator).to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = torch.cat([each.detach().flatten() for each in model.parameters()]).cpu()
    return weights, registered.bytes_sent


def compare_with_cpu(backend):
    """Trains with each hook on the GPU over `backend`, and on the CPU."""
    for row in hookline.hooks():
        for wrapper in ("no", "fp16", "bf16"):
            if row["name"] in ("no", "noop") or wrapper != "no" and not row["can_be_wrapped"]:
                continue
            options = {"start_powerSGD_iter": START} if "start_powerSGD_iter" in row["options"] else {}
            on_gpu, sent = train("cuda", row["name"], wrapper, options)
            on_cpu, sent_on_cpu = train("cpu", row["name"], wrapper, options)
            half = wrapper != "no" or row["name"] in ("fp16", "bf16")
            torch.testing.assert_close(
                on_gpu, on_cpu, rtol=0.05 if half else 1e-3, atol=5e-3 if half else 1e-5,
                msg=lambda text: f"{row['name']} in {wrapper} over {backend}: {text}",
            )  # fmt: skip
            assert sent == sent_on_cpu, (row["name"], wrapper, sent, sent_on_cpu)
            of_rank_0 = on_gpu.clone()
            dist.broadcast(of_rank_0, 0)
            assert torch.equal(on_gpu, of_rank_0), f"{row['name']} in {wrapper} over {backend}: ranks differ"
            if dist.get_rank() == 0:
                print(f"{row['name']} in {wrapper} over {backend}: as on the CPU, {sent} bytes")


if "RANK" in os.environ:
    import hookline

    torch.set_num_threads(1)
    torch.cuda.set_device(0)
    backends = "cpu:gloo,cuda:nccl" if os.environ["WORLD_SIZE"] == "1" else "gloo"
    dist.init_process_group(backends)
    compare_with_cpu(backends)
    dist.destroy_process_group()
elif not torch.cuda.is_available():
    print("SKIP: no GPU here")
    sys.exit(77)
else:
    import subprocess

    launch = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launch.py")
    for ranks in ("1", "2"):
        subprocess.run([sys.executable, launch, sys.argv[1], os.path.abspath(__file__), ranks], check=True)

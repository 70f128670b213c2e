"""Compares training with the same hook in C++ and, through hookline's Python module, in Python: all bits are equal.

Usage: module_parity.py HOOKLINE TRAINING_PARITY    (the launcher, and the program built from training_parity.cc)

Both start from the same weights and see the same batches, on two ranks that the launcher starts, in several buckets; Python
communicates over Gloo, C++ through shared memory.
"""

import pathlib
import sys
import tempfile

import training_parity
from training_cases import RANKS, START_POWER_SGD, Case, power_sgd
from two_halves import hook_flags, largest, run_ours

BUCKET_CAP_MB = 1
SIZES = [64, 400, 600, 500, 10]  # 2.3 MiB of gradients: several buckets
CASES = [
    Case("allreduce", 0),
    Case("fp16", 0),
    Case("allreduce", 0, "bf16"),
    Case("batched_power_sgd", 0, options={"start_powerSGD_iter": START_POWER_SGD}),
    power_sgd(1, 0),
    power_sgd(2, 0, "fp16"),
    power_sgd(4, 0, batch_tensors_with_same_shape=True, orthogonalization_epsilon=0.01),
]


def train_in_python(hookline, folder, case):
    command = [hookline, "launch", "--processes-per-node", str(RANKS), "--set", f"logging.dir={folder}/runs"]
    script = pathlib.Path(__file__).with_name("module_rank.py")
    command += [*hook_flags(case), sys.executable, script, folder, str(case.steps), str(BUCKET_CAP_MB), *map(str, SIZES)]
    run_ours(case, command)


def check(folder, case):
    """Prints the case's row; returns what is wrong with it."""
    faults = []
    for rank in range(RANKS):
        weights = [training_parity.read(folder / f"{name}{rank}.bin") for name in ("ours", "module")]
        sent = [int((folder / f"{name}{rank}.txt").read_text()) for name in ("wire", "module")]
        difference = largest(weights[0] - weights[1])
        print(f"{case.name:74} {rank:4} {difference:12.2e} {sent[0]:10}", flush=True)
        if difference != 0 or weights[0].tobytes() != weights[1].tobytes():  # NaN is a difference
            faults.append(f"the weights of rank {rank} differ by {difference:.2e}")
        if sent[0] != sent[1]:
            faults.append(f"rank {rank} sent {sent[0]} bytes in C++ and {sent[1]} in Python")
    buckets = int((folder / "buckets.txt").read_text())
    if buckets < 2:
        faults.append(f"{buckets} bucket, and this test is about several")
    return [f"{case.name}: {fault}" for fault in faults]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    faults = []
    with tempfile.TemporaryDirectory(prefix="module_parity.") as name:
        folder = pathlib.Path(name)
        training_parity.write_data(folder, SIZES)
        print(f"{'hook':74} {'rank':>4} {'C++ - Python':>12} {'bytes sent':>10}")
        for case in CASES:
            flags = ["--set", f"ddp.bucket_cap_mb={BUCKET_CAP_MB}"]
            training_parity.train_ours(*sys.argv[1:], folder, case, SIZES, flags)
            train_in_python(sys.argv[1], folder, case)
            faults += check(folder, case)
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()

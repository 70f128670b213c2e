"""Compares training under hookline's gradient hooks with training under PyTorch's, live.

Usage: training_parity.py HOOKLINE TRAINING_PARITY    (the launcher, and the program built from training_parity.cc)

Both start from the same weights and see the same batches, on two ranks (Python's over Gloo, ours through shared memory);
the weights that come out must agree to within rounding, and each must have sent the same number of bytes.
"""

import pathlib
import sys
import tempfile

import numpy

from training_cases import BATCH_SIZE, CASES, LEARNING_RATE, RANKS, SIZES, STEPS
from two_halves import hook_flags, largest, run_ours, run_python


def write_data(folder, sizes=SIZES):
    random = numpy.random.default_rng(1)

    def write(name, values):
        values.astype(numpy.float32).tofile(folder / name)

    weights = []
    for fan_in, fan_out in zip(sizes, sizes[1:]):
        weights += [random.standard_normal(fan_in * fan_out) / fan_in**0.5, 0.1 * random.standard_normal(fan_out)]
    write("initial.bin", numpy.concatenate(weights))
    teacher = random.standard_normal((sizes[0], sizes[-1])) / 4
    for rank in range(RANKS):
        inputs = random.standard_normal((STEPS * BATCH_SIZE, sizes[0]))
        write(f"inputs{rank}.bin", inputs)
        write(f"targets{rank}.bin", numpy.sin(inputs @ teacher))


def train_ours(hookline, program, folder, case, sizes=SIZES, flags=()):
    command = [hookline, "launch", "--processes-per-node", str(RANKS), "--set", f"logging.dir={folder}/runs"]
    command += [*hook_flags(case), *flags, program, folder, str(case.steps), str(BATCH_SIZE), str(LEARNING_RATE), *map(str, sizes)]
    run_ours(case, command)


def read(path):
    return numpy.fromfile(path, dtype=numpy.float32)


def check(folder, index, case):
    """Prints the case's row; returns what is wrong with it."""
    faults = []
    ours = [read(folder / f"ours{rank}.bin") for rank in range(RANKS)]
    python = [read(folder / f"python{index}.{rank}.bin") for rank in range(RANKS)]
    sent = [int((folder / f"wire{rank}.txt").read_text()) for rank in range(RANKS)]
    python_sent = [int((folder / f"python{index}.{rank}.txt").read_text()) for rank in range(RANKS)]

    difference = max(largest(mine - its) for mine, its in zip(ours, python))
    moved = largest(python[0] - read(folder / "initial.bin"))
    plain = next(i for i, other in enumerate(CASES) if other.hook == "no" and other.steps == case.steps)
    effect = largest(python[0] - read(folder / f"python{plain}.0.bin"))
    row = f"{case.name:74} {case.steps:5} {difference:12.2e} {case.tolerance:10.1e}"
    print(row, f"{effect:10.2e} {moved:10.2e} {sent[0]:10}", flush=True)

    if not difference <= case.tolerance:  # so that NaN is a fault
        faults.append(f"the weights differ by {difference:.2e}, more than {case.tolerance:.1e}")
    if case.hook != "no" and not effect > 3 * case.tolerance:
        faults.append(f"the hook changes the weights by no more than {effect:.2e}: this test can't see it")
    if ours[0].tobytes() != ours[1].tobytes():
        faults.append("our ranks ended with different weights")
    if sent != python_sent:
        faults.append(f"our ranks sent {sent} bytes, Python's {python_sent}")
    return [f"{case.name}: {fault}" for fault in faults]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    faults = []
    with tempfile.TemporaryDirectory(prefix="training_parity.") as name:
        folder = pathlib.Path(name)
        write_data(folder)
        run_python("training_python_rank.py", folder, RANKS)
        print(f"{RANKS} ranks; differences are the largest of any weight")
        head = f"{'hook':74} {'steps':>5} {'ours-Python':>12} {'tolerance':>10}"
        print(head, f"{'hook-no':>10} {'end-start':>10} {'bytes sent':>10}")
        for index, case in enumerate(CASES):
            train_ours(sys.argv[1], sys.argv[2], folder, case)
            faults += check(folder, index, case)
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()

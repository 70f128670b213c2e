"""Compares what hookline's hooks make of gradients with what PyTorch's make of the same ones, live.

Usage: gradient_parity.py HOOKLINE    (the launcher: hookline replay is our half)
"""

import json
import pathlib
import struct
import sys
import tempfile

import numpy

from gradient_cases import CASES, RANKS, SHAPES, STEPS, first_compared_step, gradients
from two_halves import hook_flags, largest, run_ours, run_python


def write_safetensors(file, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        end = len(data) + tensor.nbytes
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [len(data), end]}
        data += tensor.tobytes()
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(file):
    content = file.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    tensors = {}
    for name, entry in json.loads(content[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = numpy.frombuffer(content[begin:end], numpy.float32).reshape(entry["shape"])
    return tensors


def record(folder, has_zero):
    folder.mkdir()
    for step in range(STEPS):
        for rank in range(RANKS):
            tensors = {name: gradients(name, step, rank, has_zero) for name in SHAPES}
            write_safetensors(folder / f"step{step:04}.rank{rank}.safetensors", tensors)


def replay(hookline, case, recording, output):
    run_ours(case, [hookline, "replay", "--input", recording, "--output", output, *hook_flags(case)])


def check(folder, index, case, has_zero, output):
    """Prints the case's row; returns what is wrong with it."""
    difference = effect = 0.0
    zeros_stay = all_finite = True
    for step in range(STEPS):
        ours = read_safetensors(output / f"step{step:04}.safetensors")
        python = numpy.load(folder / f"python{index}.{step}.npz")
        plain = {name: sum(gradients(name, step, rank, has_zero) for rank in range(RANKS)) / RANKS for name in SHAPES}
        for name in SHAPES:
            size = max(largest(python[name]), 1e-30)
            if step >= first_compared_step(case):
                difference = max(difference, largest(ours[name] - python[name]) / size)
                effect = max(effect, largest(python[name] - plain[name]) / size)
            all_finite = all_finite and numpy.isfinite(ours[name]).all()
            zeros_stay = zeros_stay and (largest(plain[name]) > 0 or largest(ours[name]) == 0)
    name = case.name + (", one gradient zero" if has_zero else "")
    print(f"{name:86} {difference:12.2e} {case.tolerance:10.1e} {effect:10.2e}", flush=True)
    faults = []
    if not difference <= case.tolerance:  # so that NaN is a fault
        faults.append(f"a gradient differs by {difference:.2e} of its largest element, more than {case.tolerance:.1e}")
    if case.hook == "power_sgd" and not effect > 3 * case.tolerance:
        faults.append(f"the hook changes gradients by no more than {effect:.2e}: this test can't see it")
    if not all_finite:
        faults.append("a gradient is not finite after the hook")
    if not zeros_stay:
        faults.append("a gradient that is zero on all ranks is not zero after the hook")
    return [f"{name}: {fault}" for fault in faults]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    faults = []
    with tempfile.TemporaryDirectory(prefix="gradient_parity.") as temporary:
        folder = pathlib.Path(temporary)
        for has_zero in (False, True):
            record(folder / f"recording{has_zero}", has_zero)
        run_python("gradient_python_rank.py", folder, RANKS)
        print(f"{RANKS} ranks, {STEPS} steps; relative to the largest element of each parameter's gradient")
        print(f"{'hook':86} {'ours-Python':>12} {'tolerance':>10} {'hook-mean':>10}")
        for index, (case, has_zero) in enumerate(CASES):
            output = folder / f"ours{index}"
            replay(sys.argv[1], case, folder / f"recording{has_zero}", output)
            faults += check(folder, index, case, has_zero, output)
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()

"""Measures hookline beside its peers in Python, on this machine, in one run; prints the tables of README.md.

Usage: bench.py BIN_FOLDER STEP_RANK    (build/bin, and the program built from step_rank.cc)

Each figure is a median over rounds in which hookline and its peer take turns, so that a slow spell of the machine
meets both.
"""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
RANKS = 2
LAUNCH_ROUNDS = 7
STEP_ROUNDS = 3
STEPS = 30
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}

# hook, wrapper, rank of PowerSGD
STEP_CASES = [
    ("no", "no", 0),
    ("fp16", "no", 0),
    ("bf16", "no", 0),
    ("power_sgd", "no", 1),
    ("power_sgd", "no", 2),
    ("power_sgd", "no", 4),
    ("power_sgd", "fp16", 2),
]


def run(command, folder):
    """Output and seconds."""
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"failed: {command}\n{done.stdout}")
    return done.stdout, seconds


def peak_memory(command, folder):
    """MB of the command's own process, by its high-water mark while what it launched still runs."""
    with subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        peak = 0.0
        while process.poll() is None:
            found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{process.pid}/status").read_text())
            peak = max(peak, int(found[1]) / 1000) if found else peak
            time.sleep(0.02)
    return peak


def torchrun(script, *arguments):
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), *script, *arguments]


def median(rows, column):
    return statistics.median(row[column] for row in rows)


def launch(folder, hookline):
    hookline_launch = [hookline, "launch", "--processes-per-node", str(RANKS)]
    ours, theirs = [], []
    for _ in range(LAUNCH_ROUNDS):
        ours.append(run([*hookline_launch, "/bin/true"], folder)[1:])
        theirs.append(run(torchrun(["--no-python", "/bin/true"]), folder)[1:])
    print("| two `/bin/true` | hookline launch | torchrun | ratio |\n|---|---|---|---|")
    milliseconds = 1000 * median(ours, 0), 1000 * median(theirs, 0)
    print(f"| time, ms | {milliseconds[0]:.1f} | {milliseconds[1]:.0f} | {milliseconds[1] / milliseconds[0]:.0f}× |")
    memory = [
        peak_memory(command, folder)
        for command in ([*hookline_launch, "/bin/sleep", "0.5"], torchrun(["--no-python", "/bin/sleep", "0.5"]))
    ]
    print(f"| the launcher's peak memory, MB | {memory[0]:.1f} | {memory[1]:.0f} | {memory[1] / memory[0]:.0f}× |\n")


def figures(output):
    found = re.search(r"median ([0-9.]+) ms, peak ([0-9.]+) MB", output)
    if not found:
        sys.exit(f"no figures in:\n{output}")
    return float(found[1]), float(found[2])


def steps(folder, hookline, step_rank):
    print("| hook | hookline, ms a step | PyTorch, ms | PyTorch ÷ hookline | peak MB a rank | PyTorch, MB | ratio |")
    print("|---|---|---|---|---|---|---|")
    for hook, wrapper, rank in STEP_CASES:
        command = [hookline, "launch", "--processes-per-node", str(RANKS), "--comm-hook", hook, "--comm-wrapper", wrapper]
        if hook == "power_sgd":
            command += ["--state-option", f"matrix_approximation_rank={rank}", "--state-option", "start_powerSGD_iter=2"]
        ours, theirs = [], []
        for _ in range(STEP_ROUNDS):
            ours.append(figures(run([*command, step_rank, str(STEPS)], folder)[0]))
            script = [str(HERE / "step_rank.py"), str(STEPS), hook, wrapper, str(rank)]
            theirs.append(figures(run(torchrun(script), folder)[0]))
        name = hook + (f", rank {rank}" if rank else "") + (f", in {wrapper}" if wrapper != "no" else "")
        mine, its = median(ours, 0), median(theirs, 0)
        my_peak, its_peak = median(ours, 1), median(theirs, 1)
        print(
            f"| {name} | {mine:.1f} | {its:.1f} | {its / mine:.2f} "
            f"| {my_peak:.0f} | {its_peak:.0f} | {my_peak / its_peak:.2f} |",
            flush=True,
        )
    print()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    bin_folder, step_rank = (str(pathlib.Path(argument).resolve()) for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="hookline-bench.") as folder:
        launch(folder, f"{bin_folder}/hookline")
        steps(folder, f"{bin_folder}/hookline", step_rank)


if __name__ == "__main__":
    main()

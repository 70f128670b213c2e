"""Measures hookline beside its peers in Python, on this machine, in one run; prints the tables of README.md.

Usage: bench.py BUILD_FOLDER [TABLE...]    (tables: launch, digits, digits_step, machine, optimizers, steps, python, sharded, hosts, nodes, choice; all if none is named)
       bench.py BUILD_FOLDER gpu           on a GPU, which all ranks share
       bench.py BUILD_FOLDER recordings    the table "choice", and tests/prediction/recordings made anew

Times are medians over rounds in which hookline and its peer take turns, so that a slow spell of the machine meets both. A peer
that fails is reported, and left out of its medians; a table shows "failed" for one that always fails.
"""

import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import choice
import nodes
from hosts import Hosts

HERE = pathlib.Path(__file__).parent
RANKS = 2
LAUNCH_ROUNDS = 7
DIGITS_ROUNDS = 5
STEP_ROUNDS = 3
HOST_ROUNDS = 3
STEPS = 30
LINK_RATE = "1gbit"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR", "CUDA_VISIBLE_DEVICES": ""}

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
WIDE_CASES = [("no", "no", 0), ("fp16", "no", 0), ("power_sgd", "no", 2)]
# hook, wrapper, rank of PowerSGD, comm_scope
TWO_A_HOST_CASES = [
    ("no", "no", 0, "all_ranks"),
    ("fp16", "no", 0, "all_ranks"),
    ("fp16", "no", 0, "between_hosts"),
    ("power_sgd", "no", 2, "between_hosts"),
]
# ranks, backend, units of the hidden layers; NCCL needs one GPU for each rank
GPU_CASES = [(1, "nccl", 4096), (1, "nccl", 8192), (2, "gloo", 4096)]
GPU_STEPS = 200
GPU_ROUNDS = 1
GPU_STEP_CASES = [("no", "no", 0), ("fp16", "no", 0), ("power_sgd", "no", 1), ("power_sgd", "no", 4), ("power_sgd", "fp16", 4)]
SHARDED_CASES = [("full_shard", "no", 0), ("shard_grad_op", "no", 0)]
# ranks, units of the hidden layers, million parameters
MACHINE_CASES = [(2, 2048, 6.3), (2, 4096, 21), (4, 2048, 6.3), (8, 2048, 6.3)]
HIDDEN, WIDE_HIDDEN = 2048, 4096  # units of the hidden layers: 6.3 and 21 million parameters


def is_peer(command, environment):
    return command[0] == sys.executable and "BENCH_HOOKS" not in environment


def report_peer(command, code, output):
    print(f"a peer failed with exit code {code}: {' '.join(command)}\n{output[-1000:]}", file=sys.stderr, flush=True)


def run(command, folder, environment=None):
    """Returns output and seconds: None and NaN for a peer that failed, even if it has printed its figures before."""
    environment = environment or ENVIRONMENT
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode and not is_peer(command, environment):
        sys.exit(f"failed: {command}\n{done.stdout}")
    if done.returncode:
        report_peer(command, done.returncode, done.stdout)
        return None, math.nan
    return done.stdout, seconds


def peak_memory(command, folder):
    """The peak memory of the command's own process, in MB, sampled while what it launched still runs."""
    with subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        peak = 0.0
        while process.poll() is None:
            found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{process.pid}/status").read_text())
            peak = max(peak, int(found[1]) / 1000) if found else peak
            time.sleep(0.02)
    return math.nan if process.returncode else peak


def torchrun(script, *arguments, ranks=RANKS):
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), *script, *arguments]


def median(rows, column):
    """The median over rows that have a value; NaN if none has."""
    measured = [row[column] for row in rows if not math.isnan(row[column])]
    return statistics.median(measured) if measured else math.nan


def show(row):
    """Prints a row of a table."""
    print(re.sub(r"\bnan\b", "failed", row), flush=True)


def launch(folder, hookline):
    hookline_launch = [hookline, "launch", "--processes-per-node", str(RANKS)]
    ours, theirs = [], []
    for _ in range(LAUNCH_ROUNDS):
        ours.append(run([*hookline_launch, "/bin/true"], folder)[1:])
        theirs.append(run(torchrun(["--no-python", "/bin/true"]), folder)[1:])
    print("| two `/bin/true` | hookline launch | torchrun | ratio |\n|---|---|---|---|")
    milliseconds = 1000 * median(ours, 0), 1000 * median(theirs, 0)
    show(f"| time, ms | {milliseconds[0]:.1f} | {milliseconds[1]:.0f} | {milliseconds[1] / milliseconds[0]:.0f}× |")
    memory = [
        peak_memory(command, folder)
        for command in ([*hookline_launch, "/bin/sleep", "0.5"], torchrun(["--no-python", "/bin/sleep", "0.5"]))
    ]
    show(f"| the launcher's peak memory, MB | {memory[0]:.1f} | {memory[1]:.0f} | {memory[1] / memory[0]:.0f}× |\n")


def digits(folder, build):
    """Times a whole job, from the command to its end: start-up, reading the data, ten epochs, the test."""
    config = HERE.parent.parent / "examples" / "digits" / "no.toml"
    print("| digits, 10 epochs, 2 ranks | hookline | Python under torchrun | ratio |\n|---|---|---|---|")
    ours, theirs = [], []
    for _ in range(DIGITS_ROUNDS):
        ours.append(run([f"{build}/bin/hookline", "launch", "--config", str(config), f"{build}/bin/digits"], folder))
        theirs.append(run(torchrun([str(HERE / "digits.py"), str(config.parent / "data" / "digits.csv")]), folder))
    mine, its = median(ours, 1), median(theirs, 1)
    show(f"| time, s | {mine:.2f} | {its:.2f} | {its / mine:.1f}× |")
    found = [re.search(r"test accuracy ([0-9.]+)", rows[-1][0] or "") for rows in (ours, theirs)]
    accuracies = [each[1] if each else "failed" for each in found]
    show(f"| test accuracy, % | {accuracies[0]} | {accuracies[1]} | |\n")


def digits_step(folder, build):
    """The median step of examples/digits, from the run's own summary."""
    config = str(HERE.parent.parent / "examples" / "digits" / "no.toml")
    variants = {"hookline": [], "over Gloo": ["--set", "launch.backend=gloo"], "`noop`": ["--comm-hook", "noop"]}
    times = {name: [] for name in variants}
    for turn in range(DIGITS_ROUNDS):
        for name, flags in variants.items():
            place = pathlib.Path(folder) / f"digits-{turn}-{list(variants).index(name)}"
            place.mkdir()
            run([f"{build}/bin/hookline", "launch", "--config", config, *flags, f"{build}/bin/digits"], place)
            (summary,) = place.rglob("summary.json")
            times[name].append(1000 * json.loads(summary.read_text())["step_seconds"])
    noop = statistics.median(times["`noop`"])
    print("| a step of digits, 2 ranks, no hook | ms | ÷ `noop` |\n|---|---|---|")
    for name, its in times.items():
        show(f"| {name} | {statistics.median(its):.2f} | {statistics.median(its) / noop:.2f} |")
    print()


def figures(output):
    """Milliseconds a step, peak memory in MB and, for hookline, the bytes that a rank sends in a step.
    `output`: as run() returns it; NaN for that of a peer that failed."""
    if output is None:
        return math.nan, math.nan, math.nan
    found = re.search(r"(?:([0-9]+) bytes, )?median ([0-9.]+) ms, peak ([0-9.]+) MB", output)
    if not found:
        sys.exit(f"no figures in:\n{output}")
    return float(found[2]), float(found[3]), float(found[1] or 0)


def name_of(hook, wrapper, rank):
    return hook + (f", rank {rank}" if rank else "") + (f", in {wrapper}" if wrapper != "no" else "")


def hook_variables(hook, wrapper, rank):
    variables = {"HOOKLINE_DDP__COMM_HOOK": hook, "HOOKLINE_DDP__COMM_WRAPPER": wrapper}
    if rank:
        options = "HOOKLINE_DDP__COMM_STATE_OPTION__"
        variables |= {f"{options}MATRIX_APPROXIMATION_RANK": str(rank), f"{options}START_POWERSGD_ITER": "2"}
    return variables


def hook_flags(hook, wrapper, rank):
    """Flags for `hookline launch`. A sharding strategy takes the place of a hook."""
    if (hook, wrapper, rank) in SHARDED_CASES:
        return ["--set", f"fsdp.sharding_strategy={hook}"]
    flags = ["--comm-hook", hook, "--comm-wrapper", wrapper]
    if hook == "power_sgd":
        flags += ["--state-option", f"matrix_approximation_rank={rank}", "--state-option", "start_powerSGD_iter=2"]
    return flags


def in_turns(folder, commands):
    """For each command, the medians of its milliseconds a step and its peak memory in MB."""
    rows = [[figures(run(command, folder)[0]) for command in commands] for _ in range(STEP_ROUNDS)]
    return [(median(its, 0), median(its, 1)) for its in zip(*rows)]


def machine(folder, hookline, step_rank):
    """Steps without a hook, all ranks on this machine."""
    print("| ranks, million parameters | hookline, ms a step | over Gloo | `noop` | PyTorch | hookline ÷ PyTorch | ÷ `noop` | peak MB a rank | over Gloo |")
    print("|---|---|---|---|---|---|---|---|---|")
    for ranks, hidden, size in MACHINE_CASES:
        ours = [hookline, "launch", "--processes-per-node", str(ranks)]
        program = [step_rank, str(STEPS), str(hidden)]
        script = [str(HERE / "step_rank.py"), str(STEPS), str(hidden), "no", "no", "0"]
        mine, gloo, noop, its = in_turns(
            folder,
            [
                [*ours, *program],
                [*ours, "--set", "launch.backend=gloo", *program],
                [*ours, "--comm-hook", "noop", *program],
                torchrun(script, ranks=ranks),
            ],
        )
        show(
            f"| {ranks}, {size} | {mine[0]:.1f} | {gloo[0]:.1f} | {noop[0]:.1f} | {its[0]:.1f} | {mine[0] / its[0]:.2f} "
            f"| {mine[0] / noop[0]:.2f} | {mine[1]:.0f} | {gloo[1]:.0f} |"
        )
    print()


def optimizers(folder, hookline, step_rank):
    ours = [hookline, "launch", "--processes-per-node", str(RANKS)]
    program = [step_rank, str(STEPS), str(HIDDEN), "adamw"]
    script = [str(HERE / "step_rank.py"), str(STEPS), str(HIDDEN), "no", "no", "0"]
    mine, plain, its, its_fused = in_turns(
        folder,
        [
            [*ours, *program],
            [*ours, "--set", "training.fused_optimizer=no", *program],
            torchrun([*script, "adamw"]),
            torchrun([*script, "fused_adamw"]),
        ],
    )
    print("| AdamW, 6.3 million parameters | ms a step | hookline ÷ this |\n|---|---|---|")
    for name, figure in [
        ("hookline", mine),
        ('hookline, `fused_optimizer = "no"`', plain),
        ("PyTorch", its),
        ("PyTorch, `fused=True`", its_fused),
    ]:
        show(f"| {name} | {figure[0]:.1f} | {mine[0] / figure[0]:.2f} |")
    print()


def steps(folder, hookline, step_rank, cases, hidden):
    print("| hook | hookline, ms a step | PyTorch, ms | PyTorch ÷ hookline | peak MB a rank | PyTorch, MB | ratio |")
    print("|---|---|---|---|---|---|---|")
    for hook, wrapper, rank in cases:
        command = [hookline, "launch", "--processes-per-node", str(RANKS)]
        command += hook_flags(hook, wrapper, rank)
        ours, theirs = [], []
        for _ in range(STEP_ROUNDS):
            script = [str(HERE / "step_rank.py"), str(STEPS), str(hidden), hook, wrapper, str(rank)]
            for rows, each in ((ours, [*command, step_rank, str(STEPS), str(hidden)]), (theirs, torchrun(script))):
                rows.append(figures(run(each, folder)[0]))
        mine, its = median(ours, 0), median(theirs, 0)
        my_peak, its_peak = median(ours, 1), median(theirs, 1)
        show(
            f"| {name_of(hook, wrapper, rank)} | {mine:.1f} | {its:.1f} | {its / mine:.2f} "
            f"| {my_peak:.0f} | {its_peak:.0f} | {my_peak / its_peak:.2f} |"
        )
    print()


def run_on(pair, command, folder, variables):
    """The figures of a run on two hosts."""
    return figures(pair.run(command, folder, variables, failed=report_peer if is_peer(command, variables) else None))


def python(folder, build):
    """hookline's hooks beside PyTorch's own, both in Python's DistributedDataParallel over Gloo."""
    ours = {"BENCH_HOOKS": "hookline", "PYTHONPATH": f"{build}/python:{HERE.parents[1]}/python/hookline/src"}
    with Hosts(RANKS, LINK_RATE, ENVIRONMENT) as pair:
        if not pair.made:
            print("Python's hooks on two hosts need root, ip and tc: only those on one machine follow.\n")
        on_machine = lambda script, variables: figures(run(torchrun(script), folder, ENVIRONMENT | variables)[0])
        on_hosts = lambda script, variables: run_on(pair, [sys.executable, *script], folder, variables)
        places = [("one machine", on_machine), ("two hosts at 1 Gbit/s", on_hosts)]
        print("| Python, 6.3 million parameters | hook | hookline's, ms a step | PyTorch's, ms | PyTorch's ÷ hookline's |\n|---|---|---|---|---|")
        for place, run_one in places if pair.made else places[:1]:
            for hook, wrapper, rank in STEP_CASES[1:]:
                script = [str(HERE / "step_rank.py"), str(STEPS), str(HIDDEN), hook, wrapper, str(rank)]
                rows = [[run_one(script, variables)[0] for variables in (ours, {})] for _ in range(STEP_ROUNDS)]
                mine, its = median(rows, 0), median(rows, 1)
                show(f"| {place} | {name_of(hook, wrapper, rank)} | {mine:.1f} | {its:.1f} | {its / mine:.2f} |")
    print()


def gpu(folder, build, hookline, step_rank):
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "CUDA_VISIBLE_DEVICES"}
    print(run([f"{build}/tests/gpu_passes"], folder, environment)[0], flush=True)
    print("| ranks, backend, units | hook | hookline, ms a step | PyTorch, ms | PyTorch ÷ hookline |\n|---|---|---|---|---|")
    for ranks, backend, hidden in GPU_CASES:
        count = GPU_STEPS if backend == "nccl" else STEPS
        ours = [hookline, "launch", "--processes-per-node", str(ranks), "--set", "launch.device=cuda", "--set", f"launch.backend={backend}"]
        theirs = environment | {"BENCH_BACKEND": "nccl" if backend == "nccl" else f"cuda:{backend}"}
        for hook, wrapper, rank in GPU_STEP_CASES:
            program = [step_rank, str(count), str(hidden)]
            script = [str(HERE / "step_rank.py"), str(count), str(hidden), hook, wrapper, str(rank)]
            rows = []
            for _ in range(GPU_ROUNDS):
                mine = [*ours, *hook_flags(hook, wrapper, rank), *program]
                its = torchrun(script, ranks=ranks)
                rows.append([figures(run(mine, folder, environment)[0])[0], figures(run(its, folder, theirs)[0])[0]])
            mine, its = median(rows, 0), median(rows, 1)
            show(f"| {ranks}, {backend}, {hidden} | {name_of(hook, wrapper, rank)} | {mine:.3f} | {its:.3f} | {its / mine:.2f} |")
    print()


def hosts(folder, step_rank):
    with Hosts(RANKS, LINK_RATE, ENVIRONMENT) as pair:
        if not pair.made:
            print("The table of two hosts needs root, ip and tc.\n")
            return
        run_one = lambda command, variables: run_on(pair, command, folder, variables)
        run_ours = lambda hook, wrapper, rank: run_one([step_rank, str(STEPS), str(HIDDEN)], hook_variables(hook, wrapper, rank))
        compute = statistics.median(run_ours("noop", "no", 0)[0] for _ in range(HOST_ROUNDS))
        speed = pair.bytes_per_second()
        print(f"A step without communication (`noop`) takes {compute:.1f} ms here; one TCP connection carries {speed / 1e6:.0f} MB/s.\n")
        print("| hook, two hosts at 1 Gbit/s | hookline, ms a step | wire, ms | ÷ max(compute, wire) | PyTorch, ms | PyTorch ÷ hookline |")
        print("|---|---|---|---|---|---|")
        for hook, wrapper, rank in STEP_CASES:
            # Python's PowerSGD works over this link only with a single bucket, which step_rank.py gives it.
            ours, theirs = [], []
            for _ in range(HOST_ROUNDS):
                ours.append(run_ours(hook, wrapper, rank))
                script = [sys.executable, str(HERE / "step_rank.py"), str(STEPS), str(HIDDEN), hook, wrapper, str(rank)]
                theirs.append(run_one(script, {}))
            mine, its = median(ours, 0), median(theirs, 0)
            wire = 1000 * median(ours, 2) / speed
            show(
                f"| {name_of(hook, wrapper, rank)} | {mine:.1f} | {wire:.1f} | {mine / max(compute, wire):.2f} "
                f"| {its:.1f} | {its / mine:.2f} |"
            )
        print()
        hosts_of_two(folder, step_rank, pair)


def hosts_of_two(folder, step_rank, pair):
    """Two ranks on each host."""
    print("| two ranks on each of two hosts at 1 Gbit/s | hookline, ms a step | over Gloo | over Gloo ÷ hookline |")
    print("|---|---|---|---|")
    for hook, wrapper, rank, scope in TWO_A_HOST_CASES:
        mine, gloo = [], []
        for _ in range(HOST_ROUNDS):
            variables = hook_variables(hook, wrapper, rank)
            program = [step_rank, str(STEPS), str(HIDDEN)]
            mine.append(figures(pair.run(program, folder, variables | {"HOOKLINE_DDP__COMM_SCOPE": scope}, 2)))
            gloo.append(figures(pair.run(program, folder, variables | {"HOOKLINE_LAUNCH__BACKEND": "gloo"}, 2)))
        ours, theirs = median(mine, 0), median(gloo, 0)
        name = name_of(hook, wrapper, rank) + (", between hosts" if scope == "between_hosts" else "")
        show(f"| {name} | {ours:.1f} | {theirs:.1f} | {theirs / ours:.2f} |")
    print()


def main():
    all_tables = ["launch", "digits", "digits_step", "machine", "optimizers", "steps", "python", "sharded", "hosts", "nodes", "choice"]
    tables = sys.argv[2:] or all_tables
    if len(sys.argv) < 2 or not set(tables) <= {*all_tables, "gpu", "recordings"}:
        sys.exit(__doc__)
    build = str(pathlib.Path(sys.argv[1]).resolve())
    hookline, step_rank = f"{build}/bin/hookline", f"{build}/tests/step_rank"
    with tempfile.TemporaryDirectory(prefix="hookline-bench.") as folder:
        if "launch" in tables:
            launch(folder, hookline)
        if "digits" in tables:
            digits(folder, build)
        if "digits_step" in tables:
            digits_step(folder, build)
        if "machine" in tables:
            machine(folder, hookline, step_rank)
        if "optimizers" in tables:
            optimizers(folder, hookline, step_rank)
        if "steps" in tables:
            print("6.3 million parameters:\n")
            steps(folder, hookline, step_rank, STEP_CASES, HIDDEN)
            print("21 million parameters:\n")
            steps(folder, hookline, step_rank, WIDE_CASES, WIDE_HIDDEN)
        if "python" in tables:
            python(folder, build)
        if "sharded" in tables:
            print("21 million parameters, each layer a unit:\n")
            steps(folder, hookline, step_rank, SHARDED_CASES, WIDE_HIDDEN)
        if "gpu" in tables:
            gpu(folder, build, hookline, step_rank)
        if "hosts" in tables:
            hosts(folder, step_rank)
        if "nodes" in tables:
            nodes.nodes(hookline, show)
        if "choice" in tables or "recordings" in tables:
            choice.table(folder, build, ENVIRONMENT, HERE.parent / "prediction" / "recordings" if "recordings" in tables else None)


if __name__ == "__main__":
    main()

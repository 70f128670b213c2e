"""What the parity tests do with their two halves: Python's ranks, and a command of hookline's."""

import os
import pathlib
import subprocess
import sys

import numpy

from training_cases import START_POWER_SGD

TIMEOUT_SECONDS = 120


def run_python(script, folder, ranks):
    """Runs a script beside this file as so many ranks, each with the folder and its number."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    path = pathlib.Path(__file__).with_name(script)
    processes = [subprocess.Popen([sys.executable, path, folder, str(rank)], env=environment) for rank in range(ranks)]
    try:
        for process in processes:
            if process.wait(TIMEOUT_SECONDS):
                sys.exit(f"Python's half failed with exit code {process.returncode}")
    finally:
        for process in processes:
            process.kill()


def hook_flags(case):
    """The case's hook, wrapper and options, for hookline launch and replay."""
    options = dict(case.options)
    if case.hook == "power_sgd":
        options["start_powerSGD_iter"] = START_POWER_SGD
    flags = ["--comm-hook", case.hook, "--comm-wrapper", case.wrapper, "--set", "launch.omp_num_threads=1"]
    for key, value in options.items():
        flags += ["--state-option", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    return flags


def run_ours(case, command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_SECONDS)
    if done.returncode:
        sys.exit(f"{case.name}: hookline {command[1]} failed with exit code {done.returncode}\n{done.stdout}")


def largest(array):
    return float(numpy.abs(array).max())

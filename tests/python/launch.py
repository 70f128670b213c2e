"""Runs a script of tests on ranks in a folder of its own. usage: launch.py HOOKLINE SCRIPT [RANKS]    (else 2)"""

import subprocess
import sys
import tempfile

CONFIG = """\
[launch]
processes_per_node = 2

[ddp]
comm_hook = "power_sgd"
comm_wrapper = "fp16"
static_graph = true

[training]
max_steps = 100

[ddp.comm_state_option]
matrix_approximation_rank = 2
start_powerSGD_iter = 10
"""

with tempfile.TemporaryDirectory() as folder:
    with open(f"{folder}/run.toml", "w", encoding="utf-8") as file:
        file.write(CONFIG)
    ranks = ["--processes-per-node", sys.argv[3]] if len(sys.argv) > 3 else []
    command = [sys.argv[1], "launch", "--config", "run.toml", *ranks, sys.executable, "-u", sys.argv[2]]
    sys.exit(subprocess.run(command, cwd=folder).returncode)

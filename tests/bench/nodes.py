"""Launchers that meet on one machine: how long they take to form a run, start a rank each and end, and their memory."""

import os
import pathlib
import secrets
import socket
import subprocess
import tempfile
import time

COUNTS = [2, 25, 50, 250, 1000]


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def start(hookline, folder, count, program):
    """Starts `count` launchers that form one run of `program`."""
    command = [
        hookline, "launch", "--processes-per-node", "1",
        "--set", f"launch.nnodes={count}",
        "--set", "rendezvous.main_address=127.0.0.1",
        "--set", f"rendezvous.main_port={free_port()}",
        "--set", "logging.level=warning",
    ]
    environment = {**os.environ, "HOOKLINE_TOKEN": secrets.token_hex(32), "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [*command, "--set", f"logging.dir={folder}/{node}", *program],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder,
        )
        for node in range(count)
    ]


def wait_for(launchers):
    for launcher in launchers:
        errors = launcher.communicate(timeout=600)[1]
        if launcher.returncode != 0:
            raise RuntimeError(f"a launcher exited with {launcher.returncode}: {errors.decode(errors='replace')[-500:]}")


def family_of(pids):
    """These processes and all that they started."""
    children = {}
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found, left = [], list(pids)
    while left:
        pid = left.pop()
        found.append(pid)
        left += children.get(pid, [])
    return found


def megabytes_of(pids):
    """What these processes take, shared pages divided among those who share them (Pss)."""
    kilobytes = 0
    for pid in pids:
        try:
            rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        kilobytes += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return kilobytes / 1000


def name_of(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serving_relay(pids):
    """The node_relay that all others are connected to: the one with the most open files."""
    relays = [pid for pid in pids if name_of(pid) == "node_relay"]
    return max(relays, key=lambda pid: len(os.listdir(f"/proc/{pid}/fd")))


def measured(hookline, folder, count, seconds):
    """A row of the table: launchers that wait for their ranks."""
    pipe = f"{folder}/pipe"
    os.mkfifo(pipe)
    launchers = start(hookline, folder, count, ["/bin/sh", "-c", f"echo >{folder}/here$RANK; read line <{pipe}; exit 0"])
    try:
        while len(list(pathlib.Path(folder).glob("here*"))) < count:
            time.sleep(0.2)
        time.sleep(2)
        family = family_of(launcher.pid for launcher in launchers)
        megabytes = megabytes_of(pid for pid in family if name_of(pid) != "sh") / count
        relay = serving_relay(family)
        before, since = cpu_seconds(relay), time.monotonic()
        time.sleep(10)
        busy = (cpu_seconds(relay) - before) / (time.monotonic() - since)
        with open(pipe, "w"):  # all ranks have it open, and see its end
            pass
        wait_for(launchers)
    finally:
        for launcher in launchers:
            launcher.kill()
    return f"| {count} | {seconds:.2f} | {megabytes:.1f} | {100 * busy:.1f} |"


def nodes(hookline, show):
    print("| launchers on one machine | form, run `/bin/true` and end, s | MB a launcher | the coordinator's heartbeats, % of a core |\n|---|---|---|---|")
    for count in COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            wait_for(start(hookline, folder, count, ["/bin/true"]))
            seconds = time.monotonic() - begin
            show(measured(hookline, folder, count, seconds))
    print()

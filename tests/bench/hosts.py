"""Hosts as network namespaces, on a link with a known speed. Needs root, ip and tc."""

import os
import subprocess
import sys


class Hosts:
    """`count` network namespaces on one bridge; tc caps each one's sending rate at `rate`; "": no limit."""

    def __init__(self, count, rate, environment):
        self.rate, self.environment = rate, environment
        self.names = [f"hookline-bench-{os.getpid()}-{host}" for host in range(count)]
        self.bridge = f"hookline-bench-{os.getpid()}-bridge"

    def __enter__(self):
        self.made = True
        commands = [f"ip netns add {name}" for name in [self.bridge, *self.names]]
        commands += [f"ip -n {self.bridge} link add b0 type bridge", f"ip -n {self.bridge} link set b0 up"]
        for host, name in enumerate(self.names):
            commands += [
                f"ip -n {self.bridge} link add h{host} type veth peer name e0 netns {name}",
                f"ip -n {self.bridge} link set h{host} master b0 up",
                f"ip -n {name} addr add 10.99.1.{host + 1}/24 dev e0",
                f"ip -n {name} link set e0 up",
                f"ip -n {name} link set lo up",
            ]
            if self.rate:
                commands.append(f"ip netns exec {name} tc qdisc add dev e0 root tbf rate {self.rate} burst {self.burst()}b latency 50ms")
        for command in commands:
            self.made = self.made and subprocess.run(command.split(), stderr=subprocess.DEVNULL, check=False).returncode == 0
        return self

    def __exit__(self, *_):
        for name in [*self.names, self.bridge]:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)

    def burst(self):
        """Bytes that the link carries in 1 ms: a larger burst could hold all that a hook sends in a step."""
        number, unit = float(self.rate[:-4]), {"mbit": 1e6, "gbit": 1e9}[self.rate[-4:]]
        return max(8192, int(number * unit / 8 / 1000))

    def bytes_per_second(self):
        """What one plain TCP connection carries over the link."""
        send = "import socket; s = socket.create_server(('10.99.1.1', 29401)).accept()[0]; s.sendall(bytes(64_000_000))"
        receive = """if True:
            import socket, time
            for _ in range(100):
                try:
                    link = socket.create_connection(("10.99.1.1", 29401))
                    break
                except OSError:
                    time.sleep(0.05)
            start, received = time.perf_counter(), 0
            while data := link.recv(1 << 20):
                received += len(data)
            print(received / (time.perf_counter() - start))"""
        on = [["ip", "netns", "exec", name, sys.executable, "-c"] for name in self.names]
        with subprocess.Popen([*on[0], send]):
            return float(subprocess.run([*on[1], receive], stdout=subprocess.PIPE, text=True, check=True).stdout)

    def run(self, command, folder, variables, ranks_a_host=1, bind=False, failed=None):
        """Rank 0's output. `bind`: one core for each host. `failed`: called if a rank fails; the output is then None."""
        processes = []
        for rank in range(ranks_a_host * len(self.names)):
            name, local = self.names[rank // ranks_a_host], rank % ranks_a_host
            environment = {**self.environment, **variables, "RANK": str(rank), "LOCAL_RANK": str(local)}
            environment |= {"WORLD_SIZE": str(ranks_a_host * len(self.names))}
            environment |= {"MASTER_ADDR": "10.99.1.1", "MASTER_PORT": "29400", "GLOO_SOCKET_IFNAME": "e0"}
            on_core = ["taskset", "-c", str(rank // ranks_a_host % os.cpu_count())] if bind else []
            processes.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", name, *on_core, *command], cwd=folder, env=environment, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                )
            )
        outputs = [process.communicate()[0] for process in processes]
        codes = [process.returncode for process in processes]
        if any(codes) and failed:
            failed(command, next(code for code in codes if code), outputs[0])
            return None
        if any(codes):
            sys.exit(f"failed: {command}\n{outputs}")
        return outputs[0]

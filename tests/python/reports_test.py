"""What the launcher learns from Python ranks that call hookline.step(), and how they end. usage: reports_test.py HOOKLINE"""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

HOOKLINE = sys.argv.pop(1)

START = """\
import hookline
import os
import time
import torch.distributed as dist

dist.init_process_group("gloo")
for _ in range(3):
    dist.barrier()
    hookline.step(loss=0.5)
"""


class Reports(unittest.TestCase):
    def launch(self, script, *flags):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/train.py", "w", encoding="utf-8") as file:
                file.write(START + script)
            return subprocess.run(
                [HOOKLINE, "launch", "--processes-per-node", "2", *flags, sys.executable, "-u", "train.py"],
                cwd=folder, capture_output=True, text=True, timeout=120,
            )  # fmt: skip

    def test_a_rank_that_fails_is_named_with_its_step(self):
        ended = self.launch('if os.environ["RANK"] == "1":\n    raise ValueError("no such batch")\ndist.barrier()\n')
        self.assertEqual(ended.returncode, 1)
        self.assertIn("rank 1", ended.stderr)
        self.assertIn("step 3", ended.stderr)
        self.assertIn("ValueError: no such batch", ended.stderr)

    def test_a_run_that_stalls_is_ended(self):
        ended = self.launch("time.sleep(100)\n", "--set", "launch.stall_timeout_seconds=2")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("step 3", ended.stderr)
        self.assertIn("stall", ended.stderr)

    def test_the_end_shows_progress(self):
        ended = self.launch(
            "time.sleep(2.5)\n", "--set", "logging.status=plain", "--set", "logging.status_interval_seconds=1"
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertRegex(ended.stderr, "step 3.*loss 0.5")

    def test_trackers_learn_how_the_script_ends(self):
        # Each end in a process of its own, without importing torch again.
        script = textwrap.dedent('''
            import os, sys
            from hookline_torch import _rank

            class Reports:
                def end(self, has_failed):
                    print(end, has_failed, flush=True)

            _rank._of_this_process()
            _rank._reports = Reports()
            for end in ("sys.exit()", "sys.exit(0)", "sys.exit(3)", "sys.exit('why')", "1 / 0", "None"):
                child = os.fork()
                if child == 0:
                    break
                os.waitpid(child, 0)
            else:
                _rank._reports.end = lambda has_failed: None
                end = "None"
            eval(end)
        ''')
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        ends = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
        self.assertEqual(
            ends,
            [
                ["sys.exit()", "False"],
                ["sys.exit(0)", "False"],
                ["sys.exit(3)", "True"],
                ["sys.exit('why')", "True"],
                ["1 / 0", "True"],
                ["None", "False"],
            ],
            done.stderr,
        )


class Exit(unittest.TestCase):
    def test_waits_until_gloos_threads_have_finished(self):
        # Python would not wait for this thread, which works without the GIL.
        script = textwrap.dedent("""
            import hashlib, hookline_torch, threading

            def work():
                with open("/proc/thread-self/comm", "w") as name:
                    name.write("pt_gloo_runloop")
                begun.set()
                hashlib.pbkdf2_hmac("sha256", b"", b"", 400_000)
                print("finished", flush=True)

            begun = threading.Event()
            threading.Thread(target=work, daemon=True).start()
            begun.wait()
        """)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "finished\n"), done.stderr)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    unittest.main()

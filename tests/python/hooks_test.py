"""hookline's hooks in Python's DistributedDataParallel. Every rank of `hookline launch` runs all of these tests."""

import copy
import gc
import json
import os
import pathlib
import pickle
import threading
import time
import unittest.mock as mock
import warnings
import weakref

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hookline
import on_ranks
from hookline_torch import _ddp, _exit

PLUGIN_FOLDER = os.environ["PLUGIN_FOLDER"]
BUILT_IN = hookline.hooks()  # before tests load plug-ins
STEPS = 12
START = 3


def make_model(**options):
    torch.manual_seed(1)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 96), torch.nn.Tanh(), torch.nn.Linear(96, 96), torch.nn.Tanh(), torch.nn.Linear(96, 8)
    )
    return DistributedDataParallel(net, bucket_cap_mb=0.02, **options)


def train(model, steps, first=0, optimizer=None):
    """Trains with other data on each rank; returns the parameters as one tensor."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(first, first + steps):
        generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
        loss = model(torch.randn(16, 64, generator=generator)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return values_of(model)


def values_of(model):
    return torch.cat([each.detach().flatten() for each in model.parameters()]).clone()


def gradient_bytes(model):
    return sum(each.numel() * each.element_size() for each in model.parameters())


class Hooks(on_ranks.TestCase):
    def expect_equal_ranks(self, values):
        of_rank_0 = values.clone()
        dist.broadcast(of_rank_0, 0)
        self.assertTrue(torch.equal(values, of_rank_0), "ranks differ")

    def test_every_hook_and_wrapper_keeps_ranks_equal(self):
        for row in BUILT_IN:
            for wrapper in ("no", "fp16", "bf16"):
                if row["name"] in ("no", "noop") or wrapper != "no" and not row["can_be_wrapped"]:
                    continue
                with self.subTest(hook=row["name"], wrapper=wrapper):
                    model = make_model()
                    options = {"start_powerSGD_iter": START} if "start_powerSGD_iter" in row["options"] else {}
                    hookline.register(model, row["name"], wrapper=wrapper, **options)
                    values = train(model, STEPS)
                    self.assertTrue(torch.isfinite(values).all())
                    self.expect_equal_ranks(values)

    def test_allreduce_gives_what_ddp_gives(self):
        model = make_model()
        hook = hookline.register(model, "allreduce")
        torch.testing.assert_close(train(model, STEPS), train(make_model(), STEPS))
        self.assertEqual(hook.bytes_sent, STEPS * gradient_bytes(model))

    def test_power_sgd_of_several_buckets_sends_less(self):
        model = make_model()
        hook = hookline.register(
            model, "power_sgd", wrapper="fp16", matrix_approximation_rank=2, start_powerSGD_iter=START
        )
        train(model, START)
        before = hook.bytes_sent
        train(model, STEPS)
        self.assertLess(hook.bytes_sent - before, STEPS * gradient_bytes(model) // 8)
        self.assertGreater(len(hook.state_dict()["buckets"]), 1)
        self.assertEqual(set(hook.bytes_by_stage), {"gradients", "q"})
        self.assertEqual(sum(hook.bytes_by_stage.values()), hook.bytes_sent)
        self.assertEqual(hook.name, f"power_sgd(rank=2, start={START}) in fp16")

    def test_native_registration_gives_the_same_bits(self):
        values = []
        for native in (False, True):
            model = make_model()
            hookline.register(model, "power_sgd", native=native, start_powerSGD_iter=START)
            values.append(train(model, STEPS))
        self.assertTrue(torch.equal(*values))

    def test_state_continues_to_the_bit(self):
        def start():
            model = make_model()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
            return model, optimizer, hookline.register(model, "power_sgd", start_powerSGD_iter=START)

        model, optimizer, hook = start()
        train(model, 7, 0, optimizer)
        saved = copy.deepcopy((model.module.state_dict(), optimizer.state_dict(), hook.state_dict()))
        uninterrupted = train(model, 5, 7, optimizer)
        model, optimizer, hook = start()
        model.module.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
        hook.load_state_dict(saved[2])
        self.assertTrue(torch.equal(train(model, 5, 7, optimizer), uninterrupted))

    def test_state_of_other_ranks_starts_fresh_where_it_was_of_one_rank(self):
        model = make_model()
        hook = hookline.register(model, "power_sgd", start_powerSGD_iter=START)
        train(model, 7)
        saved = hook.state_dict()
        self.assertGreater(sum(each.abs().sum() for each in saved["own"].values()), 0, "it has error feedback")
        alone = dist.new_group([dist.get_rank()], use_local_synchronization=True)
        other = make_model(process_group=alone)
        hook = hookline.register(other, "power_sgd", start_powerSGD_iter=START)
        hook.load_state_dict(saved)
        loaded = hook.state_dict()
        self.assertEqual(loaded["world_size"], 1)
        self.assertEqual(sum(each.abs().sum() for each in loaded["own"].values()), 0)
        self.assertEqual(loaded["shared"].keys(), saved["shared"].keys())
        for name, each in loaded["shared"].items():
            self.assertTrue(torch.equal(each, saved["shared"][name]), name)
        self.assertTrue(torch.isfinite(train(other, 3)).all())

    def test_state_of_another_hook_is_refused(self):
        model = make_model()
        hook = hookline.register(model, "fp16")
        state = hookline.register(make_model(), "power_sgd").state_dict()
        self.expect_error(
            f"the saved state is of the hook {state['hook']}, and this is {hook.name}: register the same hook with "
            "the same options",
            lambda: hook.load_state_dict(state),
        )
        with self.assertRaisesRegex(hookline.Error, "^this is not the state of a hook"):
            hook.load_state_dict({"model": 1})
        del model
        gc.collect()
        self.expect_error("the model of the hook fp16 is gone", lambda: hook.load_state_dict({}))

    def test_state_of_another_model_is_refused(self):
        small, model = DistributedDataParallel(torch.nn.Linear(3, 2)), make_model()
        hook, other = hookline.register(small, "fp16"), hookline.register(model, "fp16")
        small(torch.ones(1, 3)).sum().backward()
        self.expect_error(
            "the saved state of the hook fp16 is of another model: its parameters have other shapes, or others of "
            "them are frozen",
            lambda: other.load_state_dict(hook.state_dict()),
        )

    def test_a_model_that_is_gone_takes_its_hook_along(self):
        model = make_model()
        hook = hookline.register(model, "power_sgd")
        train(model, 2)
        gone = weakref.ref(hook)
        del model, hook
        gc.collect()
        self.assertIsNone(gone())

    def test_a_copied_model_has_no_hook_until_one_is_registered(self):
        model = make_model()
        hook = hookline.register(model, "power_sgd", start_powerSGD_iter=START)
        train(model, START + 2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            copied = copy.deepcopy(model)
        self.assertEqual(
            [str(each.message) for each in caught if "hook" in str(each.message)],
            [f"the copy of the model does not have its hook, {hook.name}: register one before you train the copy"],
        )
        sent = hook.bytes_sent
        self.expect_equal_ranks(train(copied, 2))
        self.assertEqual(hook.bytes_sent, sent)
        copied = copy.deepcopy(model)
        hookline.register(copied, "fp16")
        self.expect_equal_ranks(train(copied, 2))
        with self.assertRaises(TypeError) as caught:
            pickle.dumps(model)
        self.assertEqual(
            str(caught.exception),
            "a model with a hook of hookline can't be pickled: save model.module.state_dict() and hook.state_dict()",
        )

    def test_plug_ins_bring_hooks(self):
        model = make_model()
        plugin = os.path.join(PLUGIN_FOLDER, "double_plugin.so")
        hookline.register(model, "doubled_average", plugins=[plugin], factor=1.0)
        torch.testing.assert_close(train(model, STEPS), train(make_model(), STEPS))
        self.assertIn("doubled_average", [row["name"] for row in hookline.hooks()])
        with self.assertRaisesRegex(hookline.Error, "none.so"):
            hookline.register(make_model(), "fp16", plugins=["none.so"])

    def test_a_failure_in_backward_is_an_exception(self):
        plugin = os.path.join(PLUGIN_FOLDER, "failing_plugin.so")
        for native in (False, True):
            for in_callback, text in ((False, "the hook fails at once"), (True, "the hook fails in a callback")):
                with self.subTest(native=native, in_callback=in_callback):
                    model = make_model()
                    hookline.register(model, "failing", plugins=[plugin], native=native, in_callback=in_callback)
                    with self.assertRaisesRegex(RuntimeError, text):
                        train(model, 1)
        model = make_model()
        hookline.register(model, "failing", plugins=[plugin], opens_channel=True)
        with self.assertRaisesRegex(
            RuntimeError, "the hook opens its channel 'hook-1-late' after it was built: open channels in its constructor"
        ):
            train(model, 1)
        model = make_model()
        hookline.register(model, "power_sgd", start_powerSGD_iter=2)
        train(model, 3)
        with self.assertRaisesRegex(RuntimeError, "can't handle NaN or infinity"):
            (model(torch.ones(4, 64)) * float("inf")).sum().backward()
        # Ranks that have failed together still communicate.
        self.expect_equal_ranks(train(make_model(), 2))

    def test_power_sgd_on_a_gpu_needs_the_cuda_module(self):
        # No GPU here: what stands for a model has a parameter that says it is on one.
        on_gpu = mock.Mock(requires_grad=True, device=torch.device("cuda", 0))
        model = mock.Mock(spec=["_comm_hooks", "_module_parameters"], _comm_hooks=[], _module_parameters=[on_gpu])
        with mock.patch("hookline_torch._C.cuda_problem", lambda: "it is gone"):
            for name in ("power_sgd", "powerSGD"):
                self.expect_error(
                    f"the hook '{name}' can't run on a GPU: it is gone",
                    lambda name=name: _ddp.register_with_ddp(model, name, "no", False, {}),
                )

    def test_gloos_threads_are_known_by_their_name(self):
        names = [(task / "comm").read_bytes().rstrip() for task in pathlib.Path("/proc/self/task").iterdir()]
        self.assertIn(_exit._NAME, names)

    def test_no_hook_is_refused(self):
        self.expect_error(
            "comm_hook 'no' without a wrapper is what DistributedDataParallel does by itself: leave the registration out",
            lambda: hookline.register(make_model(), "no"),
        )

    def test_mistakes_are_named_before_groups_are_made(self):
        model = make_model()
        groups = len(dist.distributed_c10d._world.pg_map)
        with self.assertRaisesRegex(hookline.Error, "power_sgd"):
            hookline.register(model, "powr_sgd")
        with self.assertRaisesRegex(hookline.Error, "matrix_approximation_rank"):
            hookline.register(model, "power_sgd", matrix_approximation_rank=0)
        with self.assertRaises(TypeError) as caught:
            hookline.register(model.module, "fp16")
        self.assertEqual(
            str(caught.exception),
            "hookline.register takes a model of DistributedDataParallel, FullyShardedDataParallel or fully_shard, not "
            "Sequential: wrap the model first",
        )
        self.assertEqual(len(dist.distributed_c10d._world.pg_map), groups)
        hookline.register(model, "fp16")
        if dist.get_rank() == 0:  # on one rank alone: the others would wait for it if it made a group
            self.expect_error(
                "the model has a communication hook already: a second can't be registered",
                lambda: hookline.register(model, "bf16"),
            )

    def test_apply_takes_the_config_of_the_run(self):
        model = make_model()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            hook = hookline.apply(model)
        self.assertEqual(hook.name, "power_sgd(rank=2, start=10) in fp16")
        self.assertEqual(
            [str(each.message) for each in caught],
            [
                "hookline.apply has not applied ddp.static_graph = true, training.max_steps = 100: it acts on the hook "
                "alone; pass other options to what wraps the model"
            ],
        )
        if dist.get_rank() == 0:
            self.assertTrue(os.path.exists(os.path.join(os.environ["HOOKLINE_RUN_DIR"], "config_read")))

    def test_apply_takes_another_file(self):
        file = os.path.join(os.environ["HOOKLINE_RUN_DIR"], f"other{dist.get_rank()}.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write('[ddp]\ncomm_hook = "bf16"\n')
        hook = hookline.apply(make_model(), file)
        self.assertEqual(hook.name, "bf16")
        with open(file, "w", encoding="utf-8") as out:
            out.write('[ddp]\ncomm_hook = "auto"\n')
        self.expect_error(
            'ddp.comm_hook = "auto" chooses a hook in C++ programs alone: name a hook, or let \'hookline advise\' '
            "choose one",
            lambda: hookline.apply(make_model(), file),
        )

    def test_a_parameter_frozen_at_registration_is_refused_later(self):
        net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
        model = DistributedDataParallel(net)
        model.module[0].bias.requires_grad_(False)
        hookline.register(model, "fp16")
        model.module[0].bias.requires_grad_(True)
        with self.assertRaisesRegex(
            RuntimeError,
            "a bucket has a parameter that was frozen when the hook was registered: register the hook right after the "
            "model is wrapped",
        ):
            model(torch.ones(2, 8)).sum().backward()

    def test_apply_reports_every_problem_of_a_file(self):
        file = os.path.join(os.environ["HOOKLINE_RUN_DIR"], f"broken{dist.get_rank()}.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write('[ddp]\ncomm_hok = "fp16"\ncomm_wrapper = "fp8"\n')
        with self.assertRaises(hookline.Error) as caught:
            hookline.apply(make_model(), file)
        self.assertIn("broken", str(caught.exception))
        self.assertIn(":2:1: error: unknown key 'comm_hok'", str(caught.exception))
        self.assertIn(":3:16: error: ", str(caught.exception))

    def test_metrics_reach_the_run(self):
        with self.assertRaises(hookline.Error) as caught:
            hookline.log(step=1)
        self.assertIn("step", str(caught.exception))
        hookline.step(6)  # logs what hooks of other tests have measured
        model = make_model()
        hook = hookline.register(model, "power_sgd", start_powerSGD_iter=2)
        train(model, 3)
        hookline.step(7, loss=0.5)
        hookline.log(accuracy=0.25 + dist.get_rank())
        if dist.get_rank() == 0:
            file, lines = os.path.join(os.environ["HOOKLINE_RUN_DIR"], "metrics.jsonl"), []
            until = time.monotonic() + 60
            while not any("accuracy" in line for line in lines) and time.monotonic() < until:
                time.sleep(0.01)
                if os.path.exists(file):
                    with open(file, encoding="utf-8") as written:
                        lines = [json.loads(line) for line in written if line.endswith("\n")]
            of_step = [line for line in lines if line["step"] == 7]
            self.assertEqual([line.get("accuracy") for line in of_step], [None, 0.25])
            self.assertEqual(of_step[0]["compression_error"], hook.compression_error)

    def test_compression_error_is_measured_now_and_then(self):
        torch.manual_seed(2)
        net = torch.nn.Linear(24, 16, bias=False)
        exact = copy.deepcopy(net)
        model = DistributedDataParallel(net)
        hook = hookline.register(model, "power_sgd", start_powerSGD_iter=2, use_error_feedback=False)
        measured = []
        for step in range(5):
            generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
            batch = torch.randn(8, 24, generator=generator)
            for each in (model, exact):
                each.zero_grad()
                each(batch).square().sum().backward()
            average = exact.weight.grad / dist.get_world_size()
            dist.all_reduce(average)
            error = ((net.weight.grad - average).norm() / average.norm()).item()
            measured.append(hook.compression_error)
            if step in (1, 2, 4):
                self.assertAlmostEqual(measured[-1], error, delta=1e-5)
        self.assertIsNone(measured[0])
        self.assertLess(measured[1], 1e-6, "averages exactly until step 2")
        self.assertGreater(measured[2], 0.1)
        self.assertEqual(measured[3], measured[2], "not measured in step 3")
        self.assertNotEqual(measured[4], measured[3])
        self.expect_equal_ranks(torch.tensor(measured[1:], dtype=torch.float64))

    def test_no_compression_error_without_compression(self):
        model = make_model()
        hook = hookline.register(model, "allreduce")
        train(model, 3)
        self.assertIsNone(hook.compression_error)

    def test_threads_and_garbage_collection_do_not_deadlock(self):
        is_over = threading.Event()

        def collect():
            while not is_over.wait(0.002):
                gc.collect(0)

        threads = [threading.Thread(target=collect) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                model = make_model()
                hookline.register(model, "power_sgd", start_powerSGD_iter=2)
                self.expect_equal_ranks(train(model, 5))
                del model
        finally:
            is_over.set()
            for thread in threads:
                thread.join()


if __name__ == "__main__":
    on_ranks.main()

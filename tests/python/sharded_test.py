"""hookline's hooks in sharded models of PyTorch. Every rank of `hookline launch` runs all of these tests."""

import os
import unittest.mock as mock
import warnings

import torch
import torch.distributed as dist
from torch.distributed.algorithms._comm_hooks.default_hooks import DefaultState
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard

import hookline
import hookline_torch
import on_ranks

WIRES = {"fp16": torch.float16, "bf16": torch.bfloat16}
STRATEGIES = (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD)


def make_net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(33, 24), torch.nn.Tanh(), torch.nn.Linear(24, 7))


def sharded_by_wrapper(strategy, **options):
    net = make_net()
    options |= {"sharding_strategy": strategy, "use_orig_params": True, "device_id": torch.device("cpu")}
    for index in (0, 2):
        net[index] = FullyShardedDataParallel(net[index], **options)
    return FullyShardedDataParallel(net, **options)


def sharded_by_function(shape=None, **options):
    net = make_net()
    names = ("replicate", "shard") if shape else None
    mesh = dist.init_device_mesh("cpu", shape or (dist.get_world_size(),), mesh_dim_names=names)
    for index in (0, 2):
        fully_shard(net[index], mesh=mesh, **options)
    return fully_shard(net, mesh=mesh, **options)


def loss_of(model, step):
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    return model(torch.randn(16, 33, generator=generator)).square().mean()


def expected_gradients(net, wire, step):
    """The ranks' gradients in 16 bits, averaged in float32."""
    net.zero_grad()
    loss_of(net, step).backward()
    result = []
    for parameter in net.parameters():
        sum_of_ranks = parameter.grad.to(wire).float()
        dist.all_reduce(sum_of_ranks)
        result.append(sum_of_ranks / dist.get_world_size())
    return result


def elements(net):
    return sum(each.numel() for each in net.parameters())


class ShardedHooks(on_ranks.TestCase):
    def expect_bytes(self, hook, least):
        # Parameters are padded to a multiple of the number of ranks.
        self.assertGreaterEqual(hook.bytes_sent, least)
        self.assertLess(hook.bytes_sent, 1.2 * least)

    def test_fully_shard_averages_in_16_bits(self):
        for name, wire in WIRES.items():
            with self.subTest(hook=name):
                model, net = sharded_by_function(), make_net()
                hook = hookline.register(model, name)
                for step in range(3):
                    model.zero_grad()
                    loss_of(model, step).backward()
                    for ours, exact in zip(model.parameters(), expected_gradients(net, wire, step)):
                        self.assertTrue(torch.equal(ours.grad.full_tensor(), exact))
                self.expect_bytes(hook, 3 * elements(net))
                self.assertEqual(repr(hook), f"<hookline hook {name}>")

    def test_the_wrapper_averages_in_16_bits(self):
        for strategy in STRATEGIES:
            for name, wire in WIRES.items():
                with self.subTest(strategy=strategy, hook=name):
                    model, net = sharded_by_wrapper(strategy), make_net()
                    hook = hookline.register(model, name)
                    for step in range(3):
                        model.zero_grad()
                        loss_of(model, step).backward()
                        exact = expected_gradients(net, wire, step)
                        with FullyShardedDataParallel.summon_full_params(model, with_grads=True):
                            for ours, its in zip(model.parameters(), exact):
                                if strategy == ShardingStrategy.NO_SHARD:  # summed in 16 bits
                                    torch.testing.assert_close(ours.grad, its, rtol=2e-2, atol=1e-4)
                                else:
                                    self.assertTrue(torch.equal(ours.grad, its))
                    whole = 2 if strategy == ShardingStrategy.NO_SHARD else 1
                    self.expect_bytes(hook, whole * 3 * elements(net))

    def test_gradients_that_are_16_bits_already_are_averaged(self):
        model, net = sharded_by_function(mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float16)), make_net()
        hookline.register(model, "fp16")
        loss_of(model, 0).backward()
        for ours, exact in zip(model.parameters(), expected_gradients(net, torch.float16, 0)):
            torch.testing.assert_close(ours.grad.full_tensor(), exact, rtol=2e-3, atol=1e-6)

    def test_hybrid_sharding_averages_over_all_ranks(self):
        model, net = sharded_by_function(shape=(2, 2)), make_net()
        hook = hookline.register(model, "fp16")
        loss_of(model, 0).backward()
        for ours, exact in zip(model.parameters(), expected_gradients(net, torch.float16, 0)):
            torch.testing.assert_close(ours.grad.full_tensor(), exact, rtol=1e-5, atol=1e-7)
        self.expect_bytes(hook, elements(net))

    def test_divisors_before_the_sum_are_those_of_pytorch(self):
        for size in range(1, 70):
            its = DefaultState._get_gradient_predivide_factor(size)
            self.assertEqual(hookline_torch._fsdp._divisor_before(size), its)

    def test_models_without_a_place_for_a_hook_are_refused(self):
        replicated = sharded_by_function(shape=(4, 1))
        self.expect_error(
            "a module of FSDPLinear is replicated, not sharded, so there is no reduce-scatter for a hook: use "
            "DistributedDataParallel",
            lambda: hookline.register(replicated, "fp16"),
        )
        model = sharded_by_function()
        hookline.register(model[0], "fp16")
        self.expect_error(
            "a module of FSDPLinear has a reduce-scatter of its own already, which a hook would replace: register one "
            "hook, with the outermost module",
            lambda: hookline.register(model, "fp16"),
        )
        hybrid = sharded_by_wrapper(
            ShardingStrategy.HYBRID_SHARD, device_mesh=dist.init_device_mesh("cpu", (2, 2))
        )
        self.expect_error(
            "FullyShardedDataParallel takes no hook with hybrid sharding: use fully_shard, or another strategy",
            lambda: hookline.register(hybrid, "fp16"),
        )
        wrapped = sharded_by_wrapper(ShardingStrategy.FULL_SHARD)
        loss_of(wrapped, 0).backward()
        self.expect_error(
            "this FullyShardedDataParallel is a part of another one: register the hook with the outermost",
            lambda: hookline.register(wrapped.module[0], "fp16"),
        )
        with self.assertRaises(TypeError) as caught:
            hookline.register(torch.compile(make_net(), backend="eager"), "fp16")
        self.assertEqual(
            str(caught.exception),
            "hookline.register takes a model of DistributedDataParallel, FullyShardedDataParallel or fully_shard, not "
            "OptimizedModule: register the hook before torch.compile",
        )

    def test_a_backend_with_a_reduce_scatter_in_16_bits(self):
        # NCCL needs GPUs; this stands for its reduce-scatter.
        def reduce_scatter(received, sent, group):
            whole = sent.float()
            dist.all_reduce(whole, group=group)
            received.copy_(whole.chunk(dist.get_world_size(group))[dist.get_rank(group)])

        group, size = dist.group.WORLD, dist.get_world_size()
        generator = torch.Generator().manual_seed(dist.get_rank())
        gradient = torch.randn(8 * size, generator=generator)
        exact = gradient.clone()
        dist.all_reduce(exact)
        mine = exact.chunk(size)[dist.get_rank()]
        with mock.patch.multiple(
            hookline_torch._fsdp, _is_over_gloo=lambda group, device: False, _reduce_scatter=reduce_scatter
        ):
            for name in WIRES:
                for divisor, given in ((size, gradient), (1, gradient), (1, gradient.half())):
                    with self.subTest(hook=name, divisor=divisor, dtype=given.dtype):
                        output = torch.empty(8, dtype=given.dtype)
                        hookline_torch.ShardedHook(name)._scatter(output, given, group, divisor)
                        torch.testing.assert_close(output.float(), mine / divisor, rtol=2e-2, atol=2e-2)

    def test_parts_with_groups_of_their_own_average_within_them(self):
        rank = dist.get_rank()
        pair = dist.new_group([rank // 2 * 2, rank // 2 * 2 + 1], use_local_synchronization=True)
        options = {"use_orig_params": True, "device_id": torch.device("cpu")}
        net = make_net()
        net[0] = FullyShardedDataParallel(net[0], process_group=pair, **options)
        model = FullyShardedDataParallel(net, **options)
        hookline.register(model, "fp16")
        loss_of(model, 0).backward()
        plain = make_net()
        loss_of(plain, 0).backward()
        exact = plain[0].weight.grad.half().float()
        dist.all_reduce(exact, group=pair)
        with FullyShardedDataParallel.summon_full_params(model.module[0], with_grads=True):
            self.assertTrue(torch.equal(model.module[0].module.weight.grad, exact / 2))

    def test_training_is_close_to_training_without_a_hook(self):
        models = [sharded_by_function(), sharded_by_function()]
        hookline.register(models[0], "bf16")
        for model in models:
            sgd = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(20):
                sgd.zero_grad()
                loss_of(model, step).backward()
                sgd.step()
        for ours, its in zip(models[0].parameters(), models[1].parameters()):
            torch.testing.assert_close(ours.full_tensor(), its.full_tensor(), rtol=0, atol=2e-3)

    def test_other_hooks_are_refused(self):
        for model in (sharded_by_function(), sharded_by_wrapper(ShardingStrategy.FULL_SHARD)):
            self.expect_error(
                "a sharded model takes the hooks fp16 and bf16, not power_sgd in fp16: the others need whole gradients",
                lambda: hookline.register(model, "power_sgd", wrapper="fp16"),
            )
            self.expect_error(
                "fp16: unknown option 'rank': it has none", lambda: hookline.register(model, "fp16", rank=2)
            )
            self.expect_error(
                "a sharded model calls its hook from Python: leave native=True out",
                lambda: hookline.register(model, "fp16", native=True),
            )
            hookline.register(model, "fp16")
            self.expect_error(
                "the model has a communication hook already: a second can't be registered",
                lambda: hookline.register(model, "bf16"),
            )

    def test_other_divisors_are_refused(self):
        model = sharded_by_function()
        hookline.register(model, "fp16")
        for each in (model, model[0], model[2]):
            each.set_gradient_divide_factor(3.0)
        with self.assertRaisesRegex(
            hookline.Error, "^the hook fp16 sums or averages gradients, and fully_shard asks for .*: leave "
            "set_gradient_divide_factor out$"
        ):
            loss_of(model, 0).backward()

    def test_apply_takes_the_table_of_sharded_models(self):
        file = os.path.join(os.environ["HOOKLINE_RUN_DIR"], f"sharded{dist.get_rank()}.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write('[fsdp]\nsharding_strategy = "full_shard"\ncomm_hook = "bf16"\n')
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            hook = hookline.apply(sharded_by_function(), file)
        self.assertEqual(hook.name, "bf16")
        self.assertEqual(
            [str(each.message) for each in caught],
            [
                'hookline.apply has not applied fsdp.sharding_strategy = "full_shard": it acts on the hook alone; pass '
                "other options to what wraps the model"
            ],
        )
        with open(file, "w", encoding="utf-8") as out:
            out.write('[fsdp]\ncomm_hook = "no"\n')
        self.assertIsNone(hookline.apply(sharded_by_function(), file))


if __name__ == "__main__":
    on_ranks.main(backend="cpu:gloo")  # Gloo under another name

"""PyTorch's communication hooks, by the names and options that hookline gives them."""

from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

from training_cases import START_POWER_SGD


def register(ddp, case):
    half = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}
    wrappers = {"fp16": default_hooks.fp16_compress_wrapper, "bf16": default_hooks.bf16_compress_wrapper}
    if case.hook in half:
        ddp.register_comm_hook(None, half[case.hook])
    elif case.hook == "power_sgd":
        state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=START_POWER_SGD, **case.options)
        hook = powerSGD_hook.powerSGD_hook
        ddp.register_comm_hook(state, wrappers[case.wrapper](hook) if case.wrapper in wrappers else hook)

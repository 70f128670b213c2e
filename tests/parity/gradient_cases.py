"""The gradients that both halves of the gradient parity test put through a hook, and the hooks."""

import numpy

from training_cases import Case, power_sgd

RANKS = 2
STEPS = 20
# In the order of their names. Two have the same shape; all matrices but the last are compressed up to rank 4.
SHAPES = {"a": (90, 70), "b": (48, 64), "c": (64,), "d": (90, 70), "e": (64, 48), "f": (3, 2)}
ZERO = "e"  # in the cases whose gradients have one that is zero


def gradients(name, step, rank, has_zero):
    """Rank-4 matrices that all steps and processes share, plus noise of each: gradients of a layer are alike, too."""
    shape = SHAPES[name]
    if has_zero and name == ZERO:
        return numpy.zeros(shape, numpy.float32)
    lasting = numpy.random.default_rng(sum(name.encode()))
    fleeting = numpy.random.default_rng([sum(name.encode()), step, rank])
    noise = 0.05 * fleeting.standard_normal(shape)
    if len(shape) == 1:
        return (lasting.standard_normal(shape) + noise).astype(numpy.float32)
    left, right = lasting.standard_normal((shape[0], 4)), lasting.standard_normal((4, shape[1]))
    return (left * [8, 4, 2, 1] @ right + noise).astype(numpy.float32)


def first_compared_step(case):
    """With a warm start, the factors turn from random directions to those of the gradient over some steps. Meanwhile
    rounding errors grow up to a hundredfold, depending on what was drawn, which differs from version to version of torch
    in half precision; after that, they are as small as in one step."""
    is_warm = case.options.get("warm_start", True)
    return STEPS // 2 if case.hook == "power_sgd" and case.wrapper != "no" and is_warm else 0


# The tolerance bounds the largest difference of any gradient, relative to the largest element of that parameter's
# gradient; it is some two to twenty times what was measured. Error feedback brings back what rank 1 or 2 left out, and
# rotates the factors in each step, so that rounding errors accumulate: in half precision, only the training parity test
# has error feedback. Cases with a zero gradient set an epsilon, since without one PyTorch divides by the norm of a zero matrix.
CASES = [
    (Case("no", 0), False),
    (Case("fp16", 0), False),
    (Case("bf16", 0), False),
    (power_sgd(1, 1e-4), False),
    (power_sgd(2, 2e-4), False),
    (power_sgd(4, 2e-5), False),
    (power_sgd(2, 1e-5, warm_start=False), False),
    (power_sgd(2, 5e-6, use_error_feedback=False), False),
    (power_sgd(2, 1e-5, warm_start=False, use_error_feedback=False), False),
    (power_sgd(2, 1e-4, batch_tensors_with_same_shape=True), False),
    (power_sgd(2, 2e-4, orthogonalization_epsilon=0.01), True),
    (power_sgd(1, 2e-4, orthogonalization_epsilon=0.01), True),
    (power_sgd(4, 2e-5, use_error_feedback=False, orthogonalization_epsilon=0.01), True),
    (power_sgd(1, 1e-2, "fp16", use_error_feedback=False), False),
    (power_sgd(2, 1e-2, "fp16", use_error_feedback=False), False),
    (power_sgd(2, 2e-2, "fp16", warm_start=False, use_error_feedback=False), False),
    (power_sgd(1, 5e-2, "bf16", use_error_feedback=False), False),
    (power_sgd(2, 5e-2, "bf16", use_error_feedback=False), False),
    (power_sgd(2, 1e-1, "bf16", warm_start=False, use_error_feedback=False), False),
    (power_sgd(2, 1e-2, "fp16", use_error_feedback=False, orthogonalization_epsilon=0.01), True),
]

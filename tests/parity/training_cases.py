"""The training that both halves of the parity test run, and the hooks that it is run with."""

import dataclasses

RANKS = 2
STEPS = 20
SHORT_STEPS = 5
BATCH_SIZE = 16
LEARNING_RATE = 0.5
# Two layers have the same shape, and PowerSGD compresses all: (n + m) * rank * 2 < n * m up to rank 4. Random numbers
# are drawn in blocks of 16, and 90 is not a multiple of that: the result shows whether two matrices are drawn in one call
# or one by one.
SIZES = [64, 90, 90, 90, 10]


@dataclasses.dataclass
class Case:
    """A hook as hookline names it, and the largest difference of any weight that is put down to rounding."""

    hook: str
    tolerance: float
    wrapper: str = "no"
    options: dict = dataclasses.field(default_factory=dict)
    steps: int = STEPS

    @property
    def name(self):
        short = {"matrix_approximation_rank": "rank"}
        text = self.hook
        if self.options:
            text += "(" + ", ".join(f"{short.get(key, key)}={value}" for key, value in self.options.items()) + ")"
        return text if self.wrapper == "no" else f"{text} in {self.wrapper}"


START_POWER_SGD = 2


def power_sgd(rank, tolerance, wrapper="no", steps=STEPS, **options):
    return Case("power_sgd", tolerance, wrapper, {"matrix_approximation_rank": rank, **options}, steps)


# The tolerances are some 1.5 to 20 times what was measured. Without PowerSGD the arithmetic is the same, and so are
# the bits. PowerSGD with warm start and error feedback feeds each step's rounding into the next: in half precision and
# with two columns, PyTorch's hook ends 1e-2 (fp16) or 3e-2 (bf16) away from itself after 20 steps when its loss is
# scaled by 1 + half a unit in the last place. So there each is switched off in turn, and both are on for a few steps.
CASES = [
    Case("no", 0),
    Case("no", 0, steps=SHORT_STEPS),
    Case("fp16", 0),
    Case("bf16", 0),
    power_sgd(1, 2e-6),
    power_sgd(2, 1e-5),
    power_sgd(4, 2e-5),
    power_sgd(2, 1e-6, warm_start=False),
    power_sgd(2, 2e-6, use_error_feedback=False),
    power_sgd(2, 5e-5, batch_tensors_with_same_shape=True),
    power_sgd(2, 1e-5, random_seed=7, min_compression_rate=10),
    power_sgd(2, 1e-5, orthogonalization_epsilon=0.01),
    power_sgd(4, 5e-5, orthogonalization_epsilon=0.01),
    power_sgd(2, 1e-3, "fp16", warm_start=False, orthogonalization_epsilon=0.01),
    power_sgd(1, 5e-3, "fp16"),
    power_sgd(2, 1e-3, "fp16", warm_start=False),
    power_sgd(2, 5e-4, "fp16", use_error_feedback=False),
    power_sgd(2, 3e-4, "fp16", SHORT_STEPS),
    power_sgd(2, 5e-3, "bf16", warm_start=False),
    power_sgd(2, 3e-3, "bf16", use_error_feedback=False),
    power_sgd(2, 1.5e-3, "bf16", SHORT_STEPS),
]

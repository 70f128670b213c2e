"""What comm_hook = "auto" chooses, beside what a full sweep finds: the table of docs/guides/which_hook.md."""

import json
import os
import statistics
import subprocess
import sys

from hosts import Hosts

MODELS = {"perceptron": "perceptron, 6.3 M", "charlm": "charlm, 0.8 M", "conv": "conv, 0.28 M"}
RATES = {"": "one machine", "10gbit": "10 Gbit/s", "1gbit": "1 Gbit/s", "100mbit": "100 Mbit/s", "10mbit": "10 Mbit/s"}
# For the case in which a step without a hook takes 20 seconds: measuring each setting takes minutes.
FEW = ["fp16", "power_sgd(rank=4)", "power_sgd(rank=1)", "power_sgd(rank=1) in fp16"]
SLOWEST = (2, 1, "10mbit", "perceptron")
# Two ranks on each of two hosts, which share the host's core.
TWO_A_HOST = [("1gbit", "perceptron"), ("100mbit", "charlm")]
MORE_HOSTS = [(3, "1gbit", "perceptron"), (4, "1gbit", "perceptron"), (3, "100mbit", "charlm"), (4, "100mbit", "conv")]
WITHIN, NEVER_SLOWER, PREDICTED_WITHIN = 0.05, 0.03, 0.15
HEADER = (
    "| link | model | no hook, ms a step | fastest of the sweep, ms | `auto`, ms | `auto` against the fastest, % | against no hook, % "
    "| prediction error: median, % | worst, % | measuring, % of 1,000 steps of `auto` | measuring, % of 1,000 steps without a hook |"
)
STEPS = 1000  # measuring may take a hundredth of the time of these


def found_in(output):
    """What choice_rank prints."""
    return json.loads(next(line for line in output.splitlines() if line.startswith("{")))


def one_machine(folder, build, model, environment):
    command = [f"{build}/bin/hookline", "launch", "--processes-per-node", "2", "--set", "launch.binding=core"]
    command += ["--set", "logging.prefix_template=", f"{build}/tests/choice_rank", model]
    return found_in(subprocess.run(command, cwd=folder, env=environment, text=True, check=True, stdout=subprocess.PIPE).stdout)


def on_hosts(hosts, ranks_a_host, rate, folder, build, model, environment):
    some = FEW if rate == "10mbit" and model == "perceptron" else []
    with Hosts(hosts, rate, environment) as made:
        if not made.made:
            sys.exit("The table of choices needs root, ip and tc.")
        return found_in(made.run([f"{build}/tests/choice_rank", model, *some], folder, {}, ranks_a_host, bind=True))


def rounded(value):
    """Rounds all numbers to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return {key: rounded(each) for key, each in value.items()} if isinstance(value, dict) else value


def milliseconds(seconds):
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:.0f}"


def row_of(place, model, found):
    """Prints a row; returns which of the aims it meets."""
    measured = {row["name"]: row["measured"] for row in found["settings"] if row["measured"]}
    predicted = {row["name"]: row["predicted"] for row in found["settings"]}
    best = min(measured, key=measured.get)
    none, chosen = measured["no hook"], found["chosen"]
    took = measured[chosen]
    errors = [abs(predicted[name] / measured[name] - 1) for name in measured if name != "no hook" and predicted[name]]
    cost, cost_beside_none = (found["measuring_seconds"] / (STEPS * seconds) for seconds in (took, none))
    print(
        f"| {place} | {MODELS[model]} | {milliseconds(none)} | {best}, {milliseconds(measured[best])} | {chosen}, {milliseconds(took)} "
        f"| {100 * (took / measured[best] - 1):+.1f} | {100 * (took / none - 1):+.0f} | {100 * statistics.median(errors):.0f} "
        f"| {100 * max(errors):.0f} | {100 * cost:.2f} | {100 * cost_beside_none:.2f} |",
        flush=True,
    )
    return {
        "near": took <= (1 + WITHIN) * measured[best],
        "not_slower": took <= (1 + NEVER_SLOWER) * none,
        "predicted": statistics.median(errors) <= PREDICTED_WITHIN,
        "cheap": cost <= 0.01,
        "cheap_beside_none": cost_beside_none <= 0.01,
    }


def count(rows, what):
    return f"{sum(row[what] for row in rows)} of {len(rows)}"


def table(folder, build, environment, recordings):
    """`recordings`: the folder for what was measured, for the tests of prediction/; None: do not keep it."""
    print(HEADER)
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    rows = []
    cases = [(2, 1, rate, model) for rate in RATES for model in MODELS] + [(hosts, 1, rate, model) for hosts, rate, model in MORE_HOSTS]
    cases += [(2, 2, rate, model) for rate, model in TWO_A_HOST]
    cases.sort(key=lambda case: case == SLOWEST)
    for hosts, ranks_a_host, rate, model in cases:
        if rate:
            found = on_hosts(hosts, ranks_a_host, rate, folder, build, model, environment)
        else:
            found = one_machine(folder, build, model, environment)
        place = RATES[rate] + (f", {hosts} hosts" if hosts > 2 else "") + (f", {ranks_a_host} ranks a host" if ranks_a_host > 1 else "")
        rows.append({**row_of(place, model, found), "ranks": hosts * ranks_a_host})
        if recordings:
            on = f"{hosts}x{ranks_a_host}" if ranks_a_host > 1 else hosts
            name = f"{rate or 'one-machine'}-{on}-{model}.json"
            recordings.mkdir(exist_ok=True)
            (recordings / name).write_text(json.dumps(rounded(found), separators=(",", ":")) + "\n")
    two = [row for row in rows if row["ranks"] == 2]
    more = [row for row in rows if row["ranks"] > 2]
    print(f"\nWithin 5 % of the best: {count(two, 'near')}; not 3 % slower than no hook: {count(two, 'not_slower')}; half of the predictions within 15 %: {count(two, 'predicted')}, with more ranks {count(more, 'predicted')}; measuring below 1 % of 1,000 steps with the choice: {count(two, 'cheap')}, without a hook: {count(two, 'cheap_beside_none')}.\n")

"""Writes policies.json and names.json, which record what Orbax does."""

import datetime
import json
import pathlib
import random
import tempfile

from etils import epath
from orbax.checkpoint import options as options_lib
from orbax.checkpoint._src.checkpoint_managers import (
    preservation_policy,
    save_decision_policy,
)
from orbax.checkpoint._src.metadata import checkpoint_info
from orbax.checkpoint._src.path import step as step_lib

HERE = pathlib.Path(__file__).parent
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
NOW_US = 1_790_000_000_000_000
PRESERVATION_COUNT = 400
SAVE_COUNT = 250


def info(row):
    """Returns Orbax's record for `[step, microseconds, metric or None]`."""
    step, time_us, metric = row
    return checkpoint_info.CheckpointInfo(
        step=step,
        time=EPOCH + datetime.timedelta(microseconds=time_us),
        metrics=None if metric is None else {"loss": metric},
    )


def random_history(rng):
    """Returns rows in which steps grow, times mostly grow, and metrics
    repeat."""
    rows = []
    step = rng.choice([0, 0, 1, 7, 100])
    time_us = NOW_US - rng.choice([10, 3600, 90_000]) * 1_000_000
    for _ in range(rng.choice([0, 1, 2, 3, 5, 8, 13, 20])):
        metric = rng.choice([None, 0.5, 1.0, -2.0, rng.random()])
        rows.append([step, time_us, metric])
        step += rng.choice([1, 1, 2, 3, 5, 10, 50])
        time_us += rng.choice([0, 1, 500_000, 1_000_000, 30_000_000, -5])
    return rows


def maybe(rng, values):
    """Returns one of the values, or None."""
    return rng.choice([None, *values])


def random_preservation(rng, depth=0):
    """Returns `[name, arguments]` of a random policy."""
    steps = sorted(rng.sample(range(60), rng.randint(0, 12)))
    choices = [
        ["PreserveAll", {}],
        ["LatestN", {"n": maybe(rng, [0, 1, 2, 3, 10])}],
        ["EveryNSeconds", {"interval_secs": rng.choice([0, 1, 2, 30, 60])}],
        [
            "EveryNSteps",
            {
                "interval_steps": rng.choice([1, 2, 3, 5, 10, -4, 0]),
                "exact_interval": rng.random() < 0.5,
                "max_to_keep": maybe(rng, [0, 1, 2, 4]),
            },
        ],
        [
            "EveryNStepsClosest",
            {
                "interval_steps": rng.choice([1, 2, 4, 6, 10, 25, 0]),
                "max_to_keep": maybe(rng, [0, 1, 2, 4]),
            },
        ],
        ["CustomSteps", {"steps": steps}],
        [
            "BestN",
            {
                "reverse": rng.random() < 0.5,
                "n": maybe(rng, [0, 1, 2, 3, 8]),
                "keep_checkpoints_without_metrics": rng.random() < 0.5,
            },
        ],
        ["LatestDuration", {"seconds": rng.choice([1, 20, 4000, 100_000])}],
    ]
    if depth < 2 and rng.random() < 0.2:
        count = rng.randint(1, 3)
        children = [random_preservation(rng, depth + 1) for _ in range(count)]
        return ["AnyPreservationPolicy", {"policies": children}]
    return rng.choice(choices)


def preservation(policy):
    """Returns the Orbax policy for `[name, arguments]`."""
    name, arguments = policy
    if name == "AnyPreservationPolicy":
        children = [preservation(child) for child in arguments["policies"]]
        return preservation_policy.AnyPreservationPolicy(children)
    if name == "BestN":
        arguments = {**arguments, "get_metric_fn": lambda m: m["loss"]}
    if name == "LatestDuration":
        seconds = datetime.timedelta(seconds=arguments["seconds"])
        arguments = {"duration": seconds}
    return getattr(preservation_policy, name)(**arguments)


class FixedClock(datetime.datetime):
    """A `datetime.datetime` whose now() is always the same."""

    @classmethod
    def now(cls, tz=None):
        del tz
        return EPOCH + datetime.timedelta(microseconds=NOW_US)


def preservation_cases(rng):
    """Returns random histories and policies, with the steps that are kept."""
    cases = []
    preservation_policy.datetime.datetime = FixedClock
    for _ in range(PRESERVATION_COUNT):
        history = random_history(rng)
        policy = random_preservation(rng)
        context = preservation_policy.PreservationContext()
        case = {"history": history, "policy": policy}
        try:
            case["keep"] = list(
                preservation(policy).should_preserve(
                    [info(row) for row in history], context=context
                )
            )
        except ValueError as error:
            case["error"] = str(error)
        cases.append(case)
    return cases


def random_save_policy(rng, depth=0):
    """Returns `[name, arguments]` of a random policy."""
    steps = sorted(rng.sample(range(60), rng.randint(0, 12)))
    interval = {"interval": rng.choice([1, 2, 5, 7, 100])}
    seconds = {"minimum_interval_secs": maybe(rng, [0, 1, 30, 3600])}
    choices = [
        ["FixedIntervalPolicy", interval],
        ["SpecificStepsPolicy", {"steps": steps}],
        ["ContinuousCheckpointingPolicy", seconds],
        ["PreemptionCheckpointingPolicy", {}],
        ["InitialSavePolicy", {}],
    ]
    if depth < 2 and rng.random() < 0.3:
        count = rng.randint(0, 3)
        children = [random_save_policy(rng, depth + 1) for _ in range(count)]
        return ["AnySavePolicy", {"policies": children}]
    return rng.choice(choices)


def save_policy(policy):
    """Returns the Orbax policy for `[name, arguments]`."""
    name, arguments = policy
    if name == "AnySavePolicy":
        children = [save_policy(child) for child in arguments["policies"]]
        return save_decision_policy.AnySavePolicy(children)
    return getattr(save_decision_policy, name)(**arguments)


def save_cases(rng):
    """Returns random histories, policies and next steps, with whether the step
    is saved."""
    cases = []
    for _ in range(SAVE_COUNT):
        history = random_history(rng)
        policy = random_save_policy(rng)
        last = history[-1] if history else [0, NOW_US, None]
        gap = rng.choice([0, 999_999, 1_000_000, 31_000_000, 3_600_000_000])
        step = [last[0] + rng.choice([1, 2, 10]), last[1] + gap, None]
        saving, preempted = rng.random() < 0.3, rng.random() < 0.3
        context = save_decision_policy.DecisionContext(
            is_saving_in_progress=saving,
            reached_preemption=preempted,
            multiprocessing_options=options_lib.MultiprocessingOptions(),
        )
        save = save_policy(policy).should_save(
            info(step), [info(row) for row in history], context=context
        )
        cases.append(
            {
                "history": history,
                "policy": policy,
                "step": step,
                "is_saving_in_progress": saving,
                "reached_preemption": preempted,
                "save": bool(save),
            }
        )
    return cases


NAMES = """0 1 7 07 007 0007 12345 123456 -1 +1 1_ _1 a_1 a_01 a_0001 a_12345
a_b_3 ckpt_00000002 ckpt_2 ckpt_ ckpt 1a a1 1.0 metadata .holdfast_trash
5.orbax-checkpoint-tmp 5.orbax-checkpoint-tmp-1712345678
ckpt_6.orbax-checkpoint-tmp ckpt_00000006.orbax-checkpoint-tmp-17
x.orbax-checkpoint-tmp a_9.orbax-checkpoint-tmp-1.orbax-checkpoint-tmp
8.orbax-checkpoint-tmpy b_10.other""".split()

FORMATS = [
    {},
    {"step_prefix": "a"},
    {"step_prefix": "ckpt"},
    {"step_prefix": ""},
    {"step_format_fixed_length": 0},
    {"step_format_fixed_length": 1},
    {"step_format_fixed_length": 4},
    {"step_format_fixed_length": 8, "step_prefix": "ckpt"},
    {"step_format_fixed_length": 4, "step_prefix": "a"},
]


def step_of(name):
    """Returns the step number in a name, or None if Orbax refuses the name."""
    try:
        return step_lib.step_from_checkpoint_name(name)
    except ValueError:
        return None


def name_cases():
    """Returns what Orbax makes of the names NAMES."""
    with tempfile.TemporaryDirectory() as root:
        base = epath.Path(root)
        for name in NAMES:
            (base / name).mkdir()
        (base / "3").write_text("a file")
        formats = []
        for arguments in FORMATS:
            name_format = step_lib.standard_name_format(**arguments)
            found = [[m.step, m.path.name] for m in name_format.find_all(base)]
            steps = [0, 7, 123, 12345, 123456789]
            formats.append(
                {
                    "arguments": arguments,
                    "text": str(name_format),
                    "names": [name_format.build_name(step) for step in steps],
                    "steps": steps,
                    "committed": sorted(found),
                }
            )
        return {
            "directories": NAMES,
            "files": ["3"],
            "formats": formats,
            "step_from_checkpoint_name": [step_of(name) for name in NAMES],
            "tmp_checkpoints": sorted(step_lib.tmp_checkpoints(root)),
            "checkpoint_steps": sorted(
                path.name for path in step_lib.checkpoint_steps_paths(root)
            ),
        }


def write(name, value):
    """Writes a JSON file with one case per line."""
    lists = {k: v for k, v in value.items() if isinstance(v, list)}
    rest = {k: v for k, v in value.items() if k not in lists}
    parts = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in rest.items()]
    for key, rows in lists.items():
        text = ",\n".join(json.dumps(row) for row in rows)
        parts.append(f"{json.dumps(key)}: [\n{text}\n]")
    (HERE / name).write_text("{\n" + ",\n".join(parts) + "\n}\n")


def main():
    """Writes both files."""
    write("names.json", name_cases())
    rng = random.Random(7)
    write(
        "policies.json",
        {
            "now_us": NOW_US,
            "save": save_cases(rng),
            "preservation": preservation_cases(rng),
        },
    )


if __name__ == "__main__":
    main()

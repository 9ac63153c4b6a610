"""Opens data that cannot be used, or that ranks see differently, and says what each rank got.

FOLDER FRAMEWORK CASES: CASES is a file of JSON. `cases`, by name: `pattern`, `open` and `loader`
with their options, `state` with changes of the rank's own state that are loaded; a value that is a
list is one by rank. `ranks`, by rank: `sees`, by folder another one; `nobody`: the rank is another
user's. `scratch`: a file.
"""

from __future__ import annotations

import json
import sys

from input_job import RANK, become_nobody, say, see_as, start

with open(sys.argv[3]) as file:
    trial = json.load(file)
own = trial["ranks"].get(str(RANK), {})
if own.get("sees"):
    see_as(own["sees"])
start(sys.argv[2])

import horovod_opt.io as hio  # noqa: E402  -- after the view of the files


def of_rank(options: dict) -> dict:
    return {name: value[RANK] if isinstance(value, list) else value
            for name, value in options.items()}


def perform(case: dict) -> int:
    with hio.open(of_rank(case)["pattern"], **of_rank(case.get("open", {}))) as data:
        if "state" in case:
            data.load_state_dict({**data.state_dict(), **case["state"]})
        batches = hio.torch.loader(data, **{"batch_size": 2, "with_info": True,
                                           **of_rank(case.get("loader", {}))})
        return sum(info.size for _, info in batches)


if own.get("nobody"):  # with all imported before: Python itself may not be readable then
    good = trial["cases"]["nothing wrong"]["pattern"]
    with hio.open(good, alone=True, index=trial["scratch"]) as data:
        for _ in hio.torch.loader(data, 2, epochs=1):
            pass
    become_nobody()
for name, case in trial["cases"].items():
    try:
        say(case=name, samples=perform(case), error="", kind="")
    except hio.DataError as error:
        say(case=name, error=str(error), kind=type(error).__name__)

#!/usr/bin/env python3
"""Runs the models of the catalogue's protocol exhaustively with spin.

Each NAME.json here lists runs of one model file:

  {"file": "find.pml",
   "runs": [{"name": "find", "defines": ["CRASHES=1"], "expect": "pass"},
            {"name": "find-no-reread", "rule": "what the knock-out takes away",
             "defines": ["KO_FIND_REREAD"], "expect": "false_entry"}]}

"pass": the search is complete and finds no error. Anything else names the claim (a bit of the
model, see NEVER in common/claims.pml) that the run must break, or "invalid end state". A run that
breaks another claim, runs out of depth, memory or time, or does not compile is void and failed.

A knock-out fails for the rule that it takes away only if the same run with the rule passes. Those
that no passing run of the table is are added by themselves ("bases", named by their defines).

The passing runs of a file together must reach every statement; one that none reaches is named, and
is a failure unless the table's "unreached" has its text. A run with "nightly": true is a longer
one, run with --kind nightly alone.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
DEPTH_MAX = 100_000
MEMORY_BYTES_MAX = 2 << 30
SECONDS_MAX = 1800  # of each of a run's three programs
JOBS = 2
CFLAGS = ["-w", "-DSAFETY", "-DVECTORSZ=4096", "-DCOLLAPSE"]
# By Run.is_knockout. A knock-out ends at its first error: what takes long is to compile pan.
OPTIMISE = {True: "-O0", False: "-O1"}
HASH_LOG2 = {True: 20, False: 24}

KINDS_EVERY_DAY = ("pass", "bases", "knockouts")
KINDS = (*KINDS_EVERY_DAY, "nightly")

# Statement of a model, as pan names it: line and text.
Statement = tuple[int, str]


@dataclasses.dataclass(frozen=True)
class Run:
    file: pathlib.Path
    name: str
    defines: tuple[str, ...]
    expect: str
    rule: str = ""
    nightly: bool = False
    base: bool = False  # a knock-out's run, with the rule

    @property
    def is_knockout(self) -> bool:
        return self.expect != "pass"

    @property
    def kind(self) -> str:
        if self.nightly:
            return "nightly"
        return "knockouts" if self.is_knockout else "bases" if self.base else "pass"


@dataclasses.dataclass
class Outcome:
    run: Run
    got: str = ""  # "pass", the broken claim, or what went wrong with the run itself
    states: int = 0
    memory_mib: float = 0.0
    seconds: float = 0.0  # of processor time, all three programs
    reached: dict[Statement, bool] = dataclasses.field(default_factory=dict)

    @property
    def as_expected(self) -> bool:
        return self.got == self.run.expect


def read_tables(folder: pathlib.Path) -> list[dict]:
    return [json.loads(table.read_text()) for table in sorted(folder.glob("*.json"))]


def read_runs(folder: pathlib.Path) -> list[Run]:
    runs = []
    for model in read_tables(folder):
        for entry in model["runs"]:
            runs.append(Run(file=folder / model["file"], name=entry["name"],
                            defines=tuple(entry.get("defines", ())), expect=entry["expect"],
                            rule=entry.get("rule", ""),
                            nightly=entry.get("nightly", False)))
    names = [run.name for run in runs]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise SystemExit(f"run names used twice: {sorted(repeated)}")
    for run in runs:
        takes_out = [define for define in run.defines if define.startswith("KO_")]
        if len(takes_out) != (1 if run.is_knockout else 0):
            raise SystemExit(f"{run.name}: a knock-out takes out one rule, a passing run none")
    return runs + bases(runs)


def bases(runs: list[Run]) -> list[Run]:
    """The runs of the knock-outs with the rule, each once, without those that `runs` has."""
    there = {(run.file, frozenset(run.defines)) for run in runs if run.kind == "pass"}
    added = []
    for run in runs:
        defines = tuple(define for define in run.defines if not define.startswith("KO_"))
        key = (run.file, frozenset(defines))
        if not run.is_knockout or key in there:
            continue
        there.add(key)
        added.append(Run(file=run.file, name=",".join((run.file.stem, *defines)),
                         defines=defines, expect="pass", base=True))
    return added


def judge(output: str) -> str:
    """What pan's output says: "pass", the broken claim, or a sentence that says why it is void."""
    if found := re.search(r"pan:1: assertion violated\s+(.*) \(at depth", output):
        claim = re.fullmatch(r"!\((\w+)\)", found[1].strip())
        return claim[1] if claim else f"void: assertion {found[1].strip()}"
    if found := re.search(r"pan:1: (.*) \(at depth", output):
        return found[1]
    for sign in ("max search depth too small", "out of memory", "Search not completed",
                 "aborting", "hash-compact", "Bit statespace", "VECTORSZ"):
        if sign in output:
            return f"void: {sign}"
    if "Full statespace search for:" not in output or "errors: 0" not in output:
        return "void: no complete search"
    return "pass"


def reached(listing: str, output: str) -> dict[Statement, bool]:
    """Which statements a search has reached: pan -d lists all, pan's output the unreached. An
    inline appears once for each use; one use that is reached is enough."""
    uses = {(int(found[2]), found[3].strip(), found[1]) for found in re.finditer(
        r"^\s+state\s+(\d+) -.*\[.*\] \S+:(\d+) => (.*)$", listing, re.MULTILINE)}
    total = collections.Counter((line, text) for line, text, _ in uses)
    missed = collections.Counter(
        (int(found[1]), found[2].strip())
        for found in re.finditer(r'^\s+\S+:(\d+), state \d+, "(.*)"$', output, re.MULTILINE))
    return {statement: missed[statement] < count for statement, count in total.items()}


def never_reached(outcomes: list[Outcome], allowed: list[str]) -> list[Statement]:
    everywhere: dict[Statement, bool] = {}
    for outcome in outcomes:
        for statement, is_reached in outcome.reached.items():
            everywhere[statement] = everywhere.get(statement, False) or is_reached
    return [(line, text) for (line, text), is_reached in sorted(everywhere.items())
            if not is_reached and not any(entry in text for entry in allowed)]


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


class Late(Exception):
    pass


def call(command: list[str], folder: pathlib.Path, limit_memory: bool) -> tuple[int, str, float]:
    """Exit code, output and processor seconds of a program that runs in `folder`."""
    written = folder / f"{pathlib.Path(command[0]).name}.out"
    with written.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT,
                                   preexec_fn=limited if limit_memory else None)
        alarm = threading.Timer(SECONDS_MAX, process.kill)
        alarm.start()
        _, status, usage = os.wait4(process.pid, 0)
        killed = not alarm.is_alive()
        alarm.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    if killed:
        raise Late(command[0])
    return process.returncode, written.read_text(), usage.ru_utime + usage.ru_stime


def explore(run: Run, folder: pathlib.Path, depth: int, outcome: Outcome) -> None:
    spin = ["spin", "-a", *(f"-D{define}" for define in run.defines), str(run.file)]
    cc = ["cc", OPTIMISE[run.is_knockout], *CFLAGS, "-o", "pan", "pan.c"]
    pan = ["./pan", f"-m{depth}", f"-w{HASH_LOG2[run.is_knockout]}"]
    for command in (spin, cc):
        code, output, seconds = call(command, folder, limit_memory=False)
        outcome.seconds += seconds
        if code != 0 or (command is spin and "Error" in output):
            outcome.got = f"void: {command[0]}: {output.strip()[:300]}"
            return
    code, output, seconds = call(pan, folder, limit_memory=True)
    outcome.seconds += seconds
    if code != 0 and "pan:1:" not in output:
        outcome.got = f"void: pan ended with {code}"
        return
    outcome.got = judge(output)
    if found := re.search(r"(\d+) states, stored", output):
        outcome.states = int(found[1])
    if found := re.search(r"([\d.]+)\s+total actual memory usage", output):
        outcome.memory_mib = float(found[1])
    if outcome.got == "pass":
        _, listing, _ = call(["./pan", "-d"], folder, limit_memory=False)
        outcome.reached = reached(listing, output)


def execute(run: Run, keep: bool, depth: int = DEPTH_MAX) -> Outcome:
    outcome = Outcome(run)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"model-{run.name}-"))
    try:
        explore(run, folder, depth, outcome)
    except Late as late:
        outcome.got = f"void: over {SECONDS_MAX} s in {late}"
    finally:
        if keep:
            print(f"{run.name}: kept {folder}")
        else:
            shutil.rmtree(folder)
    return outcome


def describe(outcome: Outcome) -> str:
    mark = "ok  " if outcome.as_expected else "FAIL"
    line = (f"{mark} {outcome.run.name:<32} {outcome.states:>10} {outcome.memory_mib:>7.0f} "
            f"{outcome.seconds:>6.1f}  {outcome.got}")
    return line if outcome.as_expected else f"{line}  (expected: {outcome.run.expect})"


def count_dead_code(outcomes: list[Outcome]) -> int:
    """Prints the statements that no passing run of their model reaches."""
    dead = 0
    for model in read_tables(HERE):
        passing = [outcome for outcome in outcomes
                   if outcome.run.file.name == model["file"] and outcome.got == "pass"]
        for line, text in never_reached(passing, model.get("unreached", [])):
            print(f"FAIL {model['file']}:{line}: never reached: {text}")
            dead += 1
    return dead


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--list", action="store_true", help="name the runs and end")
    options.add_argument("--only", metavar="NAME", action="append", help="this run; repeatable")
    options.add_argument("--kind", choices=KINDS, action="append",
                         help="repeatable; without: all but nightly")
    options.add_argument("--keep", action="store_true", help="keep pan and its trail")
    chosen = options.parse_args()
    kinds = chosen.kind or (KINDS if chosen.list or chosen.only else KINDS_EVERY_DAY)
    runs = [run for run in read_runs(HERE) if run.kind in kinds]
    if chosen.only:
        unknown = set(chosen.only) - {run.name for run in runs}
        if unknown:
            print(f"no such run: {', '.join(sorted(unknown))}", file=sys.stderr)
            return 2
        runs = [run for run in runs if run.name in chosen.only]
    if chosen.list:
        for run in runs:
            print(f"{run.name:<32} {run.kind:<10} {run.expect:<18} {run.rule}")
        return 0
    print(f"     {'run':<32} {'states':>10} {'MiB':>7} {'cpu s':>6}  result")
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        outcomes = []
        for outcome in pool.map(lambda run: execute(run, chosen.keep), runs):
            print(describe(outcome), flush=True)
            outcomes.append(outcome)
    wrong = sum(not outcome.as_expected for outcome in outcomes)
    if "pass" in kinds and not chosen.only:
        wrong += count_dead_code(outcomes)
    print(f"{len(outcomes)} runs, {wrong} failures")
    return 1 if wrong or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs Onward and every installed peer on the same work, side by side, and prints ratios.

  tools/benchmark                                   everything that is installed here
  tools/benchmark --quick --work mlp                a first look, in a minute
  tools/benchmark --python pytorch=venv/bin/python --python keras=other/bin/python
  tools/benchmark --peers onward,jax --work mlp,cnn --rounds 5 --json result.json

Every program gets the same ONNX file with the same weights, the same batches in the same order, and
the same cores. Rounds interleave them (A B C A B C ...), each run a new process; a ratio is the median
of the rounds' own ratios. All of it takes about 20 minutes; before believing a figure, see that the last
line calls the machine quiet.

works     {works}
measures  speed        training samples per second, launch to first step, peak memory (VmHWM)
          replicas     Onward on two devices against one, with as many threads together
          end-to-end   launch to evaluated: 3 epochs of 60,000 images of 28x28, shuffled, validated
                       on 10,000 after each
peers     {peers}
"""
import argparse
import dataclasses
import json
import math
import os
import platform
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import programs
import report
import runs
import works
from programs import ONWARD, Files

MEASURES = ("speed", "replicas", "end-to-end")
END_TO_END_EPOCHS = 3
Runs = Dict[str, List[Optional[Dict[str, Any]]]]  # program -> what each round gave


def _documentation() -> str:
    listed = "\n          ".join(f"{w.name:<12} {w.about}, batch {w.batch}"
                                 for w in works.WORKS.values())
    return __doc__.format(works=listed, peers=", ".join((ONWARD, *programs.PEERS)))


def _names(allowed: Sequence[str]) -> Callable[[str], List[str]]:
    """A list with commas, of these names only."""

    def parse(text: str) -> List[str]:
        names = list(dict.fromkeys(n.strip() for n in text.split(",")))
        for name in names:
            if name not in allowed:
                raise argparse.ArgumentTypeError(
                    f"'{name}' is none of {', '.join(allowed)}")
        return names

    return parse


def _positive(kind: Callable) -> Callable:

    def parse(text: str):
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
        return value

    return parse


def _threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def parse(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/benchmark", description=_documentation(),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    peers, all_works = (ONWARD, *programs.PEERS), tuple(works.WORKS)
    parser.add_argument("--work", type=_names(all_works), default=list(all_works), metavar="LIST",
                        help="works, with commas (default: all)")
    parser.add_argument("--peers", type=_names(peers), default=list(peers), metavar="LIST",
                        help="programs, with commas (default: all that are installed)")
    parser.add_argument("--measure", type=_names(MEASURES), default=list(MEASURES), metavar="LIST",
                        help="measures, with commas (default: all)")
    parser.add_argument("--rounds", type=_positive(int), metavar="N",
                        help="rounds (default 3)")
    parser.add_argument("--threads", type=_positive(int), default=_threads(), metavar="N",
                        help="threads and cores of every program (default: all cores, "
                        "%(default)s here)")
    parser.add_argument("--seconds", type=_positive(float), metavar="S",
                        help="how long speed is measured in each run (default 2)")
    parser.add_argument("--timeout", type=_positive(float), default=300.0, metavar="S",
                        help="a run that takes longer has failed (default 300)")
    parser.add_argument("--patience", type=_positive(float), metavar="S",
                        help="wait up to S seconds for a quiet machine before each run, and do a "
                        "run that was disturbed again, twice at most")
    parser.add_argument("--quick", action="store_true",
                        help="one round, short runs, a tenth of the images end to end")
    parser.add_argument("--onward", metavar="PATH",
                        help="the command (default: bazel-bin's, or the one on PATH)")
    parser.add_argument("--python", action="append", default=[], metavar="[PEER=]PATH",
                        help="the interpreter that has a peer, or any peer (default: also "
                        f"${programs.VARIABLE}, in this form with commas; then this one and "
                        "python3)")
    parser.add_argument("--json", metavar="FILE", help="write all that was measured")
    args = parser.parse_args(argv)
    args.rounds = args.rounds or (1 if args.quick else 3)
    args.seconds = args.seconds or (0.2 if args.quick else 2.0)
    try:
        args.pythons = programs.parse_pythons(
            args.python + [t for t in [os.environ.get(programs.VARIABLE, "")] if t])
    except ValueError as error:
        parser.error(f"--python: {error}")
    if args.json and not os.path.isdir(os.path.dirname(os.path.abspath(args.json))):
        parser.error(f"--json {args.json}: there is no such folder")
    return args


class Benchmark:
    """One invocation: the programs that take part, and what they gave.

    A program that fails is told at once and left out of the rest of that work; the others go on.
    """

    def __init__(self, args: argparse.Namespace, onward: Optional[str],
                 pythons: Dict[str, Tuple[str, str]], folder: str):
        self.args, self.onward, self.pythons, self.folder = args, onward, pythons, folder
        self.names = [n for n in args.peers if n == ONWARD or programs.PEERS[n][0] in pythons]
        self.gemm: Dict[str, List[float]] = {}
        self.foreign: List[float] = []
        self.result: Dict[str, Any] = {"speed": {}, "memory": {}, "failures": {}}

    def say(self, text: str) -> None:
        print(text, flush=True)

    def run(self, command: Sequence[str], **how: Any) -> runs.Ran:
        for attempt in range(3 if self.args.patience else 1):
            if self.args.patience:
                runs.await_quiet(self.args.patience, report.QUIET_CORES)
            ran = runs.run(command, threads=self.args.threads,
                           timeout=self.args.timeout, **how)
            if ran.foreign_cores <= report.QUIET_CORES:
                break
        self.foreign.append(ran.foreign_cores)
        return ran

    def files(self, name: str) -> Files:
        """Made on the first use of a work."""
        work, at = works.WORKS[name], os.path.join(self.folder, name)
        model = at + ".onnx"
        if not os.path.exists(model):
            with open(model, "wb") as file:
                file.write(work.make_model())
        return Files(model, works.write_data(at, work.image, work.epoch, 1))

    def rounds(self, title: str, one: Dict[str, Callable[[], Dict[str, Any]]]) -> Tuple[Runs, Dict]:
        """Calls every program's function in every round, interleaved. (results, failures)"""
        results: Runs = {name: [] for name in one}
        failures: Dict[str, str] = {}
        for n in range(self.args.rounds):
            if n == 0:
                self.measure_gemm()
            for name, function in one.items():
                if name in failures:
                    continue
                self.progress(f"{title}: round {n + 1} of {self.args.rounds}, {name}")
                try:
                    results[name].append(function())
                except runs.Failure as failure:
                    failures[name] = str(failure)
                    results[name].append(None)
        self.progress("")
        if failures:
            self.result["failures"][title] = failures
        return results, failures

    def progress(self, text: str) -> None:
        """On a terminal, one line that is written over."""
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text[:78]}", end="", file=sys.stderr, flush=True)

    # ---- The machine's own rate

    def gemm_commands(self) -> List[List[str]]:
        """By Onward's own kernel, and by PyTorch or else NumPy."""
        script, threads = os.path.join(programs.HERE, "peers", "gemm.py"), str(self.args.threads)
        python = self.pythons.get("pytorch", (sys.executable, ""))[0]
        commands = [[python, script, threads]]
        if self.onward:
            binary = os.path.join(os.path.dirname(self.onward), "..", "benchmarks", "gemm_rate")
            if os.access(binary, os.X_OK):
                commands.insert(0, [os.path.abspath(binary), threads])
        return commands

    def measure_gemm(self) -> None:
        for command in self.gemm_commands():
            try:
                for _, event in runs.named(self.run(command).events, "gemm"):
                    self.gemm.setdefault(event["by"], []).append(event["gflops"])
            except runs.Failure:
                continue  # Neither PyTorch nor NumPy there.

    def gflops(self) -> Tuple[Optional[float], str]:
        """The highest rate, and by what."""
        by = max(self.gemm, key=lambda name: max(self.gemm[name]), default="")
        return (max(self.gemm[by]), by) if by else (None, "")

    # ---- Speed

    def speed(self) -> None:
        for name in self.args.work:
            work, files = works.WORKS[name], self.files(name)
            one = {}
            for program in self.names:
                if program == ONWARD:
                    one[program] = lambda: self.onward_speed(work, files)
                else:
                    one[program] = self.peer_speed(program, work, files)
            results, failures = self.rounds(name, one)
            self.result["speed"][name] = results
            self.say(f"\n{name}: {work.about}; batch {work.batch}, {self.args.threads} threads, "
                     f"{report.counted(self.args.rounds, 'round')}")
            self.say(report.work_table(ONWARD, results, failures, work.operations_per_sample(),
                                       self.gflops()[0]))
            self.compare_losses(results)
            if ONWARD in results and ONWARD not in failures:
                self.compare_memory(work, files, report.median(report.column(results[ONWARD],
                                                                             "peak_mb")))

    def onward_speed(self, work: works.Work, files: Files, replicas: int = 1) -> Dict[str, Any]:

        def command(*more: str) -> List[str]:
            return programs.onward_command(self.onward, work, files, self.args.threads, replicas,
                                           ("--no-shuffle", *more))

        first = runs.named(self.run(command("--steps", "1")).events, "epoch")
        if not first:
            raise runs.Failure("ended without a step")
        ran = self.run(command("--epochs", "1000000"),
                       enough=runs.enough_epochs(self.args.seconds))
        return {"samples_per_second": runs.samples_per_second(ran.events),
                "first_step_s": first[0][0], "first_loss": first[0][1]["metrics"]["loss"],
                "peak_mb": ran.peak_mb, "foreign_cores": ran.foreign_cores}

    def peer_speed(self, peer: str, work: works.Work, files: Files) -> Callable:
        python, _ = self.pythons[programs.PEERS[peer][0]]
        command = programs.peer_command(python, peer, work, files, self.args.threads)
        prepared = peer != "ort"

        def measured() -> Dict[str, Any]:
            nonlocal prepared
            if not prepared:
                self.run([*command, "--prepare"])
                prepared = True
            ran = self.run(command, enough=runs.enough_epochs(self.args.seconds))
            first = runs.named(ran.events, "first_step")[0]
            return {"samples_per_second": runs.samples_per_second(ran.events),
                    "first_step_s": first[0], "first_loss": first[1]["loss"],
                    "peak_mb": ran.peak_mb, "foreign_cores": ran.foreign_cores}

        return measured

    def compare_losses(self, results: Runs) -> None:
        """The first step's losses differ by dropout's masks only; else it is not the same work."""
        losses = {name: report.median(report.column(r, "first_loss"))
                  for name, r in results.items()}
        ours = losses.get(ONWARD)
        for name, loss in losses.items():
            if ours and loss is not None and not abs(loss - ours) <= 0.25 * ours:
                self.say(f"  not the same work? the first loss of {name} is {loss:.3f}, "
                         f"{ONWARD}'s {ours:.3f}")

    def compare_memory(self, work: works.Work, files: Files, peak: float) -> None:
        """What the plan foretold, and what the process took beyond it."""
        command = programs.onward_command(self.onward, work, files, self.args.threads)
        try:
            planned = runs.named(self.run(["plan" if c == "train" else c for c in command]).events,
                                 "planned")[0][1]
        except (runs.Failure, IndexError):
            return
        mb = {part: sum(d.get(part + "_bytes", 0) for d in planned["devices"]) / 1e6
              for part in ("arena", "state", "feed")}
        mb["data"] = 4e-6 * work.epoch * math.prod(work.image)
        self.result["memory"][work.name] = {"planned_mb": mb, "peak_mb": peak}
        self.say(f"  {ONWARD}'s plan: arena {mb['arena']:.1f} MB, states {mb['state']:.1f}, feeds "
                 f"{mb['feed']:.1f}; the data in float32 {mb['data']:.1f}; the peak is "
                 f"{peak - sum(mb.values()):.1f} MB more")

    # ---- Replicas

    def replicas(self) -> None:
        threads = self.args.threads
        if threads < 2 or ONWARD not in self.names:
            self.say("\nreplicas: needs onward and two threads")
            return
        self.result["replicas"], rows = {}, []
        for name in self.args.work:
            work, files = works.WORKS[name], self.files(name)
            results, failures = self.rounds(f"replicas, {name}", {
                n: (lambda n=n: self.onward_speed(work, files, n)) for n in (1, 2)})
            self.result["replicas"][name] = results
            if failures:
                rows.append((name, "failed: " + "; ".join(failures.values())))
                continue
            one, two = (report.column(results[n], "samples_per_second") for n in (1, 2))
            rows.append((name, report.rate(report.median(one)), report.rate(report.median(two)),
                         report.times(report.spread(report.ratios(two, one)))))
        self.say(f"\ntwo replicas against one, {threads} threads together, samples/s")
        self.say(report.table(("", "one", "two", "two / one"), rows))

    # ---- End to end

    def end_to_end(self) -> None:
        work, at = works.WORKS["mlp"], os.path.join(self.folder, "end-to-end")
        share = 10 if self.args.quick else 1
        files = dataclasses.replace(
            self.files("mlp"), data=works.write_data(at, work.image, 60000 // share, 2),
            validation=works.write_data(at + "-validation", work.image, 10000 // share, 3))
        more = ("--epochs", str(END_TO_END_EPOCHS))
        one = {}
        for name in self.names:
            if name == ONWARD:
                command = programs.onward_command(self.onward, work, files, self.args.threads,
                                                  more=more)
            else:
                python, _ = self.pythons[programs.PEERS[name][0]]
                command = programs.peer_command(python, name, work, files, self.args.threads,
                                                (*more, "--shuffle"))
            one[name] = lambda name=name, command=command: self.evaluated(name, command)
        results, failures = self.rounds("end to end", one)
        self.result["end_to_end"] = results
        self.say(f"\nend to end: mlp, {END_TO_END_EPOCHS} epochs of {60000 // share} images, "
                 f"validated after each, {self.args.threads} threads, {report.counted(self.args.rounds, 'round')}")
        self.say(report.end_to_end_table(ONWARD, results, failures))

    def evaluated(self, name: str, command: List[str]) -> Dict[str, Any]:
        if name == "ort" and not os.path.isdir(os.path.join(self.folder, "mlp.onnx.ort")):
            self.run([*command, "--prepare"])
        ran = self.run(command)
        epochs = runs.named(ran.events, "epoch")
        if len(epochs) < END_TO_END_EPOCHS:
            raise runs.Failure(f"ended after {len(epochs)} epochs")
        return {"seconds": epochs[-1][0], "peak_mb": ran.peak_mb,
                "val_accuracy": epochs[-1][1]["metrics"]["val_accuracy"],
                "foreign_cores": ran.foreign_cores}

    # ---- All of it

    def all(self) -> None:
        for measure, function in (("speed", self.speed), ("replicas", self.replicas),
                                  ("end-to-end", self.end_to_end)):
            if measure in self.args.measure:
                function()
        gflops, by = self.gflops()
        if gflops:
            self.say(f"\nGEMM: {gflops:.0f} GFLOP/s in float32, by {by}, the fastest of "
                     f"{len(self.gemm)} in this run; a step's operations are counted as done "
                     "directly")
        else:
            self.say("\nGEMM: not measured; build //tools/benchmarks:gemm_rate, or install NumPy")
        self.say(report.doubts(self.foreign) or "a quiet machine")


def processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def main(argv: Optional[Sequence[str]] = None) -> int:
    args = parse(argv)
    onward = programs.find_onward(args.onward)
    if ONWARD in args.peers and onward is None:
        print("tools/benchmark: " + (f"{args.onward} cannot be run" if args.onward else
                                     "onward is not built; run bazel build //tools:onward "
                                     "//tools/benchmarks:gemm_rate"), file=sys.stderr)
        return 2
    packages = list(dict.fromkeys(programs.PEERS[p][0] for p in args.peers if p != ONWARD))
    pythons = programs.find_pythons(args.pythons, packages)
    print(f"{processor()}, {args.threads} of {os.cpu_count()} cores")
    for package in packages:
        if package in pythons:
            print(f"  {package:<8} {pythons[package][1]}")
        else:
            print(f"  {package:<8} absent: {programs.PACKAGES[package].install}; or name an "
                  f"interpreter that has it, --python {package}=PATH")
    with tempfile.TemporaryDirectory(prefix="onward-benchmark-") as folder:
        # Compiled for this invocation: cold in the first round, warm after it.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
        benchmark = Benchmark(args, onward, pythons, folder)
        try:
            benchmark.all()
        except KeyboardInterrupt:
            benchmark.progress("")
            print("tools/benchmark: interrupted", file=sys.stderr)
            return 130
    if args.json:
        gflops, by = benchmark.gflops()
        whole = {"processor": processor(), "cores": os.cpu_count(), "threads": args.threads,
                 "rounds": args.rounds, "seconds": args.seconds, "time": int(time.time()),
                 "versions": {p: v for p, (_, v) in pythons.items()},
                 "gemm": {"gflops": gflops, "by": by, "all": benchmark.gemm},
                 "most_foreign_cores": max(benchmark.foreign, default=0.0), **benchmark.result}
        try:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(whole, file, indent=1)
                file.write("\n")
        except OSError as error:
            print(f"tools/benchmark: {args.json}: {error.strerror}", file=sys.stderr)
            return 8
    failed = any(ONWARD in names or 1 in names or 2 in names
                 for names in benchmark.result["failures"].values())
    return 1 if failed else 0

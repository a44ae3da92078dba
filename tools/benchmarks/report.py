"""From what was measured to ratios, tables and JSON."""
import statistics
from typing import Any, Dict, List, Optional, Sequence, Tuple

Rounds = Sequence[Optional[float]]  # one number per round; None: not measured in it

QUIET_CORES = 0.25  # what others may use before the figures are doubted


def median(numbers: Rounds) -> Optional[float]:
    kept = [n for n in numbers if n is not None]
    return statistics.median(kept) if kept else None


def ratios(ours: Rounds, theirs: Rounds) -> List[float]:
    """Round by round: what ran side by side is compared."""
    return [a / b for a, b in zip(ours, theirs) if a is not None and b]


def spread(numbers: Sequence[float]) -> Optional[Tuple[float, float, float]]:
    """(median, least, most)"""
    return (statistics.median(numbers), min(numbers), max(numbers)) if numbers else None


def gemm_share(samples_per_second: Optional[float], operations: int,
               gflops: Optional[float]) -> Optional[float]:
    """What share of the measured GEMM rate the step's direct operations are. Above 1 is possible
    where fewer operations than direct ones are done."""
    if samples_per_second is None or not gflops:
        return None
    return samples_per_second * operations / (gflops * 1e9)


def column(runs: Sequence[Optional[Dict[str, Any]]], key: str) -> List[Optional[float]]:
    return [None if run is None else run.get(key) for run in runs]


# ---- Text ----------------------------------------------------------------------------------------

def number(value: Optional[float], form: str, unit: str = "") -> str:
    return "-" if value is None else form.format(value) + unit


def counted(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


def rate(value: Optional[float]) -> str:
    return number(value, "{:,.0f}" if value is None or value >= 100 else "{:,.1f}")


def times(found: Optional[Tuple[float, float, float]]) -> str:
    if found is None:
        return "-"
    middle, least, most = found
    return f"{middle:.2f} x" + (f" ({least:.2f}-{most:.2f})" if least != most else "")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, numbers to the right; a row of two is a name and a remark."""
    whole = [header] + [r for r in rows if len(r) == len(header)]
    widths = [max(len(r[c]) for r in whole) for c in range(len(header))]
    widths[0] = max([widths[0]] + [len(r[0]) for r in rows])
    out = []
    for row in [header, *rows]:
        cells = [row[0].ljust(widths[0])]
        if len(row) == len(header):
            cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        else:
            cells += list(row[1:])
        out.append("  " + "  ".join(cells).rstrip())
    return "\n".join(out)


def work_table(ours: str, results: Dict[str, List[Optional[Dict[str, Any]]]],
               failures: Dict[str, str], operations: int, gflops: Optional[float]) -> str:
    """Speed, start and memory of all programs on one work. `results`: program -> its rounds."""
    own = column(results.get(ours, []), "samples_per_second")
    header = ("", "samples/s", f"{ours} / it", "of GEMM", "first step", "peak memory")
    rows = []
    for name, runs in results.items():
        if name in failures:
            rows.append((name, "failed: " + failures[name]))
            continue
        speed = column(runs, "samples_per_second")
        share = gemm_share(median(speed), operations, gflops)
        rows.append((
            name, rate(median(speed)),
            "" if name == ours else times(spread(ratios(own, speed))),
            number(share and 100 * share, "{:.1f}" if share and share < 0.1 else "{:.0f}", " %"),
            number(median(column(runs, "first_step_s")), "{:.2f}", " s"),
            number(median(column(runs, "peak_mb")), "{:.0f}", " MB")))
    return table(header, rows)


def end_to_end_table(ours: str, results: Dict[str, List[Optional[Dict[str, Any]]]],
                     failures: Dict[str, str]) -> str:
    own = column(results.get(ours, []), "seconds")
    rows = []
    for name, runs in results.items():
        if name in failures:
            rows.append((name, "failed: " + failures[name]))
            continue
        seconds = column(runs, "seconds")
        rows.append((name, number(median(seconds), "{:.2f}", " s"),
                     "" if name == ours else times(spread(ratios(seconds, own))),
                     number(median(column(runs, "val_accuracy")), "{:.3f}"),
                     number(median(column(runs, "peak_mb")), "{:.0f}", " MB")))
    return table(("", "evaluated after", f"it / {ours}", "accuracy", "peak memory"), rows)


def doubts(foreign_cores: Sequence[float]) -> str:
    """One line where the machine was not quiet; else empty."""
    loud = [f for f in foreign_cores if f > QUIET_CORES]
    if not loud:
        return ""
    return (f"not a quiet machine: in {len(loud)} of {len(foreign_cores)} runs other programs kept "
            f"up to {max(loud):.1f} cores busy; these figures say little")

"""Writes docs/functions.md: every function, what became of torch's samples, and the layers that came out.

Run from anywhere: ``python tools/make_functions_doc.py``. Takes some minutes: every sample of every function is
built as a TensorRT network and interpreted. With names of functions, the rows of all others stay as they are.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "functional")]

from functions_page import PAGE, line_of, row_of, table_of  # noqa: E402
from records import ELSEWHERE, FAMILIES, Record  # noqa: E402
from samples import tally_of  # noqa: E402

HEAD = """\
# Functions

Written by `tools/make_functions_doc.py`; a test fails when it is not current.

`trtdsl.functional` (`F`) has torch's functions under torch's names, and `Tensor` has most of them as methods. Each
row is one of them, tested with the samples of torch's own OpInfo (every float32 sample, int64 and bool where torch
takes them; samples of our own for the few functions that torch has none of). Each sample is a real TensorRT network,
interpreted, and its result is torch's; a sample that is *refused* raises `UnsupportedError` with a reason given in
the last column. Samples that torch itself computes at random (dropout in training: another result for each seed)
are refused as well; they have no result to compare with, and stand apart as *random*. *Dynamic* counts the samples
(the first 40 of a function) that were run once more with named dimensions in place of the sizes of their inputs: all
of them or, where a size must be known (the channels of a convolution, the number of parts of a split), those of one
axis.
"""


def _measured(record: Record) -> dict[str, Any]:
    tally = tally_of(record)
    if tally.failed:
        raise SystemExit(f"{record.name}: {len(tally.failed)} samples differ: {tally.failed[0]}")
    return row_of(tally)


def elsewhere() -> str:
    """The functions that have tests of their own."""
    names = ", ".join(f"`F.{name}`" for name in sorted(ELSEWHERE))
    return f"\n## Tested on their own\n\n{textwrap.fill(names, 120, break_on_hyphens=False)}\n"


def main(*wanted: str) -> None:
    known = {name: row for name, row in table_of(PAGE.read_text()).items() if wanted and name not in wanted}
    lines, total, passed, refused, dynamic, random = [], 0, 0, 0, 0, 0
    for title, records in FAMILIES.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| function | samples passed | refused | dynamic | refused | layers | reasons |",
        ]
        lines.append("|---|---|---|---|---|---|---|")
        for record in sorted(records, key=lambda record: record.name):
            row = known.get(record.name) or _measured(record)
            lines.append(line_of(record.name, row))
            total, passed, refused = total + 1, passed + row["passed"], refused + row["refused"]
            dynamic, random = dynamic + row["dynamic"], random + row["random"]
            if record.name not in known:
                print(f"{record.name}: {row['passed']} passed, {row['refused']} refused", file=sys.stderr)
    summary = (
        f"\n{total} functions; {passed + refused} samples, of which {passed} equal torch and {refused} "
        f"({refused / (passed + refused):.1%}) are refused; {random} more are random; {dynamic} dynamic ones equal "
        "torch."
    )
    PAGE.write_text(HEAD + summary + "\n" + "\n".join(lines) + "\n" + elsewhere())


if __name__ == "__main__":
    main(*sys.argv[1:])

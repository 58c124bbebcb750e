"""holdfast.metrics(), its text format, and the files that environment variables
request."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import holdfast

PROGRAM = """
import sys
import numpy as np
import holdfast
holdfast.save(sys.argv[1], {"w": np.arange(1 << 16, dtype=np.float32)})
holdfast.load(sys.argv[1])
try:
    holdfast.load(sys.argv[1] + "-absent")
except holdfast.errors.HoldfastError:
    pass
"""


def test_counts_grow_with_calls(tmp_path):
    before = holdfast.metrics()
    holdfast.save(tmp_path / "c", {"w": np.arange(1 << 16, dtype=np.float32)})
    holdfast.load(tmp_path / "c")
    after = holdfast.metrics()
    assert after["saves"] == before["saves"] + 1
    assert after["loads"] == before["loads"] + 1
    for phase in ("plan", "encode", "write", "commit", "read", "decode"):
        assert after[f"{phase}_count"] > before.get(f"{phase}_count", 0)


def test_text_is_openmetrics():
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = {family.name: family for family in
                parser.text_string_to_metric_families(holdfast.metrics_text())}
    assert families["holdfast_saves"].type == "counter"
    assert families["holdfast_phase_seconds"].type == "histogram"


def run(tmp_path, **environment):
    subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "c"], check=True,
        env={**os.environ, **environment})


def test_metrics_file_is_written_after_each_call(tmp_path):
    run(tmp_path, HOLDFAST_METRICS=str(tmp_path / "m-%r.prom"))
    text = (tmp_path / "m-0.prom").read_text("utf-8")
    assert "\nholdfast_saves_total 1\n" in text
    assert "# EOF" in text
    assert {each.name for each in tmp_path.iterdir()} == {"c", "m-0.prom"}


def test_trace_is_whole(tmp_path):
    run(tmp_path, HOLDFAST_TRACE=str(tmp_path / "t.json"))
    events = json.loads((tmp_path / "t.json").read_text("utf-8"))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert {"plan", "encode", "write", "sync", "commit", "open", "read",
            "decode"} <= {span["name"] for span in spans}
    assert all(span["dur"] >= 0 and span["ts"] > 0 and span["tid"] > 0
               for span in spans)


def test_trace_opens_in_perfetto(tmp_path):
    trace_processor = pytest.importorskip("perfetto.trace_processor")
    run(tmp_path, HOLDFAST_TRACE=str(tmp_path / "t.json"))
    try:
        processor = trace_processor.TraceProcessor(
            trace=str(tmp_path / "t.json"))
    # The trace processor's program is downloaded at the first use.
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no trace processor here: {error}")
    with processor:
        rows = processor.query(
            "select count(*) as n from slice where name = 'encode'")
        assert next(iter(rows)).n > 0

#!/usr/bin/env python3
"""Writes internal/train/testdata/events.tfevents: records as TensorBoard's own
code writes them. Needs tensorboard; run from the repository root. With the path
of a log as argument, prints its scalars as TensorBoard reads them."""

import pathlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

if len(sys.argv) > 1:
    log = EventAccumulator(sys.argv[1])
    log.Reload()
    for tag in sorted(log.Tags()["scalars"]):
        print(tag, [(e.step, round(e.value, 6)) for e in log.Scalars(tag)])
    sys.exit()

V = Summary.Value
out = pathlib.Path("internal/train/testdata")
out.mkdir(exist_ok=True)
with open(out / "events.tfevents", "wb") as f:
    w = RecordWriter(f)
    w.write(Event(wall_time=1.5, step=0, file_version="brain.Event:2").SerializeToString())
    first = [("loss/train", 2.5), ("optimizer/grad_norm", 0.25), ("optimizer/lr", 0.001), ("speed/tokens_per_second", 100)]
    w.write(Event(wall_time=1.5, step=1, summary=Summary(value=[V(tag=t, simple_value=v) for t, v in first])).SerializeToString())
    second = [("loss/train", 1.5), ("optimizer/grad_norm", 0.5), ("optimizer/lr", 0.002), ("speed/tokens_per_second", 200),
              ("speed/mfu", 0.5), ("loss/validation", 0.0), ("validation/perplexity", 1.0), ("validation/bits_per_byte", 2.0)]
    w.write(Event(wall_time=1.5, step=300, summary=Summary(value=[V(tag=t, simple_value=v) for t, v in second])).SerializeToString())

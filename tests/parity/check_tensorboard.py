"""Reads an event file (default: tests/run/goldens/events.bin) back with TensorBoard's own reader,
value by value.

    python tests/parity/check_tensorboard.py [FILE]

Needs: tensorboard.
"""
import pathlib
import shutil
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

golden = pathlib.Path(__file__).parent.parent / "run" / "goldens" / "events.bin"
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "events.out.tfevents.1700000000.host"
    shutil.copy(sys.argv[1] if len(sys.argv) > 1 else golden, path)
    events = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    loss = [(e.step, e.value, e.wall_time) for e in events.Scalars("train/loss")]
    assert loss == [(1, 4.25, 1700000001.5), (2, 3.5, 1700000002.5)], loss
    (small,) = events.Scalars("eval/loss")
    assert small.step == 300 and abs(small.value / 1e-30 - 1) < 1e-6, small
    (text,) = events.Tensors("samples")
    assert text.tensor_proto.string_val[0].decode() == "**before** ümlaut", text
    assert events.summary_metadata["samples"].plugin_data.plugin_name == "text"
print("tensorboard reads every value back")

"""onnxruntime_peer.py MODEL.onnx THREADS   a worker (see serve.py) that embeds with ONNX Runtime."""
import sys

from serve import encoder, serve

import numpy as np, onnxruntime


def main():
    path, threads = sys.argv[1], int(sys.argv[2])
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
    # Spinning is what makes it fast, but only while it works: other peers are measured between its runs.
    o.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    output = session.get_outputs()[0].name

    def hidden(ids):
        every = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        feed = {n: every[n] for n in names}
        return lambda: session.run([output], feed)[0]

    serve("ONNX Runtime", onnxruntime.__version__, f"{threads} threads", encoder(hidden))


main()

"""openvino_peer.py MODEL.onnx THREADS f32|bf16   a worker (see serve.py) that embeds with OpenVINO.

The model is compiled anew for each shape of input, which is when OpenVINO is fastest.
"""
import sys

from serve import encoder, serve

import numpy as np, openvino


def main():
    path, threads, precision = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    core = openvino.Core()
    model = core.read_model(path)
    names = [i.any_name for i in model.inputs]
    compiled = {}

    def request(shape):
        if shape not in compiled:
            model.reshape({n: list(shape) for n in names})
            compiled[shape] = core.compile_model(model, "CPU", {
                "INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "ENABLE_CPU_PINNING": False,
            }).create_infer_request()
        return compiled[shape]

    def hidden(ids):
        r = request(ids.shape)
        every = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        for n in names:
            r.set_tensor(n, openvino.Tensor(every[n]))
        def run():
            r.infer()
            return r.get_output_tensor(0).data
        return run

    serve("OpenVINO", openvino.get_version().split("-")[0], f"{precision}, {threads} threads", encoder(hidden))


main()

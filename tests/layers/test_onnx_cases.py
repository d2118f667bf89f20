"""The operator cases that come with the onnx package, through TensorRT's own OnnxParser.

What differs from the standard's expected output is listed here with its reason; anything else is a failure, and so is a
listed case that passes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from trtdsl.core.backend import get_backend
from trtdsl.interpreter.interpret import Interpreter
from trtdsl.layers.evaluation import storage

onnx = pytest.importorskip("onnx")

BACKEND = get_backend("tensorrt-rtx")
LEAST_PASSED = 972

NONPAD = "the parser ignores nonpad_kv_seqlen of Attention"
WINDOW = "the parser ignores the window attributes of Attention"
CEIL = "TensorRT counts ceil((M - F) / S) + 1 windows, also one that begins in the padding (NvInfer.h, PaddingMode)"
RANDOM = "random values: no two implementations draw the same"
LAYOUT = "the parser ignores layout=1 of GRU, LSTM and RNN for one of the outputs"
ZERO_POINT = "TensorRT quantizes symmetrically: the interpreter refuses a zero point that is not 0"
SATURATE = "the parser ignores saturate=0 of Cast and CastLike"
NOTHING = "the engine's softmax of a row that is masked whole is NaN"
UPPER = "the parser takes a Trilu without `upper`, whose default is 1, for the lower triangle"
DEVIATIONS = {
    "test_attention_4d_gqa_causal_nonpad_decode": NONPAD,
    "test_attention_4d_gqa_causal_nonpad_decode_fp16": NONPAD,
    "test_attention_4d_causal_nonpad_continued_prefill": NONPAD,
    "test_attention_4d_causal_nonpad_negative_offset_structural_empty": NONPAD,
    "test_attention_4d_causal_nonpad_batch_prefill": NONPAD,
    "test_attention_local_window": WINDOW,
    "test_attention_bidirectional_window": WINDOW,
    "test_attention_23_boolmask_fullymasked_row_nan_robustness": NOTHING,
    "test_averagepool_2d_ceil_last_window_starts_on_pad": CEIL,
    "test_maxpool_2d_ceil_output_size_reduce_by_one": CEIL,
    "test_bernoulli_double_expanded": RANDOM,
    "test_bernoulli_seed_expanded": RANDOM,
    "test_gru_batchwise": LAYOUT,
    "test_lstm_batchwise": LAYOUT,
    "test_simple_rnn_batchwise": LAYOUT,
    "test_loop11": "the parser takes the name of a loop body's own input for an input of the network",
    "test_nonmaxsuppression_two_classes": "TensorRT orders boxes by score, not by class (NvInfer.h, INMSLayer)",
    "test_quantizelinear": ZERO_POINT,
    "test_quantizelinear_axis": ZERO_POINT,
    "test_quantizelinear_int4": ZERO_POINT,
    "test_quantizelinear_blocked_asymmetric": ZERO_POINT,
    "test_spacetodepth_crd_mode_example": "the parser ignores mode=CRD of SpaceToDepth",
    **{
        f"test_{operator}_no_saturate_{source}_to_FLOAT8E4M3FN{expanded}": SATURATE
        for operator in ("cast", "castlike")
        for source in ("FLOAT", "FLOAT16")
        for expanded in (("", "_expanded") if operator == "castlike" else ("",))
    },
    **{
        f"test_triu{name}": UPPER
        for name in ("", "_neg", "_out_neg_out", "_pos", "_out_pos", "_square", "_square_neg", "_one_row")
    },
}


def as_torch(value):
    """A torch tensor of a case's array or TensorProto; float64 as float32, int4 and fp4 unpacked."""
    array = np.asarray(onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    name = array.dtype.name
    if name in ("bfloat16", "float8_e4m3fn"):
        return torch.from_numpy(array.astype(np.float32)).to(getattr(torch, name))
    if name in ("int4", "float4_e2m1fn"):
        array = array.astype(np.int8 if name == "int4" else np.float32)
    return torch.from_numpy(np.array(array, order="C", copy=True)).reshape(array.shape)


def evaluate(case):
    """The outputs by name, None for a model that the parser refuses."""
    with BACKEND.listen():
        network = BACKEND.create_network()
        if not BACKEND.trt.OnnxParser(network, BACKEND.logger).parse(case.model.SerializeToString()):
            return None
    inputs = dict(zip((item.name for item in case.model.graph.input), case.data_sets[0][0], strict=False))
    feeds = {}
    for index in range(network.num_inputs):
        handle = network.get_input(index)
        feeds[handle.name] = as_torch(inputs[handle.name]).to(storage(BACKEND.torch_dtype(handle.dtype)))
    return Interpreter(network)(feeds)


def differences(case):
    """What is wrong with the outputs; None for a model that the parser refuses, "" when all is right."""
    try:
        outputs = evaluate(case)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if outputs is None:
        return None
    for item, expected in zip(case.model.graph.output, case.data_sets[0][1], strict=True):
        value, want = outputs[item.name], as_torch(expected)
        if value.shape != want.shape:
            return f"{item.name} has shape {tuple(value.shape)}, not {tuple(want.shape)}"
        half = want.dtype in (torch.float16, torch.bfloat16)
        relative, absolute = max(case.rtol, 1e-2 if half else 0), 1e-2 if half else max(case.atol, 1e-6)
        if not torch.allclose(value.double(), want.double(), relative, absolute, equal_nan=True):
            return f"{item.name} differs"
    return ""


def collect():
    """What is wrong with each case, as JSON."""
    warnings.simplefilter("ignore")  # the cases divide by zero on purpose
    from onnx.backend.test.case.node import collect_testcases

    print(json.dumps({case.name: differences(case) for case in collect_testcases(None)}))


def test_operators():
    # In a process of its own: the package makes its cases when its modules are imported, once.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True, env=environment)
    found = json.loads(done.stdout.splitlines()[-1])
    parsed = {name: text for name, text in found.items() if text is not None}
    wrong = {name: text for name, text in parsed.items() if text and name not in DEVIATIONS}
    assert not wrong, wrong
    assert sum(not text for text in parsed.values()) >= LEAST_PASSED
    lucky = {name for name, text in parsed.items() if not text and name in DEVIATIONS}
    assert all(DEVIATIONS[name] == RANDOM for name in lucky), f"listed, but right: {lucky}"


if __name__ == "__main__":
    collect()

"""Modules of torch itself."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from .subject import BATCH, Subject


def torch() -> Iterator[Subject]:
    """Recurrent and attention layers, and modules that converters seldom have."""
    text = {"T": (2, 4, 6), **BATCH}
    yield Subject("LSTM", lambda: nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True), {"input": "N,T,6"}, text)
    yield Subject("LSTM projected", lambda: nn.LSTM(6, 8, proj_size=3), {"input": "T,N,6"}, text)
    yield Subject("GRU", lambda: nn.GRU(6, 8), {"input": "T,N,6"}, text)
    yield Subject("RNN", lambda: nn.RNN(6, 8), {"input": "T,N,6"}, text)
    yield Subject("LSTMCell", lambda: nn.LSTMCell(6, 8), {"input": "N,6"}, BATCH)
    yield Subject("GRUCell", lambda: nn.GRUCell(6, 8), {"input": "N,6"}, BATCH)

    def layer() -> nn.Module:
        return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    yield Subject("TransformerEncoder", lambda: nn.TransformerEncoder(layer(), 2), {"src": "N,T,16"}, text)
    both = {"tgt": "N,T,16", "memory": "N,5,16"}
    yield Subject(
        "TransformerDecoderLayer", lambda: nn.TransformerDecoderLayer(16, 2, 32, batch_first=True), both, text
    )
    inputs = {"src": "N,T,16", "tgt": "N,T,16"}
    yield Subject("Transformer", lambda: nn.Transformer(16, 2, 1, 1, 32, batch_first=True), inputs, text)
    heads = {"query": "N,T,16", "key": "N,5,16", "value": "N,5,16"}
    yield Subject("MultiheadAttention", lambda: nn.MultiheadAttention(16, 4, batch_first=True), heads, text)
    yield Subject("Bilinear", lambda: nn.Bilinear(3, 4, 5), {"input1": "N,3", "input2": "N,4"}, BATCH)
    yield Subject("LocalResponseNorm", lambda: nn.LocalResponseNorm(3), {"input": "N,5,4,4"}, BATCH)
    yield Subject("Unfold", lambda: nn.Unfold(3, padding=1), {"input": "N,2,6,6"}, BATCH)
    yield Subject("Fold", lambda: nn.Fold((6, 6), 3, padding=1), {"input": "N,18,36"}, BATCH)
    yield Subject("EmbeddingBag", lambda: nn.EmbeddingBag(10, 4), {"input": "N,5:int64:0:10"}, BATCH)
    yield Subject("CosineSimilarity", lambda: nn.CosineSimilarity(), {"x1": "N,4", "x2": "N,4"}, BATCH)
    yield Subject("ConvTranspose2d", lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), {"input": "N,3,7,9"}, BATCH)
    yield Subject("AdaptiveMaxPool2d", lambda: nn.AdaptiveMaxPool2d((3, None)), {"input": "N,3,7,9"}, BATCH)
    yield Subject("PixelShuffle", lambda: nn.PixelShuffle(2), {"input": "N,8,T,5"}, text)
    yield Subject("GroupNorm", lambda: nn.GroupNorm(2, 4), {"input": "N,4,T"}, text)

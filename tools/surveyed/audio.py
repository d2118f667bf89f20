"""Speech and sound: torchaudio's models and transforms."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from .subject import BATCH, Subject

ENCODER = {
    "extractor_mode": "group_norm", "extractor_conv_layer_config": [(8, 10, 5), (8, 3, 2)],
    "extractor_conv_bias": False,
    "encoder_embed_dim": 16, "encoder_projection_dropout": 0.0, "encoder_pos_conv_kernel": 8,
    "encoder_pos_conv_groups": 2, "encoder_num_layers": 2, "encoder_num_heads": 2, "encoder_attention_dropout": 0.0,
    "encoder_ff_interm_features": 32, "encoder_ff_interm_dropout": 0.0, "encoder_dropout": 0.0,
    "encoder_layer_norm_first": False, "encoder_layer_drop": 0.0, "aux_num_out": 5,
}  # fmt: skip


def torchaudio() -> Iterator[Subject]:
    """Recognizers, separators, synthesizers, and the transforms that come before them."""
    models = importlib.import_module("torchaudio.models")
    wave, frames = {"S": (400, 500, 640), **BATCH}, {"T": (6, 9, 12), **BATCH}
    made = lambda: models.wav2vec2_model(**ENCODER)  # noqa: E731
    yield Subject("wav2vec2", made, {"waveforms": "N,S"}, wave)
    large = {**ENCODER, "extractor_mode": "layer_norm", "encoder_layer_norm_first": True, "aux_num_out": None}
    yield Subject("HuBERT", lambda: models.wav2vec2_model(**large), {"waveforms": "N,S"}, wave)
    masked = {"waveforms": "N,400", "lengths": "N:int64:200:400"}
    yield Subject("wav2vec2 with lengths", made, masked, BATCH)
    wavlm = {key: value for key, value in ENCODER.items() if key != "encoder_attention_dropout"}
    made = lambda: models.wavlm_model(**wavlm, encoder_num_buckets=8, encoder_max_distance=16,  # noqa: E731
                                      encoder_attention_dropout=0.0)  # fmt: skip
    yield Subject("WavLM", made, {"waveforms": "N,S"}, wave)
    made = lambda: models.Conformer(16, 2, 32, 2, 7)  # noqa: E731
    yield Subject("Conformer", made, {"input": "N,T,16", "lengths": "N:int64:3:7"}, frames)
    yield Subject("DeepSpeech", lambda: models.DeepSpeech(12, 16, 5), {"x": "N,1,T,12"}, frames)
    made = lambda: models.Wav2Letter(5, "mfcc", 13)  # noqa: E731
    yield Subject("Wav2Letter", made, {"x": "N,13,L"}, {"L": (100, 120, 140), **BATCH})
    made = lambda: models.ConvTasNet(2, 16, 8, 3, 8, 16, 2, 1)  # noqa: E731
    yield Subject("ConvTasNet", made, {"input": "N,1,8*K"}, {"K": (20, 30, 40), **BATCH})
    made = lambda: models.WaveRNN([2, 4], 6, 8, n_res_block=1, n_rnn=8, n_fc=8, kernel_size=3, n_freq=5,  # noqa: E731
                                  n_hidden=8, n_output=8)  # fmt: skip
    yield Subject("WaveRNN", made, {"waveform": "N,1,48", "specgram": "N,1,5,8"}, BATCH)
    tacotron = importlib.import_module("torchaudio.models.tacotron2")
    made = lambda: tacotron._Encoder(8, 2, 5)  # noqa: E731
    yield Subject("Tacotron2 encoder", made, {"x": "2,8,T", "input_lengths": "2:int64:6:7"}, {"T": 6})
    yield Subject("Tacotron2 postnet", lambda: tacotron._Postnet(5, 8, 5, 3), {"x": "N,5,T"}, frames)
    made = lambda: models.Emformer(16, 2, 32, 2, 4, right_context_length=1)  # noqa: E731
    yield Subject("Emformer", made, {"input": "N,9,16", "lengths": "N:int64:5:9"}, BATCH)
    made = lambda: models.HDemucs(["a", "b"], audio_channels=1, channels=4)  # noqa: E731
    yield Subject("HDemucs", made, {"input": "1,1,44100"}, {})
    predictor = importlib.import_module("torchaudio.models.rnnt")
    made = lambda: predictor._Joiner(8, 5)  # noqa: E731
    joined = {
        "source_encodings": "N,T,8", "source_lengths": "N:int64:1:6", "target_encodings": "N,4,8",
        "target_lengths": "N:int64:1:4",
    }  # fmt: skip
    yield Subject("RNN-T joiner", made, joined, frames)
    yield from _transforms(wave)


def _transforms(wave: dict) -> Iterator[Subject]:
    transforms = importlib.import_module("torchaudio.transforms")
    given = {"waveform": "N,S"}
    yield Subject("Spectrogram", lambda: transforms.Spectrogram(64), given, wave)
    yield Subject("MelSpectrogram", lambda: transforms.MelSpectrogram(16000, 64, n_mels=8), given, wave)
    made = lambda: transforms.MFCC(16000, 5, melkwargs={"n_fft": 64, "n_mels": 8})  # noqa: E731
    yield Subject("MFCC", made, given, wave)
    yield Subject("LFCC", lambda: transforms.LFCC(16000, 8, n_lfcc=5, speckwargs={"n_fft": 64}), given, wave)
    yield Subject("AmplitudeToDB", lambda: transforms.AmplitudeToDB(), {"x": "N,5,7:float32:0:4"}, BATCH)
    yield Subject("Resample", lambda: transforms.Resample(16000, 8000), given, wave)
    yield Subject("ComputeDeltas", lambda: transforms.ComputeDeltas(), {"specgram": "N,5,9"}, BATCH)
    yield Subject("MuLawEncoding", lambda: transforms.MuLawEncoding(), {"x": "N,S:float32:-1:1"}, wave)
    yield Subject("MuLawDecoding", lambda: transforms.MuLawDecoding(), {"x_mu": "N,S:int64:0:256"}, wave)
    yield Subject("SpectralCentroid", lambda: transforms.SpectralCentroid(16000, 64), given, wave)
    yield Subject("Preemphasis", lambda: transforms.Preemphasis(), given, wave)
    yield Subject("Fade", lambda: transforms.Fade(10, 20), given, wave)
    yield Subject("Vol", lambda: transforms.Vol(2.0), given, wave)
    yield Subject(
        "MelScale", lambda: transforms.MelScale(8, 16000, n_stft=33), ["N,33,T:float32:0:1"], {"T": 6, **BATCH}
    )
    yield Subject("SlidingWindowCmn", lambda: transforms.SlidingWindowCmn(5), ["N,9,4"], BATCH)
    yield Subject("FFTConvolve", lambda: transforms.FFTConvolve(), ["N,40", "N,7"], BATCH)
    yield Subject("Deemphasis", lambda: transforms.Deemphasis(), ["N,40"], BATCH)

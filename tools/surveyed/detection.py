"""Detectors, segmenters and poses of ultralytics, from its own configuration files, at the smallest scale."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from .subject import BATCH, Subject, image

MODELS = {
    "DetectionModel": "yolov3-tiny yolov5n yolov6n yolov8n yolov8n-p2 yolov8n-ghost yolov9t yolov10n yolo11n yolo12n "
    "yolo26n",
    "SegmentationModel": "yolov8n-seg yolo11n-seg yolo26n-seg",
    "PoseModel": "yolov8n-pose yolo11n-pose yolo26n-pose",
    "OBBModel": "yolov8n-obb yolo11n-obb",
    "ClassificationModel": "yolov8n-cls yolo11n-cls",
}  # fmt: skip
SIDES: dict[str, Any] = {"H": (2, 3, 4), **BATCH}


def ultralytics() -> Iterator[Subject]:
    """The models with their heads, which decode boxes; one with dynamic sides; blocks."""
    tasks = importlib.import_module("ultralytics.nn.tasks")
    for kind, names in MODELS.items():
        for name in names.split():
            yield image(name, lambda k=kind, n=name: _quiet(getattr(tasks, k), n), 64)
    made = lambda: _quiet(tasks.DetectionModel, "yolov8n")  # noqa: E731
    yield Subject("yolov8n sides", made, {"x": "N,3,32*H,64"}, SIDES)
    made = lambda: _exported(_quiet(tasks.DetectionModel, "yolo11n"))  # noqa: E731
    yield image("yolo11n export", made, 64)
    yield image("rtdetr-l backbone", lambda: _quiet(tasks.RTDETRDetectionModel, "rtdetr-l").model[:10], 64)


def _quiet(kind: Any, name: str) -> Any:
    return kind(f"{name}.yaml", verbose=False)


def _exported(model: Any) -> Any:
    """As ultralytics sets its head before it exports."""
    head = model.model[-1]
    head.export, head.format = True, "engine"
    return model

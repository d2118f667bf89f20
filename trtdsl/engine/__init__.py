"""Engines: examined before TensorRT reads them, loaded, and run on arrays of any library."""

from .engine import Engine as Engine
from .engine import engine_of as engine_of
from .engine import load_engine as load_engine

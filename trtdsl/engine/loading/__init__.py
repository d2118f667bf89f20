"""An engine and its manifest, checked before TensorRT reads them."""

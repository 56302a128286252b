"""From and to other programs: hub-style folders, ONNX and TorchScript, and the files of bert-pytorch 0.0.1a4."""

"""The same client code against bert-pytorch 0.0.1a4 and against this library."""

"""Suite alexnet: the mini-application of measuring/literature.py's source of TensorFlow's input."""

"""What PyTorch's optimizers need."""

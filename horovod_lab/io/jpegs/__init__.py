"""JPEG files through tf.data: what the suite stream runs."""

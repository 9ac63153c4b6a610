"""JPEG files through tf.data: what do threads bring, and what does prefetching?"""

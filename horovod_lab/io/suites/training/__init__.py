"""ResNet50 in mode topo: what does its input cost the training?"""

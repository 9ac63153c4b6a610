"""The nine networks of Table 6.1 for ImageNet: those of Keras, and four that it does not have.

Each is a function of the images' height and width in pixels, with the published size as its
default, and returns a model of (batch, pixels, pixels, 3) to 1,000 probabilities.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
from keras import Input, Model, Sequential, applications, layers

CLASSES = 1000


def _convolution(x, filters: int, size: int, strides: int = 1, relu: bool = True):
    x = layers.Conv2D(filters, size, strides, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x) if relu else x


def _resnet(blocks: tuple[int, ...], pixels: int) -> Model:
    """ResNets of basic blocks: He et al., 2016, doi:10.1109/CVPR.2016.90, table 1."""
    image = Input((pixels, pixels, 3))
    x = layers.MaxPooling2D(3, 2, padding="same")(_convolution(image, 64, 7, 2))
    for stage, count in enumerate(blocks):
        for block in range(count):
            filters, strides = 64 << stage, 2 if stage and not block else 1
            shortcut = x if strides == 1 else _convolution(x, filters, 1, strides, relu=False)
            x = _convolution(x, filters, 3, strides)
            x = layers.ReLU()(layers.Add()([_convolution(x, filters, 3, relu=False), shortcut]))
    return Model(image, layers.Dense(CLASSES, "softmax")(layers.GlobalAveragePooling2D()(x)))


def resnet18(pixels: int = 224) -> Model:
    return _resnet((2, 2, 2, 2), pixels)


def resnet34(pixels: int = 224) -> Model:
    return _resnet((3, 4, 6, 3), pixels)


def alexnet(pixels: int = 227) -> Model:
    """Krizhevsky et al., 2012, doi:10.1145/3065386, on one device."""
    return Sequential([
        Input((pixels, pixels, 3)),
        layers.Conv2D(96, 11, 4, activation="relu"),
        layers.Lambda(tf.nn.local_response_normalization),
        layers.MaxPooling2D(3, 2),
        layers.Conv2D(256, 5, padding="same", groups=2, activation="relu"),
        layers.Lambda(tf.nn.local_response_normalization),
        layers.MaxPooling2D(3, 2),
        layers.Conv2D(384, 3, padding="same", activation="relu"),
        layers.Conv2D(384, 3, padding="same", groups=2, activation="relu"),
        layers.Conv2D(256, 3, padding="same", groups=2, activation="relu"),
        layers.MaxPooling2D(3, 2),
        layers.Flatten(),
        layers.Dense(4096, "relu"), layers.Dropout(0.5),
        layers.Dense(4096, "relu"), layers.Dropout(0.5),
        layers.Dense(CLASSES, "softmax"),
    ])


# Filters of the 1x1, 3x3 (reduced, full), 5x5 (reduced, full) and pooled paths of each module.
INCEPTION = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    ((192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
     (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128)),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)


def googlenet(pixels: int = 224) -> Model:
    """Szegedy et al., 2015, doi:10.1109/CVPR.2015.7298594, table 1, without the two auxiliary
    classifiers."""
    def convolution(x, filters: int, size: int, strides: int = 1):
        return layers.Conv2D(filters, size, strides, padding="same", activation="relu")(x)

    image = Input((pixels, pixels, 3))
    x = layers.MaxPooling2D(3, 2, padding="same")(convolution(image, 64, 7, 2))
    x = layers.Lambda(tf.nn.local_response_normalization)(x)
    x = convolution(convolution(x, 64, 1), 192, 3)
    x = layers.Lambda(tf.nn.local_response_normalization)(x)
    for stage in INCEPTION:
        x = layers.MaxPooling2D(3, 2, padding="same")(x)
        for direct, three_reduced, three, five_reduced, five, pooled in stage:
            x = layers.Concatenate()([
                convolution(x, direct, 1),
                convolution(convolution(x, three_reduced, 1), three, 3),
                convolution(convolution(x, five_reduced, 1), five, 5),
                convolution(layers.MaxPooling2D(3, 1, padding="same")(x), pooled, 1)])
    x = layers.Dropout(0.4)(layers.GlobalAveragePooling2D()(x))
    return Model(image, layers.Dense(CLASSES, "softmax")(x))


def _keras(name: str, published: int = 224) -> Callable[..., Model]:
    def build(pixels: int = published) -> Model:
        return getattr(applications, name)(weights=None, input_shape=(pixels, pixels, 3))
    return build


NETWORKS: dict[str, Callable[..., Model]] = {
    "ResNet18": resnet18, "ResNet34": resnet34, "ResNet50": _keras("ResNet50"),
    "ResNet101": _keras("ResNet101"), "ResNet152": _keras("ResNet152"), "AlexNet": alexnet,
    "GoogLeNet": googlenet, "Inception-v3": _keras("InceptionV3", 299), "VGG16": _keras("VGG16"),
}

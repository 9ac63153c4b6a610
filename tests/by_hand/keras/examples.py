"""Which of Keras' examples are run, and how little of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FOLDER = "examples/keras_io"  # of a checkout


@dataclass(frozen=True)
class Example:
    """`path`: below FOLDER. `is_random`: its steps draw, by dropout or noise, or its losses depend
    on which rows are together, by BatchNormalization or as it calculates them. `fits`: calls of
    fit() until it has trained enough. `constants`: lines that get another value, for short steps.
    """

    path: str
    kind: str
    is_random: bool
    fits: int = 1
    epochs: int = 3
    constants: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1].removesuffix(".py")


EXAMPLES = (
    Example("vision/mnist_convnet.py", "vision", True),
    Example("vision/autoencoder.py", "vision", False),
    Example("vision/knowledge_distillation.py", "vision", False, 2, 2),
    Example("vision/mlp_image_classification.py", "vision", True, 1, 2,
            {"image_size": "16", "num_blocks": "2", "embedding_dim": "64"}),
    Example("tensorflow/keras_recipes/antirectifier.py", "recipe", True),
    Example("tensorflow/keras_recipes/endpoint_layer_pattern.py", "recipe", False, 2),
    Example("tensorflow/generative/vae.py", "generative", True),
    Example("nlp/bidirectional_lstm_imdb.py", "text", False, 1, 2, {"maxlen": "40"}),
    Example("nlp/addition_rnn.py", "text", False, 3, 1, {"TRAINING_SIZE": "1000"}),
    Example("nlp/lstm_seq2seq.py", "text", False, 1, 2, {"latent_dim": "64"}),
    Example("structured_data/collaborative_filtering_movielens.py", "structured data", True),
)

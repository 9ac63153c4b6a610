"""Everything of horovod.keras, once; which Keras, TF_USE_LEGACY_KERAS says."""

import horovod.tensorflow as hvd
import keras_fit
import keras_optimizers
import keras_state
from common import report
from keras_common import LEGACY, first_rank

hvd.init(process_sets=[first_rank])
parts = {"optimizers": keras_optimizers.run(), "fit": keras_fit.run(), "state": keras_state.run()}
if not LEGACY:
    import keras_methods
    parts["methods"] = keras_methods.run()
report(**parts)
hvd.shutdown()

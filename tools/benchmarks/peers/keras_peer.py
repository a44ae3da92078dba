"""Keras on TensorFlow: model.fit over a tf.data pipeline, without XLA, which is slower here."""
import os

import peer

args = peer.arguments(__doc__)
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", KERAS_BACKEND="tensorflow")

import keras  # noqa: E402
import keras_models  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers as L  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(args.threads)
tf.config.threading.set_inter_op_parallelism_threads(args.threads)
keras.utils.set_random_seed(0)


def resnet(weights):
    """torchvision's ResNet-18, padded as there."""

    def conv(x, name, kernel, stride=1):
        value = weights[name + ".weight"].transpose(2, 3, 1, 0)
        if kernel > 1:
            x = L.ZeroPadding2D(kernel // 2)(x) if stride > 1 else x
        layer = L.Conv2D(value.shape[-1], kernel, stride, use_bias=False,
                         padding="same" if stride == 1 else "valid")
        x = layer(x)
        layer.set_weights([value])
        return x

    def norm(x):  # 1 and 0 in the file too; running statistics do not touch training
        return L.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)

    image = keras.Input((64, 64, 3))
    x = L.ReLU()(norm(conv(image, "conv1", 7, 2)))
    x = L.MaxPooling2D(3, 2)(L.ZeroPadding2D(1)(x))  # after a relu, zero is as good as -inf
    for stage in range(1, 5):
        for block in range(2):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = L.ReLU()(norm(conv(x, name + ".conv1", 3, stride)))
            y = norm(conv(y, name + ".conv2", 3))
            if stride > 1:
                x = norm(conv(x, name + ".downsample.0", 1, 2))
            x = L.ReLU()(L.Add()([x, y]))
    head = L.Dense(10)
    model = keras.Model(image, head(L.GlobalAveragePooling2D()(x)))
    head.set_weights([weights["fc.weight"].T, weights["fc.bias"]])
    return model


def tutorial(weights):
    model = (keras_models.mlp(hidden=512) if args.work == "mlp"
             else keras_models.cnn(width=32, hidden=512))
    counts = {}
    for layer in model.layers:
        kind = {L.Dense: "dense", L.Conv2D: "conv2d"}.get(type(layer))
        if kind is None:
            continue
        n = counts[kind] = counts.get(kind, -1) + 1
        name = f"{kind}_{n}" if n else kind
        kernel = weights[name + "/kernel"]
        layer.set_weights([kernel.transpose(2, 3, 1, 0) if kind == "conv2d" else kernel,
                           weights[name + "/bias"]])
    return model


class Say(keras.callbacks.Callback):
    """Every epoch, and the first step of all."""

    def __init__(self, samples):
        super().__init__()
        self.samples, self.first = samples, True

    def on_train_batch_end(self, batch, logs=None):
        if self.first:
            peer.say("first_step", loss=float(logs["loss"]))
            self.first = False

    def on_epoch_end(self, epoch, logs=None):
        peer.say("epoch", samples=self.samples,
                 metrics={name: float(value) for name, value in logs.items()})


def dataset(x, y, shuffle):
    data = tf.data.Dataset.from_tensor_slices((x, y))
    if shuffle:
        data = data.shuffle(len(x))
    data = data.batch(args.batch_size)
    return data.prefetch(2) if shuffle else data.cache().prefetch(2)


weights = peer.read_weights(args.model)
if args.work.startswith("resnet"):
    model = resnet(weights)
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
else:
    model = tutorial(weights)
    optimizer = keras.optimizers.Adam(1e-3)
validates = args.validation_data is not None
model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(
    from_logits=args.work.startswith("resnet")), metrics=["accuracy"] if validates else None,
    jit_compile=False)
x, y = peer.read_data(args.work, args.data, args.labels, "last")
validation = None
if validates:
    validation = dataset(*peer.read_data(args.work, args.validation_data, args.validation_labels,
                                         "last"), False)
model.fit(dataset(x, y, args.shuffle), epochs=args.epochs, verbose=0, validation_data=validation,
          callbacks=[Say(len(x))])

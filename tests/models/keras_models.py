"""The Keras models of tests/models/: the tutorial's, made small."""
import keras
from keras import layers as L


def mlp(hidden: int = 64):
    """The tutorial's MLP (784-512-10), narrower."""
    return keras.Sequential([keras.Input((784,)), L.Dense(hidden, activation="relu"),
                             L.Dropout(0.2), L.Dense(10, activation="softmax")], name="keras_mlp")


def cnn(width: int = 8, hidden: int = 32):
    """The tutorial's CNN (32, 64, 512), narrower."""
    layers = [keras.Input((32, 32, 3))]
    for channels in (width, 2 * width):
        layers += [L.Conv2D(channels, 3, padding="same", activation="relu"), L.BatchNormalization(),
                   L.Conv2D(channels, 3, activation="relu"), L.BatchNormalization(),
                   L.MaxPooling2D(2), L.Dropout(0.25)]
    layers += [L.Flatten(), L.Dense(hidden, activation="relu"), L.BatchNormalization(),
               L.Dropout(0.5), L.Dense(10, activation="softmax")]
    return keras.Sequential(layers, name="keras_cnn")


def two_inputs():
    """An image and a row of features, with strides, a residual branch and global pooling."""
    image, features = keras.Input((12, 12, 2), name="image"), keras.Input((5,), name="features")
    x = L.Conv2D(4, 3, strides=2, padding="same", use_bias=False)(image)
    x = L.LeakyReLU(0.2)(L.BatchNormalization()(x))
    y = L.SeparableConv2D(4, 3, padding="same", activation="relu")(x)
    x = L.GlobalAveragePooling2D()(L.Add()([x, y]))
    f = L.LayerNormalization()(L.Dense(6, activation="tanh")(features))
    z = L.Dropout(0.3)(L.Concatenate()([x, f]))
    return keras.Model([image, features], L.Dense(3, activation="softmax", name="species")(z),
                       name="keras_two_inputs")


MODELS = {"keras_mlp": mlp, "keras_cnn": cnn, "keras_two_inputs": two_inputs}


def make(name: str, seed: int = 0, **kwargs):
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    return MODELS[name](**kwargs)

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


def excited():
    """Layers of Xception and of squeeze-and-excitation: rescaling, uneven padding, separable and
    depthwise convolutions with a multiplier, pooling with strides and uneven edges."""
    image = keras.Input((17, 17, 3), name="image")
    x = L.ZeroPadding2D(((0, 1), (2, 0)))(L.Rescaling(0.5, offset=0.125)(image))
    x = L.Conv2D(6, 3, strides=2, use_bias=False)(x)
    x = L.ReLU(6.0)(L.BatchNormalization(momentum=0.9)(x))
    y = L.SeparableConv2D(8, 3, padding="same", depth_multiplier=2)(x)
    y = L.MaxPooling2D(3, 2, padding="same")(L.LayerNormalization(epsilon=1e-2)(y))
    x = L.Add()([y, L.Conv2D(8, 1, strides=2, padding="same")(x)])
    x = L.DepthwiseConv2D(3, padding="same", activation="elu")(x)
    g = L.Dense(3, activation="relu")(L.GlobalAveragePooling2D(keepdims=True)(x))
    x = L.Multiply()([x, L.Dense(8, activation="sigmoid")(g)])
    x = L.PReLU(shared_axes=[1, 2])(L.AveragePooling2D(3, 2, padding="same")(x))
    y = L.Concatenate()([L.Flatten()(x), L.GlobalMaxPooling2D()(x)])
    return keras.Model(image, L.Dense(4, activation="softmax")(y), name="keras_excited")


MODELS = {"keras_mlp": mlp, "keras_cnn": cnn, "keras_two_inputs": two_inputs,
          "keras_excited": excited}


def make(name: str, seed: int = 0, **kwargs):
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    return MODELS[name](**kwargs)

"""JAX on the CPU: one jitted training step whose state is donated; the models in plain jax.numpy."""
import os

import peer

args = peer.arguments(__doc__)
os.environ["JAX_PLATFORMS"] = "cpu"
if args.threads == 1:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import functools  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

KEY = jax.random.PRNGKey(0)
STATISTICS = ("moving_mean", "moving_variance", "running_mean", "running_var")
resnet = args.work.startswith("resnet")


class Pass:
    """One forward pass: parameters and statistics by name, new statistics, numbered dropouts."""

    def __init__(self, weights, statistics, step, training):
        self.w, self.old, self.new, self.training = weights, statistics, {}, training
        self.key, self.dropouts = jax.random.fold_in(KEY, step), 0

    def conv(self, x, name, stride=1, pad=0):
        return lax.conv_general_dilated(x, self.w[name], (stride, stride), [(pad, pad)] * 2,
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def norm(self, x, scale, bias, mean, variance, epsilon, momentum):
        m, v = self.old[mean], self.old[variance]
        if self.training:
            axes = tuple(range(x.ndim - 1))
            m = x.mean(axes)
            v = jnp.square(x).mean(axes) - jnp.square(m)
            self.new[mean] = momentum * self.old[mean] + (1 - momentum) * m
            self.new[variance] = momentum * self.old[variance] + (1 - momentum) * v
        return (x - m) * (lax.rsqrt(v + epsilon) * self.w[scale]) + self.w[bias]

    def dropout(self, x, rate):
        if not self.training:
            return x
        self.dropouts += 1
        keep = jax.random.bernoulli(jax.random.fold_in(self.key, self.dropouts), 1 - rate, x.shape)
        return jnp.where(keep, x / (1 - rate), 0)


def pool(x, window, stride, pad=0):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, window, window, 1), (1, stride, stride, 1),
                             [(0, 0), (pad, pad), (pad, pad), (0, 0)])


def mlp(p, x):
    x = jax.nn.relu(x @ p.w["dense/kernel"] + p.w["dense/bias"])
    return p.dropout(x, 0.2) @ p.w["dense_1/kernel"] + p.w["dense_1/bias"]


def cnn(p, x):

    def norm(x, n):
        name = f"batch_normalization_{n}" if n else "batch_normalization"
        return p.norm(x, *(f"{name}/{part}" for part in ("gamma", "beta", *STATISTICS[:2])),
                      1e-3, 0.99)

    for n in range(4):
        name = f"conv2d_{n}" if n else "conv2d"
        x = jax.nn.relu(p.conv(x, name + "/kernel", pad=1 - n % 2) + p.w[name + "/bias"])
        x = norm(x, n)
        if n % 2:
            x = p.dropout(pool(x, 2, 2), 0.25)
    x = jax.nn.relu(x.reshape(len(x), -1) @ p.w["dense/kernel"] + p.w["dense/bias"])
    return p.dropout(norm(x, 4), 0.5) @ p.w["dense_1/kernel"] + p.w["dense_1/bias"]


def resnet18(p, x):

    def norm(x, name):
        return p.norm(x, *(f"{name}.{part}" for part in ("weight", "bias", *STATISTICS[2:])),
                      1e-5, 0.9)

    x = pool(jax.nn.relu(norm(p.conv(x, "conv1.weight", 2, 3), "bn1")), 3, 2, 1)
    for stage in range(1, 5):
        for block in range(2):
            at, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = jax.nn.relu(norm(p.conv(x, at + ".conv1.weight", stride, 1), at + ".bn1"))
            y = norm(p.conv(y, at + ".conv2.weight", 1, 1), at + ".bn2")
            if stride > 1:
                x = norm(p.conv(x, at + ".downsample.0.weight", 2), at + ".downsample.1")
            x = jax.nn.relu(x + y)
    return x.mean((1, 2)) @ p.w["fc.weight"].T + p.w["fc.bias"]


network = {"mlp": mlp, "cnn": cnn}.get(args.work, resnet18)


def adam(w, g, m, i):
    """Keras' Adam: epsilon outside the square root, the correction in the rate."""
    rate = 1e-3 * jnp.sqrt(1 - 0.999**(i + 1.0)) / (1 - 0.9**(i + 1.0))
    first = 0.9 * m[0] + 0.1 * g
    second = 0.999 * m[1] + 0.001 * g * g
    return w - rate * first / (jnp.sqrt(second) + 1e-7), (first, second)


def momentum(w, g, m, i):
    velocity = 0.9 * m[0] + g
    return w - 0.01 * velocity, (velocity,)


optimizer = momentum if resnet else adam


@functools.partial(jax.jit, donate_argnums=(0, 1, 2))
def train(weights, statistics, moments, x, y, i):

    def loss_of(w):
        p = Pass(w, statistics, i, True)
        scores = jax.nn.log_softmax(network(p, x))
        return -jnp.take_along_axis(scores, y[:, None], 1).mean(), p.new

    (loss, new), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights)
    updated = {n: optimizer(weights[n], gradients[n], moments[n], i) for n in weights}
    return ({n: u[0] for n, u in updated.items()}, new, {n: u[1] for n, u in updated.items()},
            loss)


@jax.jit
def classes(weights, statistics, x):
    return network(Pass(weights, statistics, 0, False), x).argmax(1)


def start():
    weights, statistics = {}, {}
    for name, value in peer.read_weights(args.model).items():
        value = value.transpose(2, 3, 1, 0) if value.ndim == 4 else value
        (statistics if name.endswith(STATISTICS) else weights)[name] = jnp.array(value)
    moments = {n: tuple(jnp.zeros_like(w) for _ in range(1 if resnet else 2))
               for n, w in weights.items()}
    return weights, statistics, moments


state, done = start(), 0


def step(batch):
    global state, done
    *state, loss = train(*state, *batch, done)
    done += 1
    return loss


peer.loop(args, "last", lambda x, y: (jnp.asarray(x), jnp.asarray(y)), step,
          lambda x: jax.device_get(classes(state[0], state[1], x)))

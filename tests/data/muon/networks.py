#!/usr/bin/env python3
"""Writes networks.safetensors: an MLP and a transformer, and 20 steps of Muon, with AdamW for the rest, on each.

Everything is NumPy in float64. Gradients come from the small reverse mode below, which is compared with finite
differences. Weights are (in, out), as in cubist; the update is that of torch.optim.Muon on their transposes.
"""
import json
import pathlib
import struct

import numpy as np

random = np.random.default_rng(7)
steps = 20
muon = {"rate": 0.02, "momentum": 0.95, "decay": 0.1}
adamw = {"rate": 3e-3, "beta1": 0.9, "beta2": 0.999, "decay": 0.01, "epsilon": 1e-8}
coefficients, epsilon = (3.4445, -4.7750, 2.0315), 1e-7


class Value:
    """An array, and how its gradient goes to the values that it was computed from."""

    def __init__(self, data, sources=()):
        self.data, self.sources, self.grad = np.asarray(data), sources, 0

    def __add__(self, other):
        return Value(self.data + other.data, ((self, lambda g: g), (other, lambda g: g)))

    def __mul__(self, other):
        return Value(self.data * other.data, ((self, lambda g: g * other.data), (other, lambda g: g * self.data)))

    def __matmul__(self, other):
        flip = lambda m: np.swapaxes(m, -1, -2)
        return Value(self.data @ other.data,
                     ((self, lambda g: g @ flip(other.data)), (other, lambda g: flip(self.data) @ g)))

    def times(self, number):
        return Value(self.data * number, ((self, lambda g: g * number),))

    def map(self, f, slope):
        """f(x), whose derivative is slope(x)."""
        return Value(f(self.data), ((self, lambda g: g * slope(self.data)),))

    def mean(self):
        n = self.data.shape[-1]
        return Value(self.data.mean(-1, keepdims=True), ((self, lambda g: np.repeat(g, n, -1) / n),))

    def reshape(self, *shape):
        return Value(self.data.reshape(shape), ((self, lambda g: g.reshape(self.data.shape)),))

    def transpose(self, *axes):
        return Value(self.data.transpose(axes), ((self, lambda g: g.transpose(np.argsort(axes))),))

    def rows(self, indices):
        def back(g):
            all_rows = np.zeros_like(self.data)
            np.add.at(all_rows, indices, g)
            return all_rows
        return Value(self.data[indices], ((self, back),))

    def backward(self):
        order, seen = [], set()

        def visit(value):
            if id(value) not in seen:
                seen.add(id(value))
                for source, _ in value.sources:
                    visit(source)
                order.append(value)
        visit(self)
        self.grad = np.ones_like(self.data)
        for value in reversed(order):
            for source, back in value.sources:
                g = back(value.grad)
                extra = g.ndim - source.data.ndim
                g = g.sum(tuple(range(extra))) if extra else g
                kept = tuple(i for i, n in enumerate(source.data.shape) if n == 1 and g.shape[i] > 1)
                source.grad = source.grad + (g.sum(kept, keepdims=True) if kept else g)


def gelu(x):
    """GELU by tanh."""
    root = np.sqrt(2 / np.pi)
    inner = lambda z: root * (z + 0.044715 * z**3)
    return x.map(lambda z: z * (1 + np.tanh(inner(z))) / 2,
                 lambda z: (1 + np.tanh(inner(z))) / 2
                 + z / 2 * (1 - np.tanh(inner(z))**2) * root * (1 + 3 * 0.044715 * z**2))


def softmax(x):
    e = np.exp(x.data - x.data.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return Value(p, ((x, lambda g: p * (g - (g * p).sum(-1, keepdims=True))),))


def cross_entropy(logits, labels):
    """The mean over rows."""
    top = logits.data.max(-1, keepdims=True)
    log_p = logits.data - top - np.log(np.exp(logits.data - top).sum(-1, keepdims=True))
    rows = np.arange(len(labels))

    def back(g):
        d = np.exp(log_p)
        d[rows, labels] -= 1
        return g * d / len(labels)
    return Value(-log_p[rows, labels].mean(), ((logits, back),))


def norm(x, w, prefix):
    centred = x + x.mean().times(-1)
    variance = (centred * centred).mean()
    scale = variance.map(lambda v: 1 / np.sqrt(v + 1e-5), lambda v: -0.5 * (v + 1e-5)**-1.5)
    return centred * scale * w[prefix + "weight"] + w[prefix + "bias"]


def linear(x, w, prefix):
    return x @ w[prefix + "weight"] + w[prefix + "bias"]


sizes = [1, 24, 24, 9, 30]  # matrices of one row, square, tall and wide
mlp_rows = 13


def mlp_loss(w, _):
    x = Value(mlp_x)
    for i in range(len(sizes) - 1):
        x = linear(x, w, f"layers.{i}.")
        x = gelu(x) if i + 2 < len(sizes) else x
    return cross_entropy(x, mlp_labels)


vocabulary, positions, width, layers, heads, inner, sequences, length = 13, 8, 12, 2, 3, 20, 3, 5


def transformer_loss(w, ids):
    h = w["embedding.weight"].rows(ids.reshape(-1)) + w["positions.weight"].rows(np.tile(np.arange(length), sequences))
    mask = Value(np.where(np.tri(length) > 0, 0, -1e30))
    for i in range(layers):
        p = f"layers.{i}."
        x = norm(h, w, p + "attention_norm.")

        def of_heads(name):
            y = linear(x, w, p + "attention." + name + ".")
            return y.reshape(sequences, length, heads, width // heads).transpose(0, 2, 1, 3)
        q, k, v = of_heads("query"), of_heads("key"), of_heads("value")
        scores = (q @ k.transpose(0, 1, 3, 2)).times((width // heads)**-0.5) + mask
        o = (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(sequences * length, width)
        h = h + linear(o, w, p + "attention.output.")
        x = norm(h, w, p + "feed_forward_norm.")
        h = h + linear(gelu(linear(x, w, p + "feed_forward.up.")), w, p + "feed_forward.down.")
    logits = norm(h, w, "norm.") @ w["embedding.weight"].transpose(1, 0)
    used = np.arange(sequences * length).reshape(sequences, length)[:, :-1].reshape(-1)
    return cross_entropy(logits.rows(used), ids[:, 1:].reshape(-1))


def orthogonal(u):
    x = u / max(np.linalg.norm(u), epsilon)
    flip = x.shape[0] > x.shape[1]
    x = x.T if flip else x
    for _ in range(5):
        a = x @ x.T
        x = coefficients[0] * x + (coefficients[1] * a + coefficients[2] * a @ a) @ x
    return x.T if flip else x


def is_muon(name, is_transformer):
    return name.endswith("weight") and "norm" not in name and name not in ("embedding.weight", "positions.weight")


def train(name, weights, loss_of, batches, decays):
    """@param decays whether AdamW decays a parameter of this name"""
    w = {k: v.copy() for k, v in weights.items()}
    m = {k: np.zeros_like(v) for k, v in w.items()}
    square = {k: np.zeros_like(v) for k, v in w.items()}
    losses = []
    for step in range(1, steps + 1):
        values = {k: Value(v) for k, v in w.items()}
        loss = loss_of(values, batches[step - 1])
        loss.backward()
        losses.append(float(loss.data))
        if step == 1:
            check_gradients(w, values, loss_of, batches[0])
        for k, value in values.items():
            g = value.grad
            if is_muon(k, name):
                mu = muon["momentum"]
                m[k] = mu * m[k] + (1 - mu) * g
                u = (1 - mu) * g + mu * m[k]
                n_in, n_out = u.shape
                scale = np.sqrt(max(1, n_out / n_in))
                w[k] = w[k] * (1 - muon["rate"] * muon["decay"]) - muon["rate"] * scale * orthogonal(u)
                continue
            m[k] = adamw["beta1"] * m[k] + (1 - adamw["beta1"]) * g
            square[k] = adamw["beta2"] * square[k] + (1 - adamw["beta2"]) * g * g
            mean, root = m[k] / (1 - adamw["beta1"]**step), np.sqrt(square[k] / (1 - adamw["beta2"]**step))
            decay = adamw["decay"] if decays(k) else 0
            w[k] = w[k] * (1 - adamw["rate"] * decay) - adamw["rate"] * mean / (root + adamw["epsilon"])
    tensors = {f"{name}.{k}": v for k, v in weights.items()}
    tensors.update({f"{name}.final.{k}": v for k, v in w.items()})
    tensors[f"{name}.losses"] = np.array([losses])
    print(name, losses[0], losses[-1])
    return tensors


def check_gradients(w, values, loss_of, batch):
    for k in w:
        at = tuple(random.integers(n) for n in w[k].shape)
        around = []
        for sign in (1, -1):
            moved = {n: Value(v.copy()) for n, v in w.items()}
            moved[k].data[at] += sign * 1e-5
            around.append(float(loss_of(moved, batch).data))
        difference = (around[0] - around[1]) / 2e-5
        assert abs(difference - values[k].grad[at]) < 1e-8, (k, difference, values[k].grad[at])


def save(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        kind = "I64" if tensor.dtype == np.int64 else "F64"
        raw = np.ascontiguousarray(tensor).tobytes()
        header[name] = {"dtype": kind, "shape": tensor.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


normal = lambda *shape: 0.3 * random.standard_normal(shape)
mlp_x = normal(mlp_rows, sizes[0])
mlp_labels = random.integers(sizes[-1], size=mlp_rows)
mlp = {}
for i, (n_in, n_out) in enumerate(zip(sizes, sizes[1:])):
    mlp[f"layers.{i}.weight"], mlp[f"layers.{i}.bias"] = normal(n_in, n_out), normal(1, n_out)
ids = random.integers(vocabulary, size=(steps, sequences, length))
transformer = {"embedding.weight": normal(vocabulary, width), "positions.weight": normal(positions, width)}
norms = ["norm."]
for i in range(layers):
    norms += [f"layers.{i}.attention_norm.", f"layers.{i}.feed_forward_norm."]
    for part, n_in, n_out in (("attention.query", width, width), ("attention.key", width, width),
                              ("attention.value", width, width), ("attention.output", width, width),
                              ("feed_forward.up", width, inner), ("feed_forward.down", inner, width)):
        transformer[f"layers.{i}.{part}.weight"] = normal(n_in, n_out)
        transformer[f"layers.{i}.{part}.bias"] = normal(1, n_out)
for prefix in norms:
    transformer[prefix + "weight"], transformer[prefix + "bias"] = 1 + normal(1, width), normal(1, width)

made = train("mlp", mlp, mlp_loss, [None] * steps, lambda name: True)
made.update(train("transformer", transformer, transformer_loss, ids, lambda name: name.endswith(("embedding.weight", "positions.weight"))))
made.update({"mlp.x": mlp_x, "mlp.labels": mlp_labels, "transformer.ids": ids.reshape(steps, -1)})
save(pathlib.Path(__file__).parent / "networks.safetensors", made)

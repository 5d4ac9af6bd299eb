# SPDX-License-Identifier: BSD-3-Clause
# Writes mlp.safetensors: a network of three layers with LoRA, in plain Python from the formulas.
#
#   Z_i = X_i W_i + b_i + s (X_i A_i) B_i    X_{i+1} = gelu(Z_i), but not after the last layer
#   loss = the mean of (Y - T)^2 over all elements
#
# s = alpha / r = 2. W and b are frozen; 20 steps of AdamW (rate 1e-2, decay 0.01) train A and B.
import json
import math
import random
import struct

random.seed(70)
SIZES, ROWS, R, S, STEPS = [6, 10, 9, 4], 13, 3, 2.0, 20


def normal(m, n, deviation):
    return [[random.gauss(0, deviation) for _ in range(n)] for _ in range(m)]


def mul(a, b):
    columns = list(zip(*b))
    return [[math.fsum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def t(a):
    return [list(row) for row in zip(*a)]


def each(f, *matrices):
    return [[f(*values) for values in zip(*rows)] for rows in zip(*matrices)]


def gelu(z):
    return z * 0.5 * (1 + math.erf(z / math.sqrt(2)))


def slope(z):
    return 0.5 * (1 + math.erf(z / math.sqrt(2))) + z * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


layers = range(len(SIZES) - 1)
w = [normal(SIZES[i], SIZES[i + 1], 0.5) for i in layers]
b = [normal(1, SIZES[i + 1], 0.2) for i in layers]
a_of = [normal(SIZES[i], R, 0.4) for i in layers]
b_of = [normal(R, SIZES[i + 1], 0.3) for i in layers]
x, target = normal(ROWS, SIZES[0], 1), normal(ROWS, SIZES[-1], 1)


def forward():
    inputs, sums = [x], []
    for i in layers:
        thin = mul(mul(inputs[i], a_of[i]), b_of[i])
        z = each(lambda p, q: p + S * q, mul(inputs[i], w[i]), thin)
        z = [[v + c for v, c in zip(row, b[i][0])] for row in z]
        sums.append(z)
        inputs.append(each(gelu, z) if i + 1 < len(layers) else z)
    return inputs, sums


def gradients():
    inputs, sums = forward()
    y, count = inputs[-1], ROWS * SIZES[-1]
    loss = math.fsum((p - q) ** 2 for r, s in zip(y, target) for p, q in zip(r, s)) / count
    d = each(lambda p, q: 2 * (p - q) / count, y, target)
    of_a, of_b = [None] * len(w), [None] * len(w)
    for i in reversed(layers):
        if i + 1 < len(layers):
            d = each(lambda g, z: g * slope(z), d, sums[i])
        of_b[i] = each(lambda v: S * v, mul(t(mul(inputs[i], a_of[i])), d))
        thin = each(lambda v: S * v, mul(d, t(b_of[i])))
        of_a[i] = mul(t(inputs[i]), thin)
        d = each(lambda p, q: p + q, mul(d, t(w[i])), mul(thin, t(a_of[i])))
    return loss, y, of_a, of_b


def named(prefix, a, b):
    return {f"{prefix}layers.{i}.lora_{k}": list(m[i]) for i in layers for k, m in (("a", a), ("b", b))}


tensors = {"x": x, "target": target}
tensors |= {f"layers.{i}.weight": w[i] for i in layers} | {f"layers.{i}.bias": b[i] for i in layers}
tensors |= named("", a_of, b_of)
loss, y, of_a, of_b = gradients()
tensors |= {"loss": [[loss]], "y": y} | named("grad.", of_a, of_b)
scaled = [each(lambda v: S * v, mul(a_of[i], b_of[i])) for i in layers]
tensors |= {f"merged.layers.{i}.weight": each(lambda p, q: p + q, w[i], scaled[i]) for i in layers}

RATE, DECAY, BETA1, BETA2, EPSILON = 1e-2, 0.01, 0.9, 0.999, 1e-8
values = a_of + b_of
moments = [(each(lambda _: 0.0, v), each(lambda _: 0.0, v)) for v in values]
losses = []
for step in range(1, STEPS + 1):
    loss, _, of_a, of_b = gradients()
    losses.append(loss)
    for k, g in enumerate(of_a + of_b):
        m = each(lambda p, q: BETA1 * p + (1 - BETA1) * q, moments[k][0], g)
        v = each(lambda p, q: BETA2 * p + (1 - BETA2) * q * q, moments[k][1], g)
        moments[k] = (m, v)
        values[k][:] = each(
            lambda p, p1, p2: p * (1 - RATE * DECAY)
            - RATE * (p1 / (1 - BETA1**step)) / (math.sqrt(p2 / (1 - BETA2**step)) + EPSILON),
            values[k], m, v)
tensors |= {"train.loss": [losses]} | named("final.", a_of, b_of)

header, data = {}, b""
for name, m in tensors.items():
    part = struct.pack(f"<{len(m) * len(m[0])}d", *(v for row in m for v in row))
    offsets = [len(data), len(data) + len(part)]
    header[name] = {"dtype": "F64", "shape": [len(m), len(m[0])], "data_offsets": offsets}
    data += part
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
with open("mlp.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)

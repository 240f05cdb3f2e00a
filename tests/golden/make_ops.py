#!/usr/bin/env python3
"""Writes ops/ beside this file: single operations in float64, each with the cases where a plausible other form shows.

usage: make_ops.py              needs numpy and autograd from PyPI

Forward passes are the definitions; gradients come from automatic differentiation (autograd). Inputs are exact in float32 and stored so, results
in float64, as tensors named <case>.<tensor>; ops.json holds each case's operation and parameters, and the table of learning rates.
"""
import json
import pathlib
import struct

import autograd.numpy as np
import numpy
from autograd import elementwise_grad, vector_jacobian_product

FOLDER = pathlib.Path(__file__).with_name("ops")
EPS = 1e-12  # of LayerNorm
RATE, BETA1, BETA2, EPSILON, DECAY = 0.01, 0.9, 0.999, 1e-6, 0.01


class Cases:
    def __init__(self):
        self.cases, self.tensors = [], {}

    def add(self, name, op, params, **tensors):
        self.cases.append({"name": name, "op": op, "params": params})
        for tensor, values in tensors.items():
            self.tensors[f"{name}.{tensor}"] = numpy.ascontiguousarray(values)

    def write(self, learning_rate):
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / "ops.json").write_text(json.dumps({"cases": self.cases, "learning_rate": learning_rate}, indent=1) + "\n")
        header, data = {}, b""
        for name, values in self.tensors.items():
            raw = values.astype(values.dtype.newbyteorder("<")).tobytes()
            kind = {"float64": "F64", "float32": "F32", "int32": "I32"}[values.dtype.name]
            header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
        text = json.dumps(header).encode()
        (FOLDER / "ops.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        print(f"wrote {FOLDER}: {len(self.cases)} cases, {len(data)} bytes")


def exact(values):
    """Rounded to float32, as float64."""
    return numpy.asarray(values, numpy.float32).astype(numpy.float64)


def as_f32(values):
    result = numpy.asarray(values).astype(numpy.float32)
    assert numpy.array_equal(result.astype(numpy.float64), values)
    return result


def layer_norms(cases, rng):
    for rows, hidden in ((6, 48), (1, 40)):
        x = exact(rng.normal(0.0, 1.0, (rows, hidden)))
        note = ""
        if rows > 1:
            x[1] = exact(100.0 + 0.01 * x[1])
            x[2] = exact(1e-6 * x[2])
            x[3] = exact(3e-7 * x[3] + 1e-6)
            note = "row 1 has mean 100 and spread 0.01; the variances of rows 2 and 3 are as large as eps and a tenth of it"
        gamma, beta, dy = (exact(rng.uniform(low, low + 2.0, shape)) for low, shape in ((0.0, hidden), (-1.0, hidden), (-1.0, (rows, hidden))))

        def forward(x, gamma, beta):
            centred = x - np.mean(x, axis=-1, keepdims=True)
            return centred / np.sqrt(np.mean(centred ** 2, axis=-1, keepdims=True) + EPS) * gamma + beta

        gradients = [vector_jacobian_product(forward, i)(x, gamma, beta, dy) for i in range(3)]
        cases.add(f"layer_norm_{hidden}", "layer_norm", {"eps": EPS, "rows": rows, "hidden": hidden, "note": note},
                  x=as_f32(x), gamma=as_f32(gamma), beta=as_f32(beta), dy=as_f32(dy), y=forward(x, gamma, beta), mean=x.mean(-1),
                  rstd=1.0 / numpy.sqrt(x.var(-1) + EPS), dx=gradients[0], dgamma=gradients[1], dbeta=gradients[2])


def gelu(cases, rng):
    def forward(x):
        return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x ** 3)))

    grid = numpy.concatenate([numpy.arange(-12.0, 12.01, 0.125), [-1e4, -100.0, -1e-3, -1e-7, -1e-20, 0.0, 1e-20, 1e-7, 1e-3, 100.0, 1e4],
                              rng.normal(0.0, 2.0, 64)])
    x, dy = exact(grid), exact(rng.uniform(-1.0, 1.0, len(grid)))
    with numpy.errstate(over="ignore"):  # autograd's 1 / cosh^2 is 0 there, as it should be
        slope = elementwise_grad(forward)(x)
    cases.add("gelu_tanh", "gelu_tanh", {"formula": "0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))"}, x=as_f32(x), dy=as_f32(dy),
              y=forward(x), slope=slope, dx=dy * slope)


def attention(cases, rng):
    """Softmax of scaled products, each sequence and head by itself; lse is the logarithm of the softmax's denominator."""
    for head_dim, lengths in ((32, [1, 5, 17, 33]), (64, [2, 16, 9])):
        heads, tokens = 2, sum(lengths)
        starts = numpy.concatenate([[0], numpy.cumsum(lengths)])
        q, k, v, do = (exact(rng.uniform(-spread, spread, (tokens, heads, head_dim))) for spread in (1.5, 1.5, 1.0, 1.0))
        scale = 1.0 / numpy.sqrt(head_dim)

        def scores(q, k, begin, end):
            return np.einsum("ihd,jhd->hij", q[begin:end], k[begin:end]) * scale

        def forward(q, k, v):
            outputs = []
            for begin, end in zip(starts[:-1], starts[1:]):
                s = scores(q, k, begin, end)
                p = np.exp(s - np.max(s, axis=-1, keepdims=True))
                outputs.append(np.einsum("hij,jhd->ihd", p / np.sum(p, axis=-1, keepdims=True), v[begin:end]))
            return np.concatenate(outputs)

        def log_sum(begin, end):
            s = scores(q, k, begin, end)
            top = s.max(-1)
            return (top + numpy.log(numpy.exp(s - top[..., None]).sum(-1))).T

        gradients = [vector_jacobian_product(forward, i)(q, k, v, do) for i in range(3)]
        cases.add(f"attention_d{head_dim}_short", "attention_varlen",
                  {"scale": scale, "heads": heads, "head_dim": head_dim, "lengths": lengths, "layout": "(tokens, heads, head_dim)"},
                  q=as_f32(q), k=as_f32(k), v=as_f32(v), do=as_f32(do), cu_seqlens=starts.astype(numpy.int32), o=forward(q, k, v),
                  lse=numpy.concatenate([log_sum(b, e) for b, e in zip(starts[:-1], starts[1:])]),
                  dq=gradients[0], dk=gradients[1], dv=gradients[2])


def cross_entropy(cases, rng):
    def nll(logits, labels, classes):
        inside = logits[:, :classes]
        top = np.max(inside, axis=-1, keepdims=True)
        return np.log(np.sum(np.exp(inside - top), axis=-1)) + top[:, 0] - inside[numpy.arange(len(labels)), labels]

    for name, classes, columns, denominator in (("cross_entropy_padded", 50, 64, 7), ("cross_entropy_nsp", 2, 2, 5)):
        labels = rng.integers(0, classes, 7 if classes > 2 else 4).astype(numpy.int32)
        logits = exact(rng.normal(0.0, 2.0, (len(labels), columns)))
        note = ""
        if columns > classes:
            logits[:, classes:] = exact(rng.uniform(1e3, 1e4, (len(labels), columns - classes)))
            logits[1, labels[1]] = 40.0
            logits[2, :classes], labels[2] = 0.75, 0
            logits[3, labels[3]] = -150.0
            logits[4, labels[4]] = logits[4, :classes].max() + 1.0
            note = "columns past the classes hold rubbish; row 1 is sure, row 2 all alike with the label first, row 3 very wrong, row 4 right"
        scaled = vector_jacobian_product(lambda x: nll(x, labels, classes), 0)(logits, numpy.ones(len(labels))) / denominator
        cases.add(name, "softmax_cross_entropy", {"vocab": classes, "columns": columns, "denominator": denominator, "note": note},
                  logits=as_f32(logits), labels=labels, nll=nll(logits, labels, classes), dlogits=scaled,
                  correct=(logits[:, :classes].argmax(-1) == labels).astype(numpy.int32))


def embeddings(cases, rng):
    vocab, positions, types, hidden, lengths = 50, 16, 2, 24, [5, 16, 1, 9]
    word, position, segment = (exact(rng.normal(0.0, 1.0, (rows, hidden))) for rows in (vocab, positions, types))
    ids = rng.integers(0, vocab, sum(lengths)).astype(numpy.int32)
    ids[::4] = 7
    places = numpy.concatenate([numpy.arange(n) for n in lengths]).astype(numpy.int32)
    kinds = (places > 4).astype(numpy.int32)
    dy = exact(rng.uniform(-1.0, 1.0, (len(ids), hidden)))

    def forward(word, position, segment):
        return word[ids] + position[places] + segment[kinds]

    gradients = [vector_jacobian_product(forward, i)(word, position, segment, dy) for i in range(3)]
    cases.add("embeddings", "embeddings_sum", {"vocab": vocab, "max_position": positions, "types": types, "hidden": hidden,
                                               "lengths": lengths, "note": "before LayerNorm; id 7 repeats, others are absent"},
              ids=ids, positions=places, types=kinds, word=as_f32(word), position=as_f32(position), type=as_f32(segment), dy=as_f32(dy),
              y=forward(word, position, segment), dword=gradients[0], dposition=gradients[1], dtype=gradients[2])


def lamb_cases(rng):
    """Names, and what differs from a first step with usual settings."""
    n = 40
    w, g = exact(rng.normal(0.0, 0.05, n)), exact(rng.normal(0.0, 1.0, n))
    m, v = exact(rng.normal(0.0, 0.1, n)), exact(rng.uniform(0.0, 0.02, n))
    zero = numpy.zeros(n)
    with_gaps = exact(numpy.where(numpy.arange(n) % 3 == 0, 0.0, g))
    usual = {"w": w, "m": zero, "v": zero, "g": g}
    yield "first_step", usual, {}
    yield "step_5_with_state", usual | {"m": m, "v": v}, {"step": 5}
    yield "step_10000_with_state", usual | {"m": m, "v": v}, {"step": 10000}
    yield "excluded", usual | {"m": m, "v": v}, {"step": 3, "excluded": True}
    yield "zero_weights", usual | {"w": zero}, {}
    yield "zero_update_no_decay", usual | {"g": zero}, {"weight_decay": 0.0}
    yield "zero_gradient_with_decay", usual | {"g": zero}, {}  # u = decay w: a ratio of 100
    yield "zero_everything", usual | {"w": zero, "g": zero}, {}
    yield "epsilon_small", usual, {"epsilon": 1e-12}
    yield "epsilon_dominates", usual | {"g": exact(1e-9 * g)}, {}
    yield "epsilon_zero_and_gaps", usual | {"g": with_gaps}, {"epsilon": 0.0}
    yield "large_gradient", usual | {"m": m, "v": v, "g": exact(1e4 * g)}, {"step": 2}
    yield "other_betas_and_decay", usual | {"m": m, "v": v}, {"beta1": 0.66, "beta2": 0.996, "weight_decay": 0.1, "step": 4}
    yield "equal_betas", usual | {"m": m, "v": v}, {"beta1": 0.88, "beta2": 0.88, "lr": 0.00288293, "weight_decay": 0.0166629, "step": 4}
    yield "rate_zero", usual, {"lr": 0.0}
    yield "one_element", {key: values[:1] for key, values in usual.items()}, {"step": 2}
    yield "mixed_magnitudes", usual | {"w": exact(w * 10.0 ** rng.integers(-6, 7, n)), "g": exact(g * 10.0 ** rng.integers(-6, 7, n))}, {}


def lamb(cases, rng):
    for name, tensors, changes in lamb_cases(rng):
        p = {"lr": RATE, "beta1": BETA1, "beta2": BETA2, "epsilon": EPSILON, "weight_decay": DECAY, "step": 1, "excluded": False} | changes
        w, m, v, g = (tensors[key] for key in "wmvg")
        m_after = p["beta1"] * m + (1.0 - p["beta1"]) * g
        v_after = p["beta2"] * v + (1.0 - p["beta2"]) * g ** 2
        root = numpy.sqrt(v_after / (1.0 - p["beta2"] ** p["step"])) + p["epsilon"]
        update = numpy.divide(m_after / (1.0 - p["beta1"] ** p["step"]), root, out=numpy.zeros_like(root), where=root > 0.0)
        if not p["excluded"]:
            update = update + p["weight_decay"] * w
        w_norm, u_norm = float(numpy.linalg.norm(w)), float(numpy.linalg.norm(update))
        ratio = 1.0 if p["excluded"] or w_norm == 0.0 or u_norm == 0.0 else w_norm / u_norm
        cases.add("lamb_" + name, "lamb", p | {"w_norm": w_norm, "u_norm": u_norm, "ratio": ratio}, w=as_f32(w), m=as_f32(m), v=as_f32(v),
                  g=as_f32(g), w_after=w - ratio * p["lr"] * update, m_after=m_after, v_after=v_after)


def global_norms(cases, rng):
    for name, sizes, scale in (("global_norm", [1, 2, 3, 31, 4097, 0, 65], 3.0), ("global_norm_small", [5, 0, 7], 0.1),
                               ("global_norm_tiny", [3], 1e-25)):
        tensors = [exact(scale * rng.normal(0.0, 1.0, n)) for n in sizes]
        norm = float(numpy.sqrt(sum(numpy.sum(t ** 2) for t in tensors)))
        cases.add(name, "global_norm", {"sizes": sizes, "norm": norm}, **{f"t{i}": as_f32(t) for i, t in enumerate(tensors)})


def learning_rates():
    """Around every edge. The first rows are published reference runs of MLPerf, the others make each parameter matter."""
    rows = ((4.25e-4, 6700, 0, 0, 1), (2e-3, 1141, 100, 0, 1), (2.9293e-3, 700, 0, -700, 1), (2.88293e-3, 600, 287, -76, 1),
            (3.3e-3, 600, 290, -100, 1), (0.01, 7, 2, -1, 1), (0.01, 10, 3, 0, 0.5), (0.01, 10, 3, 2, 2), (0.01, 10, 0, 4, 1), (1e-3, 5, 10, 0, 1),
            (1e-3, 5, 3, 4, 3), (1e-3, 1, 0, 0, 1))
    for base, total, warmup, start, power in rows:
        edges = {0, 1, 2, start, start + warmup, total}
        steps = sorted({max(0, edge + near) for edge in edges for near in (-1, 0, 1, 2)} | {total // 3, total // 2, 2 * total + 5})
        rates = []
        for step in steps:
            if warmup > 0 and step - start < warmup:
                rates.append(base * (step - start) / warmup)
            else:
                rates.append(base * (1.0 - min(step, total) / total) ** power)
        yield {"base": base, "train_steps": total, "warmup_steps": warmup, "start_warmup_step": start, "poly_power": power, "steps": steps,
               "learning_rate": rates}


def main():
    rng = numpy.random.default_rng(31)
    cases = Cases()
    for family in (layer_norms, gelu, attention, cross_entropy, embeddings, lamb, global_norms):
        family(cases, rng)
    cases.write(list(learning_rates()))


if __name__ == "__main__":
    main()

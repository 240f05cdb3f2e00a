#!/usr/bin/env python3
"""Writes small/ beside this file: a training of five LAMB steps in float64, with weights, samples, gradients and figures.

usage: make_small.py            needs numpy, autograd and h5py from PyPI

The model is written down from the BERT paper (post-LayerNorm encoder, tanh GELU, pooler, tied decoder), one padded batch with an additive mask;
gradients come from automatic differentiation (autograd), so nothing here shares its algebra with the program or with tests/reference. Names,
orientation ([out, in]) and config.json are Hugging Face's. No dropout. Layers, heads, hidden, intermediate, vocabulary and positions all differ.
Loss = sum of nll over masked tokens / their number + mean nll of the next-sentence labels (1 = random next). LAMB as You et al. 2020 with
bias correction; biases and LayerNorm parameters have no decay and no trust ratio; gradients are scaled by min(1, 1 / norm).
"""
import json
import pathlib
import struct

import autograd.numpy as np
import h5py
import numpy
from autograd import grad

LAYERS, HEADS, HIDDEN, INNER, VOCAB, POSITIONS, SEGMENTS = 3, 2, 32, 48, 90, 40, 2
LENGTHS = [40, 5, 17, 33, 8, 26, 12, 31]
PREDICTIONS = 6  # width of the fixed layout
STEPS, BASE_LR, TOTAL, WARMUP, START = 5, 0.01, 7, 2, -1
BETA1, BETA2, EPSILON, DECAY = 0.9, 0.999, 1e-6, 0.01
FOLDER = pathlib.Path(__file__).with_name("small")
# A second run from the same weights, these multiplied: its gradient norms stay below 1, so that clipping must do nothing.
SMALL_NORM_FACTORS = {"bert.embeddings.word_embeddings.weight": 0.125, "cls.predictions.transform.LayerNorm.weight": 0.125,
                      "cls.predictions.transform.LayerNorm.bias": 0.125, "cls.seq_relationship.weight": 0.125}


def shapes():
    """In the order of Hugging Face's BertForPreTraining, the decoder tied and not stored."""
    yield "bert.embeddings.word_embeddings.weight", (VOCAB, HIDDEN)
    yield "bert.embeddings.position_embeddings.weight", (POSITIONS, HIDDEN)
    yield "bert.embeddings.token_type_embeddings.weight", (SEGMENTS, HIDDEN)
    yield from norm("bert.embeddings.LayerNorm")
    for layer in range(LAYERS):
        scope = f"bert.encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            yield from dense(scope + "attention.self." + part, HIDDEN, HIDDEN)
        yield from dense(scope + "attention.output.dense", HIDDEN, HIDDEN)
        yield from norm(scope + "attention.output.LayerNorm")
        yield from dense(scope + "intermediate.dense", INNER, HIDDEN)
        yield from dense(scope + "output.dense", HIDDEN, INNER)
        yield from norm(scope + "output.LayerNorm")
    yield from dense("bert.pooler.dense", HIDDEN, HIDDEN)
    yield "cls.predictions.bias", (VOCAB,)
    yield from dense("cls.predictions.transform.dense", HIDDEN, HIDDEN)
    yield from norm("cls.predictions.transform.LayerNorm")
    yield from dense("cls.seq_relationship", 2, HIDDEN)


def dense(name, out, into):
    yield name + ".weight", (out, into)
    yield name + ".bias", (out,)


def norm(name):
    yield name + ".weight", (HIDDEN,)
    yield name + ".bias", (HIDDEN,)


def start_weights(generator):
    """Exact in float32; nothing at its usual start value, so that every parameter matters."""
    weights = {}
    for name, shape in shapes():
        values = generator.uniform(-0.3, 0.3, shape)
        if name.endswith("LayerNorm.weight"):
            values = 1.0 + values
        weights[name] = values.astype(numpy.float32).astype(numpy.float64)
    return weights


def make_samples(generator):
    samples = []
    for length in LENGTHS:
        masked = numpy.sort(generator.choice(numpy.arange(1, length), size=max(1, length // 7), replace=False))
        samples.append({
            "ids": generator.integers(5, VOCAB, length), "segments": (numpy.arange(length) > length // 2).astype(int),
            "positions": masked, "labels": generator.integers(5, VOCAB, len(masked)), "next": int(generator.integers(0, 2))})
    return samples


def layer_norm(w, name, x):
    mean = np.mean(x, axis=-1, keepdims=True)
    variance = np.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-12) * w[name + ".weight"] + w[name + ".bias"]


def linear(w, name, x):
    return np.dot(x, w[name + ".weight"].T) + w[name + ".bias"]


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x ** 3)))


def nll(logits, labels):
    top = np.max(logits, axis=-1, keepdims=True)
    log_sum = np.log(np.sum(np.exp(logits - top), axis=-1)) + top[..., 0]
    return log_sum - logits[numpy.arange(len(labels)), labels]


def forward(w, samples):
    """Sums of nll of both heads, and the logits."""
    width = max(LENGTHS)
    ids = numpy.zeros((len(samples), width), int)
    segments = numpy.zeros_like(ids)
    hidden_key = numpy.zeros((len(samples), 1, 1, width))
    for b, sample in enumerate(samples):
        n = len(sample["ids"])
        ids[b, :n], segments[b, :n] = sample["ids"], sample["segments"]
        hidden_key[b, 0, 0, n:] = -numpy.inf
    e = "bert.embeddings."
    x = (w[e + "word_embeddings.weight"][ids] + w[e + "position_embeddings.weight"][numpy.arange(width)][None]
         + w[e + "token_type_embeddings.weight"][segments])
    x = layer_norm(w, e + "LayerNorm", x)

    def heads(y):
        return np.transpose(np.reshape(y, (len(samples), width, HEADS, HIDDEN // HEADS)), (0, 2, 1, 3))

    for layer in range(LAYERS):
        scope = f"bert.encoder.layer.{layer}."
        q, k, v = (heads(linear(w, scope + "attention.self." + part, x)) for part in ("query", "key", "value"))
        scores = np.matmul(q, np.transpose(k, (0, 1, 3, 2))) / np.sqrt(HIDDEN / HEADS) + hidden_key
        p = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        p = p / np.sum(p, axis=-1, keepdims=True)
        context = np.reshape(np.transpose(np.matmul(p, v), (0, 2, 1, 3)), (len(samples), width, HIDDEN))
        x = layer_norm(w, scope + "attention.output.LayerNorm", linear(w, scope + "attention.output.dense", context) + x)
        inner = gelu(linear(w, scope + "intermediate.dense", x))
        x = layer_norm(w, scope + "output.LayerNorm", linear(w, scope + "output.dense", inner) + x)
    rows = np.concatenate([x[b][sample["positions"]] for b, sample in enumerate(samples)])
    rows = layer_norm(w, "cls.predictions.transform.LayerNorm", gelu(linear(w, "cls.predictions.transform.dense", rows)))
    mlm = np.dot(rows, w["bert.embeddings.word_embeddings.weight"].T) + w["cls.predictions.bias"]
    nsp = linear(w, "cls.seq_relationship", np.tanh(linear(w, "bert.pooler.dense", x[:, 0])))
    labels = numpy.concatenate([sample["labels"] for sample in samples])
    next_labels = numpy.array([sample["next"] for sample in samples])
    return np.sum(nll(mlm, labels)), np.sum(nll(nsp, next_labels)), mlm, nsp


def losses(w, samples):
    masked = sum(len(sample["labels"]) for sample in samples)
    mlm, nsp, _, _ = forward(w, samples)
    return mlm / masked + nsp / len(samples)


def learning_rate(step):
    if step - START < WARMUP:
        return BASE_LR * (step - START) / WARMUP
    return BASE_LR * (1.0 - min(step, TOTAL) / TOTAL)


def train(w, samples):
    """Figures of every step; w is updated in place. Also the first gradient."""
    m = {name: numpy.zeros_like(value) for name, value in w.items()}
    v = {name: numpy.zeros_like(value) for name, value in w.items()}
    labels = numpy.concatenate([sample["labels"] for sample in samples])
    next_labels = numpy.array([sample["next"] for sample in samples])
    steps, first = [], None
    for step in range(STEPS):
        mlm, nsp, mlm_logits, nsp_logits = forward(w, samples)
        gradient = grad(losses)(w, samples)
        first = first or gradient
        total = float(numpy.sqrt(sum(numpy.sum(g ** 2) for g in gradient.values())))
        record = {"step": step, "learning_rate": learning_rate(step), "mlm_loss": float(mlm) / len(labels),
                  "nsp_loss": float(nsp) / len(samples), "mlm_correct": int(numpy.sum(numpy.argmax(mlm_logits, -1) == labels)),
                  "mlm_total": len(labels), "nsp_correct": int(numpy.sum(numpy.argmax(nsp_logits, -1) == next_labels)),
                  "smallest_top2_logit_gap": float(numpy.min(numpy.diff(numpy.sort(mlm_logits, -1)[:, -2:]))), "grad_norm": total,
                  "clip_scale": min(1.0, 1.0 / total), "tensors": {}}
        record["loss"] = record["mlm_loss"] + record["nsp_loss"]
        for name, g in gradient.items():
            g = g * record["clip_scale"]
            m[name] = BETA1 * m[name] + (1.0 - BETA1) * g
            v[name] = BETA2 * v[name] + (1.0 - BETA2) * g ** 2
            update = m[name] / (1.0 - BETA1 ** (step + 1)) / (numpy.sqrt(v[name] / (1.0 - BETA2 ** (step + 1))) + EPSILON)
            excluded = name.endswith("bias") or "LayerNorm" in name
            if not excluded:
                update = update + DECAY * w[name]
            w_norm, u_norm = float(numpy.linalg.norm(w[name])), float(numpy.linalg.norm(update))
            ratio = 1.0 if excluded or w_norm == 0 or u_norm == 0 else w_norm / u_norm
            record["tensors"][name] = {"w_norm": w_norm, "u_norm": u_norm, "ratio": ratio}
            w[name] = w[name] - ratio * record["learning_rate"] * update
        steps.append(record)
    return steps, first


def write_safetensors(path, tensors, dtype):
    header, data = {}, b""
    for name, values in tensors.items():
        raw = numpy.ascontiguousarray(values, {"F32": "<f4", "F64": "<f8"}[dtype]).tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_shards(samples):
    n, width = len(samples), max(LENGTHS)
    keys = {"input_ids": "ids", "segment_ids": "segments", "masked_lm_positions": "positions", "masked_lm_ids": "labels"}
    next_labels = numpy.array([sample["next"] for sample in samples], "i1")
    for layout in ("fixed", "varlength"):
        path = FOLDER / f"shard_{layout}" / "part_00000_of_00001.hdf5"
        path.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(path, "w") as file:
            for name, key in keys.items():
                short = "i1" if key in ("segments", "positions") and layout == "varlength" or key == "segments" else "i2"
                if layout == "varlength":
                    rows = file.create_dataset(name, (n,), h5py.vlen_dtype(numpy.dtype(short)))
                    for row, sample in enumerate(samples):
                        rows[row] = sample[key]
                    continue
                rows = numpy.zeros((n, PREDICTIONS if key in ("positions", "labels") else width), short)
                for row, sample in enumerate(samples):
                    rows[row, :len(sample[key])] = sample[key]
                file.create_dataset(name, data=rows)
            if layout == "fixed":
                mask = numpy.array([[int(c < len(sample["ids"])) for c in range(width)] for sample in samples], "i1")
                file.create_dataset("input_mask", data=mask)
            file.create_dataset("next_sentence_labels", data=next_labels)


def main():
    generator = numpy.random.default_rng(20)
    weights = start_weights(generator)
    samples = make_samples(generator)
    # Half of the labels are what the model guesses, so that there is something to count.
    guesses = iter(numpy.argmax(forward(weights, samples)[2], -1))
    for b, sample in enumerate(samples):
        for i in range(len(sample["labels"])):
            guess = next(guesses)
            if (b + i) % 2 == 0:
                sample["labels"][i] = guess
    FOLDER.mkdir(exist_ok=True)
    write_shards(samples)
    write_safetensors(FOLDER / "init.safetensors", weights, "F32")
    (FOLDER / "config.json").write_text(json.dumps({
        "architectures": ["BertForPreTraining"], "model_type": "bert", "vocab_size": VOCAB, "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": INNER, "max_position_embeddings": POSITIONS,
        "type_vocab_size": SEGMENTS, "hidden_act": "gelu_new", "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0}, indent=1) + "\n")
    small_norm, _ = train({name: value * SMALL_NORM_FACTORS.get(name, 1.0) for name, value in weights.items()}, samples)
    (FOLDER / "steps_small_norm.json").write_text(json.dumps(
        {"factors": SMALL_NORM_FACTORS, "f64": {"steps": [{key: step[key] for key in step if key != "tensors"} for step in small_norm]}},
        indent=1) + "\n")
    steps, first = train(weights, samples)
    write_safetensors(FOLDER / "grads.safetensors", first, "F64")
    write_safetensors(FOLDER / "weights_after_5.safetensors", weights, "F64")
    (FOLDER / "steps.json").write_text(json.dumps({"tokens": sum(LENGTHS), "f64": {"steps": steps}}, indent=1) + "\n")
    print(f"wrote {FOLDER}: gradient norms {[round(s['grad_norm'], 3) for s in steps + small_norm]}, correct {[s['mlm_correct'] for s in steps]} of "
          f"{steps[0]['mlm_total']}, smallest lead {min(s['smallest_top2_logit_gap'] for s in steps):.2g}")


if __name__ == "__main__":
    main()

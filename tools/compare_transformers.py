# SPDX-License-Identifier: Apache-2.0
"""Trains a small model of every family, exports it, loads the folder with transformers and holds the two programs'
numbers against each other: logits, loss and every gradient of one sequence, by `litespark verify`.

    python3 -m venv build/transformers && build/transformers/bin/pip install -r tools/requirements.txt
    build/transformers/bin/python tools/compare_transformers.py build/release/cli/litespark [--out RESULT.json]
"""
import argparse
import datetime
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPS, LENGTH = 60, 96
SHAPE = {"vocab_size": 256, "hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 3,
         "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16, "max_position_embeddings": 256}
FAMILIES = {
    "llama, untied": {"model_type": "llama", "tie_word_embeddings": False},
    "llama, tied, llama3 rope": {"model_type": "llama", "tie_word_embeddings": True, "rope_scaling.rope_type": "llama3",
                                 "rope_scaling.factor": 8.0, "rope_scaling.low_freq_factor": 1.0,
                                 "rope_scaling.high_freq_factor": 4.0,
                                 "rope_scaling.original_max_position_embeddings": 64},
    "mistral, window of 24": {"model_type": "mistral", "sliding_window": 24},
    "qwen2, biases": {"model_type": "qwen2"},
    "qwen3, q/k norm": {"model_type": "qwen3", "tie_word_embeddings": True},
}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def run(*words):
    result = subprocess.run([str(word) for word in words], cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, words))}\nended with {result.returncode}\n{result.stderr}")
    return result


def train_and_export(program, family, precision, folder):
    """A Hugging Face folder that our own trainer and converter made."""
    settings = [f"--model.{key}={str(value).lower()}" for key, value in {**SHAPE, **family}.items()]
    (folder / "run.toml").write_text('[data]\nsource = "text"\n')
    run(program, "train", folder / "run.toml", f"--out={folder / 'run'}", f"--data.path={ROOT / 'DESIGN.md'}",
        f"--data.seq_len={LENGTH}", f"--train.steps={STEPS}", "--train.micro_batch=4", "--optim.lr=3e-3",
        "--device.kind=cpu", f"--precision.compute={precision}", *settings)
    run(program, "convert", folder / "run", folder / "model")
    return folder / "model"


def load(folder, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    return model.eval()


def write_case(folder, model, ids):
    """The numbers of transformers as a case of kind packed-documents with one document; returns its logits."""
    result = model(input_ids=ids, labels=ids)
    result.loss.backward()
    tensors = {"input_ids": ids.to(torch.int32), "lengths": torch.tensor([ids.shape[1]], dtype=torch.int32),
               "logits": result.logits.detach().float().contiguous()}
    for name, parameter in model.named_parameters():
        tensors["grad." + name] = parameter.grad.float().contiguous()
    safetensors.torch.save_file(tensors, folder / "case.safetensors")
    (folder / "case.json").write_text(json.dumps({"kind": "packed-documents", "loss": result.loss.item()}))
    return result.logits.detach().float()


def compare(program, name, precision, text):
    with tempfile.TemporaryDirectory() as scratch:
        folder = train_and_export(program, FAMILIES[name], precision, pathlib.Path(scratch))
        # The exported weights as they are; arithmetic in fp32, whatever the folder's dtype.
        model = load(folder, torch.float32)
        ids = torch.tensor([list(text[:LENGTH])])
        logits = write_case(folder, model, ids)
        report = json.loads(run(program, "verify", folder, "--json", f"--compute={precision}", "--device=cpu").stdout)
        own = load(folder, DTYPES[precision])(input_ids=ids).logits.detach().float()
    errors = {check["name"]: check["error"] for check in report["checks"]}
    largest = logits.abs().max().item()
    return {"family": name, "dtype": precision, "class": type(model).__name__, "pass": report["pass"],
            "max_abs_logit": largest, "max_abs_logit_error": errors["logits"] * largest,
            "relative_loss_error": errors["loss.0"],
            "worst_relative_gradient_error": max(v for k, v in errors.items() if k.startswith("grad.")),
            "transformers_own_logit_error_at_this_dtype": (own - logits).abs().max().item()}


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(": ")[1] for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(names)} hardware threads, {platform.system()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path, help="the litespark program")
    parser.add_argument("--out", type=pathlib.Path, help="write the result as JSON")
    arguments = parser.parse_args()
    program = arguments.program.resolve()
    torch.manual_seed(1)
    text = (ROOT / "CONTRIBUTING.md").read_bytes()  # not what was trained on
    cases = [compare(program, name, precision, text) for precision in DTYPES for name in FAMILIES]
    result = {"date": datetime.date.today().isoformat(), "machine": machine(),
              "what": "a model trained and exported by litespark, in transformers and in litespark, on the same tokens",
              "command": "build/transformers/bin/python tools/compare_transformers.py build/release/cli/litespark",
              "versions": {"litespark": run(program, "--version").stdout.strip(), "torch": torch.__version__,
                           "transformers": transformers.__version__, "python": platform.python_version()},
              "tokens": LENGTH, "steps_trained": STEPS, "cases": cases}
    for case in cases:
        print(f"{case['family']:26} {case['dtype']}"
              f"  logits {case['max_abs_logit_error']:.2e} of {case['max_abs_logit']:.2f}"
              f" (transformers at this dtype: {case['transformers_own_logit_error_at_this_dtype']:.2e})"
              f"  loss {case['relative_loss_error']:.1e}  gradients {case['worst_relative_gradient_error']:.1e}"
              f"  {'pass' if case['pass'] else 'FAIL'}")
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(0 if all(case["pass"] for case in cases) else 1)


if __name__ == "__main__":
    main()

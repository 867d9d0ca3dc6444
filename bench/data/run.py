"""Chat JSONL to packed tokens: forge beside Hugging Face datasets + TRL, on one file in one run.

    python3 bench/data/run.py --forge build/bin/forge --model MODEL_DIR --megabytes 1000 \\
        --peer-python venv/bin/python --peer-megabytes 128

MODEL_DIR holds config.json, weights, tokenizer.json and a chat template (SmolLM2-135M-Instruct was
used). The peer's Python needs datasets, transformers and trl; without --peer-python forge is
measured alone. With --peer-megabytes the peer reads only the first part of the same file, for when
the whole would take it hours or more memory than there is. Each side's rate is then of its own
file, and `megabytes` gives that file's size.

Prints one JSON object: seconds, megabytes a second, tokens, the largest resident memory of the
process with all its children (sampled ten times a second; `anonymous` leaves out pages of mapped
files, which the kernel may take back), and the machine's load before and after. `second_start` is
the time of `forge plan` with the token cache present: the median of three runs, in seconds.

The file holds conversations of one to four questions with log-normal lengths, cut from the Python
manual in the standard library (pydoc_data.topics) by a seeded generator. It is the same on every
machine with the same Python.
"""
import argparse
import json
import os
import pydoc_data.topics
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

MAX_LENGTH = 2048
PEER = r'''
import json, sys, time
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import pack_dataset
file, model, cache, processes, length = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
tokenizer = AutoTokenizer.from_pretrained(model)
start = time.time()
data = load_dataset("json", data_files=file, split="train", cache_dir=cache)
loaded = time.time()
def encode(batch):
    ids = tokenizer.apply_chat_template(batch["messages"], tokenize=True, return_dict=True, truncation=True, max_length=length)
    return {"input_ids": ids["input_ids"]}
data = data.map(encode, batched=True, remove_columns=data.column_names, num_proc=processes)
tokenised = time.time()
tokens = sum(len(ids) for batch in data.iter(1000) for ids in batch["input_ids"])
counted = time.time()
packed = pack_dataset(data, length, "bfd")
end = time.time()
print(json.dumps({"seconds": end - start - (counted - tokenised), "load": loaded - start, "tokenise": tokenised - loaded,
                  "pack": end - counted, "tokens": tokens, "rows": len(packed),
                  "fill": tokens / (len(packed) * length)}))
'''


def sentences():
    text = "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    return [s for s in re.split(r"(?<=[.:])\s+", text) if 20 < len(s) < 600]


def write_file(path, megabytes):
    generator, parts, written = random.Random(20261121), sentences(), 0
    def say(median):
        count = max(1, int(generator.lognormvariate(0, 0.8) * median))
        return " ".join(generator.choice(parts) for _ in range(min(count, 60)))
    with open(path, "w", encoding="utf-8") as out:
        while written < megabytes * 1_000_000:
            messages = []
            for _ in range(generator.choice((1, 1, 1, 2, 2, 3, 4))):
                messages += [{"role": "user", "content": say(1)}, {"role": "assistant", "content": say(4)}]
            line = json.dumps({"messages": messages}, ensure_ascii=False) + "\n"
            written += out.write(line)
    return written


def tree(root):
    """Returns the process and all its descendants."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = open(f"/proc/{name}/stat").read().rsplit(")", 1)[1].split()
                children.setdefault(int(fields[1]), []).append(int(name))
            except OSError:
                pass
    found, open_list = [], [root]
    while open_list:
        pid = open_list.pop()
        found.append(pid)
        open_list += children.get(pid, [])
    return found


def memory(pid):
    resident = anonymous = 0
    try:
        for line in open(f"/proc/{pid}/status"):
            if line.startswith("VmRSS:"):
                resident = int(line.split()[1]) * 1024
            if line.startswith("RssAnon:"):
                anonymous = int(line.split()[1]) * 1024
    except OSError:
        pass
    return resident, anonymous


def measured(command, **more):
    """Runs a command; returns its seconds, the peak memory of its process tree, and its output."""
    peak = {"resident": 0, "anonymous": 0}
    start = time.time()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more)
    done = threading.Event()

    def watch():
        while not done.wait(0.1):
            all_of_it = [memory(pid) for pid in tree(process.pid)]
            peak["resident"] = max(peak["resident"], sum(m[0] for m in all_of_it))
            peak["anonymous"] = max(peak["anonymous"], sum(m[1] for m in all_of_it))

    watcher = threading.Thread(target=watch)
    watcher.start()
    output, _ = process.communicate()
    seconds = time.time() - start
    done.set()
    watcher.join()
    if process.returncode != 0:
        sys.exit(f"{command[0]} ended with {process.returncode}: {output}")
    return {"seconds": round(seconds, 2), "peak_megabytes": {k: round(v / 1e6) for k, v in peak.items()}}, output


def measure_forge(forge, model, folder, file, megabytes):
    with open(os.path.join(folder, "job.yaml"), "w") as out:
        out.write(f"model: {{path: {os.path.abspath(model)}}}\nadapter: {{type: lora}}\n"
                  f"data: {{train: {file}, max_length: {MAX_LENGTH}}}\ntrain: {{global_batch_tokens: {MAX_LENGTH * 16}, "
                  f"micro_batch_tokens: {MAX_LENGTH}, activation_checkpointing: full}}\n")
    first, output = measured([forge, "data", "job.yaml", "--prepare", "--quiet", "--json"], cwd=folder)
    starts = [measured([forge, "plan", "job.yaml", "--gpu", "H100", "--quiet", "--json"], cwd=folder) for _ in range(3)]
    starts.sort(key=lambda start: start[0]["seconds"])
    second, plan = starts[1]
    tokens = json.loads(output)["tokens"]
    total = first["seconds"] + second["seconds"]
    return {"megabytes": round(megabytes, 1), "tokenise_and_cache": first, "second_start": second, "tokens": tokens,
            "megabytes_per_second": round(megabytes / total, 1), "tokens_per_second": round(tokens / total),
            "packing": json.loads(plan)["data"]["packing"]}


def measure_peer(python, model, folder, file, megabytes, processes):
    result, output = measured([python, "-c", PEER, file, os.path.abspath(model), os.path.join(folder, "hf"),
                               str(processes), str(MAX_LENGTH)], cwd=folder,
                              env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"})
    inside = json.loads(output.strip().splitlines()[-1])
    return {"megabytes": round(megabytes, 1), **result, **inside, "megabytes_per_second": round(megabytes / inside["seconds"], 2),
            "tokens_per_second": round(inside["tokens"] / inside["seconds"])}


def chat_file(folder, megabytes):
    """Returns the file's path and size. A smaller file is the beginning of a larger one."""
    path = os.path.join(folder, f"chat-{megabytes}.jsonl")
    if not os.path.exists(path):
        write_file(path, megabytes)
    return path, os.path.getsize(path) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forge", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--peer-python")
    parser.add_argument("--peer-megabytes", type=int, help="size of the peer's file (default: --megabytes)")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--folder", help="folder for files (default: a temporary folder)")
    options = parser.parse_args()
    folder = options.folder or tempfile.mkdtemp(prefix="forge-bench-data-")
    os.makedirs(folder, exist_ok=True)
    result = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    file, megabytes = chat_file(folder, options.megabytes)
    result["forge"] = measure_forge(os.path.abspath(options.forge), options.model, folder, file, megabytes)
    if options.peer_python:
        file, megabytes = chat_file(folder, options.peer_megabytes or options.megabytes)
        result["datasets_and_trl"] = measure_peer(options.peer_python, options.model, folder, file, megabytes,
                                                  options.processes)
    result["load_after"] = os.getloadavg()[0]
    print(json.dumps(result, indent=1))
    if not options.folder:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

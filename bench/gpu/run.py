#!/usr/bin/env python3
"""Everything that needs a GPU, in one command:

  python3 bench/gpu/run.py --build build            programs made by `ninja -C build gpu_kernels_bench gpu_cases_test`
  python3 bench/gpu/run.py --dry-run                the parts and their commands, nothing run
  python3 bench/gpu/run.py --only cases,kernels     some parts

Cheapest and most important first; each part has a limit under nine minutes. Results go to
bench/results/gpu-DATE-DEVICE.json and .md after every part: run again and what is done is skipped, what failed is tried
again (--fresh starts over)."""
import argparse, datetime, json, pathlib, re, shutil, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = "bench/gpu"


def parts(build, python):
    measure, baseline = [python, f"{HERE}/measure.py"], [python, f"{HERE}/baseline.py"]

    def sanitize(cases, *options):
        return ["env", f"FORGE_KERNEL_CASES={cases}", "compute-sanitizer", *options, "--error-exitcode", "9",
                f"{build}/bin/gpu_cases_test", "every op equals*"]

    yield "device", 60, ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm", "--format=csv"]
    yield "kernels", 120, [f"{build}/bin/gpu_kernels_bench"]
    yield "sanitizer", 500, sanitize("embedding backward 7x33")
    yield "racecheck", 500, sanitize("optimizer norm 2049", "--tool", "racecheck")
    yield "cases", 500, [f"{build}/bin/gpu_cases_test"]
    yield "launch", 60, measure + ["launch"]
    yield "kconcat", 500, measure + ["kconcat"]
    yield "attention", 400, measure + ["attention"]
    for model in ("llama-3.2-1b", "tinyllama", "llama-3.1-8b"):
        for flags in ([], ["--checkpointing"], ["--fp32-adapter"]):
            yield f"baseline {model} {' '.join(flags)}".strip(), 400, baseline + [model] + flags
    yield "gemm", 500, measure + ["gemm"]
    yield "fp8", 300, measure + ["fp8"]


def run_part(command, limit):
    if shutil.which(command[0]) is None and not (ROOT / command[0]).exists():
        return {"status": "missing", "says": f"{command[0]} is not here"}
    begin = time.time()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired as late:
        return {"status": "too long", "seconds": limit, "figures": figures((late.stdout or b"").decode())}
    text = done.stdout + done.stderr
    result = {"status": "done" if done.returncode == 0 else "failed", "seconds": round(time.time() - begin, 1),
              "figures": figures(done.stdout)}
    if done.returncode or not result["figures"]:
        result["says"] = text[-3000:]
    return result


def figures(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def markdown(results):
    lines = [f"# GPU: {results['device']}, {results['date']}, commit {results['commit']}", "",
             "Command: `python3 bench/gpu/run.py`", "", "| part | status | seconds |", "|---|---|---|"]
    lines += [f"| {name} | {part['status']} | {part.get('seconds', '')} |" for name, part in results["parts"].items()]
    for name, part in results["parts"].items():
        rows = part.get("figures") or []
        if not rows:
            continue
        columns = list(dict.fromkeys(key for row in rows for key in row))
        lines += ["", f"## {name}", "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        lines += ["| " + " | ".join(str(row.get(key, "")) for key in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def output_of(command):
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder that holds bin/")
    parser.add_argument("--python", default=sys.executable, help="Python with torch, transformers and peft")
    parser.add_argument("--only", help="parts by first word, comma between")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    args = parser.parse_args()
    chosen = [p for p in parts(args.build, args.python) if not args.only or p[0].split()[0] in args.only.split(",")]
    if args.dry_run:
        for name, limit, command in chosen:
            print(f"{name}  (at most {limit} s)\n    {' '.join(command)}")
        return 0
    device = output_of(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]).splitlines()
    if not device:
        sys.exit("no GPU: nvidia-smi names none. --dry-run lists what would run.")
    slug = re.sub(r"[^a-z0-9]+", "-", device[0].lower())
    path = ROOT / f"bench/results/gpu-{datetime.date.today()}-{slug}.json"
    results = {"device": device[0], "date": str(datetime.date.today()),
               "commit": output_of(["git", "rev-parse", "--short", "HEAD"]) or "unknown", "parts": {}}
    if path.exists() and not args.fresh:
        results["parts"] = json.loads(path.read_text())["parts"]
    for name, limit, command in chosen:
        if results["parts"].get(name, {}).get("status") == "done":
            continue
        print(f"{name}: {' '.join(command)}", flush=True)
        results["parts"][name] = run_part(command, limit)
        print(f"  {results['parts'][name]['status']}", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=1) + "\n")
        path.with_suffix(".md").write_text(markdown(results))
    return 0 if all(p["status"] == "done" for p in results["parts"].values()) else 1


sys.exit(main())

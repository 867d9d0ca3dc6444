#!/usr/bin/env python3
"""Plants faults in the kernels' sources and requires that their cases fail.

  tests/kernels/mutations/run.py --seconds 90          a sample, another one for every commit
  tests/kernels/mutations/run.py --all                 every fault
  tests/kernels/mutations/run.py --match 'rms_norm.*barriers' --all

A fault is one textual change: made by rule (rules.py) or written down (planted.txt). It is written
into an overlay that comes before the sources in the include path. The files that include it
(targets.txt) are compiled as the build compiles them and linked before the build's own libraries
into kernels_first_fault, which must then find a fault, crash or hang. A fault without a visible
effect is listed in equivalent.txt with the reason; an entry there that no rule makes any more is an
error.
"""
import argparse, concurrent.futures, functools, json, os, pathlib, random, re, shlex, subprocess, sys, tempfile, time
from dataclasses import dataclass

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))
import rules

HANGS_AFTER_S = 240  # seconds of processor time; the slowest target's cases take 35 without a fault


@dataclass
class Target:
    units: list
    ops: str
    backends: str


def lines_of(name):
    return [l for l in (HERE / name).read_text().splitlines() if l.strip() and not l.startswith("#")]


def fields(name):
    return [[f.strip() for f in l.split(" | ")] for l in lines_of(name)]


def targets():
    return {re.sub(r"\s+", "", f[0]): Target(f[1].split(), f[2], f[3]) for f in fields("targets.txt")}


def planted():
    for path, kind, find, replace in fields("planted.txt"):
        text = (ROOT / path).read_text()
        if text.count(find) != 1:
            sys.exit(f"planted.txt: {path} holds {find!r} {text.count(find)} times, not once")
        yield rules.made(path, text, kind, text.index(find), text.index(find) + len(find), replace, {})


def all_mutations(chosen):
    made = [m for path in chosen for m in rules.mutations_of(path, (ROOT / path).read_text())]
    return list(planted()) + made


def one_instruction_set(overlay):
    """Compiles a CPU kernel for one instruction set instead of three, which is enough to show its
    faults.
    """
    text = (ROOT / "kernels/cpu/each_isa.h").read_text()
    baseline = text.index("#define FORGE_ISA isa_baseline"), text.index("#if defined(__x86_64__)\n#pragma")
    wide = text.index('#pragma GCC push_options\n#pragma GCC target("avx2,fma,f16c,avx512f'), text.index("#define FORGE_PICK")
    pick = "#define FORGE_PICK(level, ...) ((level) == ::forge::CpuLevel::avx2 ? &isa_avx2::__VA_ARGS__ : &isa_avx2::__VA_ARGS__)\n#define FORGE_PICK_PAIRS FORGE_PICK\n#endif\n"
    text = text[: baseline[0]] + text[baseline[1] : wide[0]] + pick + text[text.index("// FORGE_PICK of a template") :]
    (overlay / "kernels/cpu").mkdir(parents=True, exist_ok=True)
    (overlay / "kernels/cpu/each_isa.h").write_text(text)


class Build:
    def __init__(self, folder):
        self.folder = folder
        self.commands = {c["file"]: c for c in json.loads((folder / "compile_commands.json").read_text())}
        links = subprocess.run(["ninja", "-C", folder, "-t", "commands", "kernels_first_fault"], capture_output=True, text=True, check=True)
        self.link = links.stdout.strip().splitlines()[-1]

    def compile(self, unit, overlay, to):
        entry = self.commands[str(ROOT / unit)]
        words = [w for w in shlex.split(entry["command"]) if not w.endswith("ccache")]
        words[words.index("-o") + 1] = str(to)
        if (overlay / unit).exists():
            words[words.index("-c") + 1] = str(overlay / unit)
        words[1:1] = [f"-I{overlay}"]
        return subprocess.run([*words, "-O1", "-w"], cwd=self.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def program(self, objects, to):
        command = self.link.replace(" -o bin/kernels_first_fault", f" {' '.join(map(str, objects))} -o {to}")
        return subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True)


def program_of(build, target, path, text, folder):
    """Makes folder/cases, the cases with `text` in place of a file; returns an error or ""."""
    overlay = folder / "overlay"
    if target.backends.startswith("cpu/"):
        one_instruction_set(overlay)
    (overlay / path).parent.mkdir(parents=True, exist_ok=True)
    (overlay / path).write_text(text)
    objects = []
    for unit in target.units:
        objects.append(folder / (unit.replace("/", "_") + ".o"))
        done = build.compile(unit, overlay, objects[-1])
        if done.returncode:
            errors = [l for l in done.stderr.splitlines() if "error" in l]
            return errors[0] if errors else done.stderr[-300:]
    done = build.program(objects, folder / "cases")
    return done.stderr[-300:] if done.returncode else ""


@functools.lru_cache(maxsize=None)
def require_unchanged_compiles(build, path):
    """A fault that does not compile is none only if its file compiles without it."""
    with tempfile.TemporaryDirectory(prefix="forge-mutation-") as folder:
        error = program_of(build, targets()[path], path, (ROOT / path).read_text(), pathlib.Path(folder))
        if error:
            sys.exit(f"{path} does not compile without a fault: {error}")


def outcome(build, target, mutation):
    """Returns (outcome: died, survived or no compile; reason)."""
    with tempfile.TemporaryDirectory(prefix="forge-mutation-") as folder:
        folder = pathlib.Path(folder)
        error = program_of(build, target, mutation.path, mutation.applied((ROOT / mutation.path).read_text()), folder)
        if error:
            require_unchanged_compiles(build, mutation.path)
            return "no compile", error
        try:
            ran = subprocess.run(["prlimit", f"--cpu={HANGS_AFTER_S}", folder / "cases", target.ops, target.backends], capture_output=True, text=True, timeout=4 * HANGS_AFTER_S,
                                 env={**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "2" if target.backends.startswith("cpu/") else "1"})
        except subprocess.TimeoutExpired:
            return "died", "hangs"
        if ran.returncode == 2:
            sys.exit(f"no case of {target.ops} was run on {target.backends}")
        if ran.returncode == 0:
            return "survived", ""
        return "died", ran.stdout.strip() or f"ended with {ran.returncode}"


def sample_seed():
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or time.strftime("%Y-%m-%d")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--all", action="store_true", help="every fault instead of a sample")
    parser.add_argument("--seconds", type=float, default=90, help="begin no more faults of the sample after this many seconds")
    parser.add_argument("--seed", default=sample_seed(), help="seed of the sample (default: the commit's name)")
    parser.add_argument("--match", default="", help="only faults whose line in a list matches this expression")
    parser.add_argument("--equivalent", action="store_true", help="also run what equivalent.txt lists: it must survive")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true", help="print the faults and run none")
    args = parser.parse_args()
    known, build = targets(), Build(args.build)
    mutations = all_mutations(known)
    reasons = dict(l.rsplit(" | ", 1) for l in lines_of("equivalent.txt"))  # a fault may hold a | itself
    for stale in reasons.keys() - {m.name() for m in mutations}:
        sys.exit(f"equivalent.txt: no fault is made any more as: {stale}")
    chosen = [m for m in mutations if re.search(args.match, m.name()) and (args.equivalent or m.name() not in reasons)]
    if args.list:
        print(*[m.name() for m in chosen], sep="\n")
        return
    random.Random(args.seed).shuffle(chosen)
    began, counts, survivors = time.time(), {}, []

    def run(mutation):
        if not args.all and time.time() - began > args.seconds:
            return mutation, "left for another commit", ""
        return mutation, *outcome(build, known[mutation.path], mutation)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for mutation, what, why in pool.map(run, chosen):
            counts[what] = counts.get(what, 0) + 1
            if what == "survived":
                survivors.append(mutation)
            if what != "left for another commit" and args.all or what == "survived":
                print(f"{what}: {mutation.name()}{' — ' + why if why else ''}", flush=True)
    print(f"{sum(v for k, v in counts.items() if k != 'left for another commit')} faults planted with seed {args.seed} in {time.time() - began:.0f} s: "
          + ", ".join(f"{v} {k}" for k, v in sorted(counts.items())) + f"; {len(reasons)} known to change nothing")
    sys.exit(1 if survivors else 0)


main()

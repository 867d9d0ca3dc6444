#!/usr/bin/env python3
"""Tests scripts/*.sh and CMake's configuration on other machines: with other toolkits, cards, users
and systems.

    python3 tests/scripts/scripts_test.py [FORGE_TORCH_DIR] [Class.test …]

Programs that a case is about are fakes in front of PATH, which print what the real ones print.
Downloads nothing.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
TORCH = Path(sys.argv.pop(1)) if len(sys.argv) > 1 and Path(sys.argv[1]).is_dir() else None
HEADERS = ("cuda_runtime_api.h", "crt/host_defines.h", "nv/target", "cublasLt.h", "cusolverDn.h", "cusparse.h", "nccl.h")


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


class Machine(unittest.TestCase):
    """A home, a cache and a folder in front of PATH, all empty."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.bin = self.folder / "bin"
        for name in ("bin", "home"):
            (self.folder / name).mkdir()
        self.path = "/usr/bin:/bin"

    def program(self, name: str, script: str) -> None:
        write(self.bin / name, "#!/bin/bash\n" + script, 0o755)

    def records(self, name: str, then: str = "") -> None:
        self.program(name, f'echo "{name} $*" >>{self.folder}/calls\n{then}\n')

    def calls(self) -> str:
        log = self.folder / "calls"
        return log.read_text() if log.exists() else ""

    def run_command(self, *command, **variables) -> subprocess.CompletedProcess:
        environment = {"PATH": f"{self.bin}:{self.path}", "HOME": str(self.folder / "home"), "LC_ALL": "C.UTF-8",
                       "FORGE_BUILD": str(self.folder / "build"), **variables}
        return subprocess.run([str(part) for part in command], env=environment, cwd=self.folder, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)

    def script(self, name: str, *options, **variables) -> subprocess.CompletedProcess:
        return self.run_command("bash", SCRIPTS / name, *options, **variables)


class Manners(Machine):
    def test_help_is_printed_and_nothing_done(self):
        for script in sorted(SCRIPTS.glob("*.sh")):
            if script.name == "common.sh":
                continue
            for options in (["--help"], ["-h"], ["--cpu", "--help"]):
                with self.subTest(script=script.name, options=options):
                    result = self.script(script.name, *options)
                    self.assertEqual(result.returncode, 0, result.stdout)
                    self.assertNotIn("#", result.stdout)
                    self.assertGreater(len(result.stdout.split()), 10)
                    self.assertEqual(list((self.folder / "home").iterdir()), [])
                    self.assertFalse((self.folder / "build").exists())

    def test_unknown_option_is_refused(self):
        for script in ("setup.sh", "packages.sh", "build.sh", "quickstart.sh"):
            with self.subTest(script=script):
                result = self.script(script, "--gpu")
                self.assertEqual(result.returncode, 5, result.stdout)
                self.assertIn("--gpu is no option", result.stdout)
                self.assertIn(f"scripts/{script} --help", result.stdout)

    def test_short_and_clean(self):
        for script in SCRIPTS.glob("*.sh"):
            self.assertLess(len(script.read_text().splitlines()), 100, script)
        if shutil.which("shellcheck"):
            result = subprocess.run(["shellcheck", *sorted(SCRIPTS.glob("*.sh"))], cwd=ROOT, text=True, stdout=subprocess.PIPE)
            self.assertEqual(result.returncode, 0, result.stdout)


class CudaToolkit(Machine):
    """Tests configurations alone, against a LibTorch that has a version and nothing else."""

    def setUp(self):
        super().setUp()
        self.torch = self.folder / "torch"
        write(self.torch / "torch/version.py", "__version__ = '2.11.0+cu130'\n")
        self.toolkit = self.folder / "toolkit"

    def nvcc(self, toolkit: Path, release: str) -> None:
        write(toolkit / "bin/nvcc", f'#!/bin/sh\necho "Cuda compilation tools, release {release}, V{release}.1"\n', 0o755)

    def headers(self, without: str = "") -> None:
        for header in HEADERS:
            if header != without:
                write(self.toolkit / "include" / header, "")

    def configure(self, cuda: str, *settings) -> subprocess.CompletedProcess:
        return self.run_command("cmake", "-S", ROOT, "-B", self.folder / "build", "-G", "Ninja", "-DFORGE_TESTS=OFF",
                                f"-DFORGE_TORCH_DIR={self.torch}", f"-DFORGE_CUDA={cuda}", "-DCMAKE_IGNORE_PATH=/usr/local/include", *settings)

    def steps_back(self, missing: str, *settings) -> None:
        settings = settings or (f"-DFORGE_CUDA_DIR={self.toolkit}",)
        result = self.configure("AUTO", *settings)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertRegex(result.stdout, f"CUDA engine: not built, missing: {missing}. scripts/setup.sh --cuda fetches them")
        refusal = self.configure("ON", *settings)
        self.assertNotEqual(refusal.returncode, 0, refusal.stdout)
        text = " ".join(refusal.stdout.split())
        self.assertRegex(text, f"the CUDA engine cannot be built, missing: {missing}. Fetch them with scripts/setup.sh --cuda")
        self.assertIn("-DFORGE_CUDA=OFF", text)

    def test_whole_toolkit(self):
        self.nvcc(self.toolkit, "13.1")
        self.headers()
        result = self.configure("AUTO", f"-DFORGE_CUDA_DIR={self.toolkit}")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn(f"CUDA engine: built by {self.toolkit}/bin/nvcc", result.stdout)

    def test_nvcc_that_refuses_the_compiler(self):
        write(self.toolkit / "bin/nvcc", """#!/bin/sh
case "$*" in
  *--version*) echo "Cuda compilation tools, release 13.0, V13.0.1" ;;
  *--dryrun*) ;;
  *) echo "crt/host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions later than 15 are not supported!" >&2; exit 1 ;;
esac
""", 0o755)
        self.headers()
        reason = f"{self.toolkit}/bin/nvcc does not compile with the C++ compiler here: crt/host_config.h:143:2: error: #error -- unsupported GNU version!"
        result = self.configure("AUTO", f"-DFORGE_CUDA_DIR={self.toolkit}")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn(f"CUDA engine: not built, {reason}", result.stdout)
        self.assertNotIn("CUDA engine: built by", result.stdout)
        refusal = self.configure("ON", f"-DFORGE_CUDA_DIR={self.toolkit}")
        self.assertNotEqual(refusal.returncode, 0, refusal.stdout)
        text = " ".join(refusal.stdout.split())
        for part in (f"the CUDA engine cannot be built: {reason}", "NVCC_CCBIN", "-DFORGE_CUDA=OFF"):
            self.assertIn(part, text)

    def test_no_nvcc(self):
        self.headers()
        self.steps_back("nvcc of CUDA 13")

    def test_older_nvcc(self):
        self.nvcc(self.toolkit, "12.0")
        self.headers()
        self.steps_back(rf"nvcc of CUDA 13 \(not {self.toolkit}/bin/nvcc, release 12.0\)")

    def test_no_headers(self):
        self.nvcc(self.toolkit, "13.0")
        write(self.toolkit / "include/nccl.h", "")
        self.steps_back(".*crt/host_defines.h, .*cublasLt.h.*")

    @unittest.skipIf(Path("/usr/include/nccl.h").exists(), "this machine has NCCL's headers installed")
    def test_no_nccl(self):
        self.nvcc(self.toolkit, "13.0")
        self.headers(without="nccl.h")
        self.steps_back("nccl.h")

    def test_fetched_nvcc_behind_an_older_one(self):
        self.nvcc(self.folder / "old", "12.0")
        self.nvcc(self.torch / "nvidia/cu13", "13.0")
        for header in HEADERS:
            write(self.torch / "nvidia" / ("nccl" if header == "nccl.h" else "cu13") / "include" / header, "")
        self.path = f"{self.folder}/old/bin:{self.path}"
        result = self.configure("AUTO")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertRegex(result.stdout, "CUDA engine: built by .*nvcc")  # this machine's own, if it has one
        self.assertNotIn("old/bin/nvcc", result.stdout)

    def test_commands_hold_what_is_loaded_later(self):
        """What scripts/build.sh builds: no test, and no library that forge opens only when it needs it, may be missing."""
        configured = self.configure("OFF")
        self.assertEqual(configured.returncode, 0, configured.stdout)
        held = self.run_command("ninja", "-C", self.folder / "build", "-t", "query", "commands").stdout.split()
        known = self.run_command("ninja", "-C", self.folder / "build", "-t", "targets", "all").stdout
        for part in ("bin/forge", "lib/libforge-http.so", "lib/libforge-parquet.so", "bin/forge-engine"):
            if part != "lib/libforge-parquet.so" or f"{part}:" in known:  # without Arrow there is none
                self.assertIn(part, held)

    def test_toolkit_that_comes_and_goes(self):
        self.steps_back("nvcc of CUDA 13, cuda_runtime_api.h, .*")
        self.nvcc(self.toolkit, "13.0")
        self.headers()
        self.assertIn("CUDA engine: built by", self.configure("AUTO").stdout)
        self.nvcc(self.toolkit, "12.0")
        self.assertIn("CUDA engine: not built, missing: nvcc of CUDA 13", self.configure("AUTO").stdout)


class SystemLibraries(Machine):
    def test_shared_libraries_where_archives_are_missing(self):
        prefix = self.folder / "prefix"
        prefix.mkdir()
        (prefix / "include").symlink_to("/usr/include")
        names = ("yaml-cpp", "pcre2-8", "utf8proc", "sentencepiece", "z", "zstd", "curl", "crypto")
        for name in names:
            write(prefix / f"lib/lib{name}.so", "")
        settings = ("-DFORGE_ENGINE=OFF", "-DFORGE_TESTS=OFF", "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF",
                    "-DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=ON", f"-DCMAKE_PREFIX_PATH={prefix}")
        configure = ("cmake", "-S", ROOT, "-B", self.folder / "build", "-G", "Ninja", *settings)
        result = self.run_command(*configure)
        self.assertEqual(result.returncode, 0, result.stdout)
        for name in names:
            self.assertIn(f": {prefix}/lib/lib{name}.so (", result.stdout)
        self.assertNotIn("PCRE2_STATIC", (self.folder / "build/build.ninja").read_text())
        (prefix / "lib/libutf8proc.so").unlink()
        shutil.rmtree(self.folder / "build")
        result = self.run_command(*configure)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(" ".join(result.stdout.split()), r"utf8proc.h or libutf8proc.a not found: .* package libutf8proc-dev")


class Cards(Machine):
    def generations(self, text: str, code: int = 0) -> str:
        self.program("nvidia-smi", f"cat <<'E'\n{text}\nE\nexit {code}\n")
        result = self.run_command("bash", "-c", f". {SCRIPTS}/common.sh; cards")
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout.strip()

    def test_what_the_driver_says(self):
        self.assertEqual(self.generations("8.9, 580.65.06\n7.5, 580.65.06\n8.9, 580.65.06"), "75;89")
        self.assertEqual(self.generations("12.0, 590.10"), "120")
        self.assertEqual(self.generations("6.1, 580.65.06\n9.0, 580.65.06"), "90")
        self.assertEqual(self.generations("6.1, 580.65.06"), "")
        self.assertEqual(self.generations("8.9, 575.57.08"), "")  # a driver for CUDA 12
        self.assertEqual(self.generations("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9), "")

    def build(self, *options) -> str:
        (self.folder / "calls").unlink(missing_ok=True)
        self.records("cmake")
        self.records("ninja", f"mkdir -p {self.folder}/build/bin; : >{self.folder}/build/bin/forge; chmod +x {self.folder}/build/bin/forge")
        result = self.script("build.sh", *options)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.said = result.stdout
        return self.calls()

    def test_build_is_for_the_card(self):
        self.assertNotIn("FORGE_CUDA_TARGETS", self.build())
        self.assertIn("commands", self.calls())
        self.generations("8.9, 580.65.06")
        self.assertIn("-DFORGE_CUDA=AUTO -DFORGE_CUDA_TARGETS=89", self.build())
        self.assertIn("-DFORGE_CUDA_TARGETS=89 -DFORGE_CUDA_TARGETS=90", self.build("-DFORGE_CUDA_TARGETS=90"))  # the last counts
        self.assertIn("-UFORGE_CUDA_TARGETS", self.build("--release"))
        self.assertIn("-DFORGE_CUDA=OFF", self.build("--cpu"))
        self.assertRegex(self.build("--tests"), "ninja .* all")

    def test_build_names_what_to_do_about_cmake(self):
        self.program("cmake", "echo cmake version 3.22.1")
        result = self.script("build.sh")
        self.assertEqual(result.returncode, 5, result.stdout)
        for text in ("CMake here is 3.22.1, a build needs 3.25", "the wheel, the tarball or the container", "docs/install.md"):
            self.assertIn(text, result.stdout)
        (self.bin / "cmake").unlink()
        self.path = str(self.bin)
        for tool in ("bash", "dirname", "basename", "awk", "nproc", "sed"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        result = self.script("build.sh")
        self.assertEqual(result.returncode, 5, result.stdout)
        for text in ("cmake not found", "scripts/setup.sh"):
            self.assertIn(text, result.stdout)

    def test_build_says_where_forge_is(self):
        self.build()
        self.assertIn(f'forge is {self.folder}/build/bin/forge, which is not on PATH: export PATH="{self.folder}/build/bin:$PATH"', self.said)
        self.build("--link")
        link = self.folder / "home/.local/bin/forge"
        self.assertEqual(os.readlink(link), f"{self.folder}/build/bin/forge")
        self.assertIn(f"forge is {link}", self.said)
        (self.folder / "prefix").mkdir()
        self.assertIn(f"--install {self.folder}/build --prefix {self.folder}/prefix", self.build("--prefix", self.folder / "prefix"))

    def quickstart(self, *options) -> str:
        """Runs a copy of quickstart.sh beside fakes of the other scripts, up to the run of the job.
        """
        (self.folder / "calls").unlink(missing_ok=True)
        scripts = self.folder / "copy/scripts"
        scripts.mkdir(parents=True, exist_ok=True)
        shutil.copy(SCRIPTS / "quickstart.sh", scripts)
        shutil.copy(SCRIPTS / "common.sh", scripts)
        for name in ("setup.sh", "build.sh"):
            write(scripts / name, f'#!/bin/bash\necho "{name} $*" >>{self.folder}/calls\n', 0o755)
        write(scripts / "devils_dictionary.py", "")
        write(self.folder / "build/bin/forge", f'#!/bin/bash\necho "forge $*" >>{self.folder}/calls\nexit 9\n', 0o755)
        result = self.run_command("bash", scripts / "quickstart.sh", *options)
        self.assertEqual(result.returncode, 9, result.stdout)
        return self.calls()

    def test_quickstart_is_for_the_card(self):
        run = "forge run examples/sft-lora-smollm2.yaml"
        self.assertEqual(self.quickstart(), f"setup.sh \nbuild.sh --cpu\n{run}\n")
        self.assertEqual(self.quickstart("--link"), f"setup.sh \nbuild.sh --link --cpu\n{run}\n")
        self.generations("8.9, 580.65.06")
        self.assertEqual(self.quickstart(), f"setup.sh --cuda\nbuild.sh \n{run}\n")
        self.assertEqual(self.quickstart("--cpu"), f"setup.sh \nbuild.sh --cpu\n{run} --set hardware.device=cpu\n")


class Packages(Machine):
    def test_no_apt(self):
        self.path = str(self.bin)
        for tool in ("bash", "dirname", "basename", "sed", "printf", "grep"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        result = self.script("packages.sh")
        self.assertEqual(result.returncode, 5, result.stdout)
        for text in ("no apt-get", "the wheel, the tarball and the container", "docs/install.md", "yaml-cpp-devel"):
            self.assertIn(text, result.stdout)
        for tool in ("g++", "cmake", "ninja", "python3"):
            self.program(tool, "")
        self.assertEqual(self.script("packages.sh").returncode, 0)

    def test_pip_of_the_unpacked_packages(self):
        self.program("apt-get", "")
        self.program("dpkg-query", "echo installed")
        self.program("cmake", "")
        self.program("python3", f'[[ ${{PYTHONPATH-}} = */system/usr/lib/python3/dist-packages ]] || exit 1\n'
                                f'echo "python3 $*" >>{self.folder}/calls\n[ "$3" = --version ]\n')
        result = self.script("setup.sh")
        self.assertEqual(result.returncode, 5, result.stdout)
        self.assertIn("python3 -m pip download", self.calls())
        self.assertIn("downloading torch==2.11.0 failed", result.stdout)
        self.program("python3", "exit 1")
        result = self.script("setup.sh")
        self.assertEqual(result.returncode, 5, result.stdout)
        self.assertIn("install the package python3-pip", result.stdout)

    @unittest.skipUnless(shutil.which("dpkg-deb"), "needs dpkg-deb")
    def test_without_root(self):
        libraries = self.folder / "package/usr/lib/x86_64-linux-gnu"
        write(self.folder / "package/DEBIAN/control", "Package: p\nVersion: 1\nArchitecture: all\nMaintainer: n <n@n>\nDescription: d\n")
        write(libraries / "libp.a", "")
        (libraries / "libp.so").symlink_to("libc.so.6")  # a development package's link names an installed library so
        write(libraries / "libc.so", "GROUP ( /lib/x86_64-linux-gnu/libc.so.6 /usr/lib/x86_64-linux-gnu/libc_nonshared.a )\n")
        write(self.folder / "package/lib/x86_64-linux-gnu/libq.so.1", "")
        write(self.folder / "package/usr/bin/g++", "#!/bin/sh\necho $*\n", 0o755)
        archive = self.folder / "p.deb"
        subprocess.run(["dpkg-deb", "-b", "--root-owner-group", self.folder / "package", archive], check=True, stdout=subprocess.DEVNULL)
        self.program("id", "echo 1000")
        self.program("dpkg-query", "exit 1")
        self.records("apt-get", f'for o; do case $o in Dir::Cache=*) cache=${{o#*=}};; install) cp {archive} $cache/archives;; esac; done')
        result = self.script("packages.sh", "--rootless")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("--download-only g++ cmake", self.calls())
        system = self.folder / "home/.cache/forge/system"
        unpacked = system / "usr/lib/x86_64-linux-gnu"
        self.assertTrue((unpacked / "libp.so").exists())
        self.assertTrue((unpacked / "libq.so.1").exists())
        self.assertIn(f" {unpacked}/libc_nonshared.a", (unpacked / "libc.so").read_text())
        seen = self.run_command("bash", "-c", f". {SCRIPTS}/common.sh; g++ -c a.cpp; echo $CMAKE_PREFIX_PATH").stdout
        self.assertIn(f"-c a.cpp -idirafter {system}/usr/include/x86_64-linux-gnu", seen)
        self.assertIn(f"{system}/usr\n", seen)
        self.program("apt-get", "exit 1")
        self.assertEqual(self.script("packages.sh").returncode, 0)  # nothing is done twice


class Requirements(unittest.TestCase):
    def wheels(self, name: str) -> dict:
        rows = re.findall(r"^(\S+)==(\S+) --hash=sha256:[0-9a-f]{64}$", (SCRIPTS / name).read_text(), re.M)
        return dict(rows)

    @unittest.skipUnless(TORCH, "needs the folder of LibTorch")
    def test_cuda_wheels_are_those_of_torch(self):
        metadata = (TORCH / "torch-2.11.0.dist-info/METADATA").read_text()
        wheels = self.wheels("requirements-cuda.txt")
        for name, version in re.findall(r"^Requires-Dist: (nvidia-\S+)==([\d.]+); platform_system == \"Linux\"", metadata, re.M):
            self.assertEqual(wheels.get(name), version)
        extras, toolkit = re.search(r"^Requires-Dist: cuda-toolkit\[(.*)\]==([\d.]+)", metadata, re.M).groups()
        names = {"cudart": "nvidia-cuda-runtime", "cupti": "nvidia-cuda-cupti", "nvrtc": "nvidia-cuda-nvrtc"}
        for extra in extras.split(","):
            self.assertIn(names.get(extra, f"nvidia-{extra}"), wheels)
        self.assertIn(f"cuda-toolkit[nvcc,crt,nvvm,cccl]=={toolkit}", (SCRIPTS / "cuda_requirements.py").read_text())

    def test_what_both_files_name_is_the_same(self):
        cuda = self.wheels("requirements-cuda.txt")
        both = {name: version for name, version in self.wheels("requirements.txt").items() if name in cuda}
        self.assertEqual(sorted(both), ["nvidia-cuda-cupti", "nvidia-cuda-runtime"])
        self.assertEqual(both, {name: cuda[name] for name in both})


if __name__ == "__main__":
    unittest.main()

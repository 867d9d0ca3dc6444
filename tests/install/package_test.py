#!/usr/bin/env python3
"""Checks the packages that scripts/package.sh makes of a build folder: contents, hashes, tags and
floors, and that they start.

    package_test.py SOURCE BUILD        builds nothing: BUILD holds what is packed
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock
import zipfile

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
del sys.argv[1:3]
sys.path.insert(0, str(SOURCE / "packaging"))
import floors  # noqa: E402

HERE = pathlib.Path(tempfile.mkdtemp(prefix="forge package "))
ENGINES = [name for name in ("forge-engine", "forge-engine-cuda13") if (BUILD / "bin" / name).exists()]
LIBRARIES = ["libsentencepiece.so.0", "libforge-http.so"] + [p.name for p in sorted((BUILD / "lib").glob("libforge-*.so")) if p.name != "libforge-http.so"]
# The environment has no LibTorch, no engine, and no interpreter but the machine's.
BARE = {"PATH": "/usr/bin:/bin", "HOME": str(HERE), "LC_ALL": "C.UTF-8"}


def package(kind, folder):
    """Makes the package in `folder`; returns its path."""
    answer = subprocess.run([SOURCE / "scripts/package.sh", kind, "--output", folder, "--as-built"], text=True,
                            capture_output=True, env={**os.environ, "FORGE_BUILD": str(BUILD)})
    assert answer.returncode == 0, answer.stderr
    return pathlib.Path(answer.stdout.strip())


def run(*command, **variables):
    return subprocess.run(command, text=True, capture_output=True, cwd=HERE, env={**BARE, **variables})


def setUpModule():
    global wheel, tarball
    wheel, tarball = package("wheel", HERE / "out"), package("tarball", HERE / "out")


def tearDownModule():
    shutil.rmtree(HERE)


class Wheel(unittest.TestCase):
    def test_contents(self):
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}
        self.assertEqual(len(names), len(set(names)))
        data, info = "forge_finetune-0.1.0.data/", "forge_finetune-0.1.0.dist-info/"
        programs = [data + "scripts/forge"] + [data + "data/libexec/" + engine for engine in ENGINES]
        libraries = [data + "data/libexec/forge/" + library for library in LIBRARIES]
        self.assertEqual(sorted(name for name in names if name.startswith(data)), sorted(programs + libraries))
        self.assertTrue(all(modes[name] == 0o755 for name in programs))
        for licence in ("LICENSE", "NOTICE", "libsentencepiece0.txt", "libyaml-cpp-dev.txt"):
            self.assertIn(f"{info}licenses/{licence}", names)
        self.assertFalse([name for name in names if not name.startswith((data, info))])

    def test_record_has_the_hash_of_every_file(self):
        with zipfile.ZipFile(wheel) as archive:
            record = next(name for name in archive.namelist() if name.endswith("/RECORD"))
            lines = archive.read(record).decode().splitlines()
            listed = {name: (digest, size) for name, digest, size in (line.rsplit(",", 2) for line in lines)}
            self.assertEqual(sorted(listed), sorted(archive.namelist()))
            for name, (digest, size) in listed.items():
                if name != record:
                    content = archive.read(name)
                    hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                    self.assertEqual((digest, int(size)), (f"sha256={hashed}", len(content)), name)

    def test_metadata_and_tag(self):
        with zipfile.ZipFile(wheel) as archive:
            metadata = archive.read("forge_finetune-0.1.0.dist-info/METADATA").decode()
            tags = re.findall("^Tag: (.*)$", archive.read("forge_finetune-0.1.0.dist-info/WHEEL").decode(), re.M)
        self.assertIn("\nRequires-Dist: torch==2.11.0\n", metadata)
        self.assertEqual(wheel.name, f"forge_finetune-0.1.0-{tags[0]}.whl")
        self.assertRegex(tags[0], r"^py3-none-manylinux_2_(28|31|34|35)_x86_64$")

    def test_pip_installs_it_and_removes_it(self):
        prefix = HERE / "pip"
        environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
        answer = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", prefix, wheel],
                                text=True, capture_output=True, env=environment)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(run(prefix / "bin/forge", "--version").stdout, "forge 0.1.0\n")
        for engine in ENGINES:
            self.assertTrue(os.access(prefix / "libexec" / engine, os.X_OK))
        (prefix / "torch").symlink_to(BUILD / "libexec/forge/site-packages/torch")
        (prefix / "nvidia").symlink_to(BUILD / "libexec/forge/site-packages/nvidia")
        doctor = run(prefix / "bin/forge", "doctor")
        self.assertEqual(doctor.returncode, 0, doctor.stdout)

    def test_the_same_build_gives_the_same_bytes(self):
        self.assertEqual(package("wheel", HERE / "again").read_bytes(), wheel.read_bytes())


class Tarball(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = HERE / "unpacked with a blank"
        with tarfile.open(tarball) as archive:
            cls.owners = {(entry.uid, entry.gid, entry.uname, entry.mtime) for entry in archive.getmembers()}
            archive.extractall(cls.folder)
        (cls.tree,) = cls.folder.iterdir()

    def test_contents(self):
        self.assertEqual(self.owners, {(0, 0, "", 0)})
        found = sorted(str(path.relative_to(self.tree)) for path in self.tree.rglob("*")
                       if path.is_file() and not path.is_relative_to(self.tree / "share"))
        self.assertEqual(found, sorted(["bin/forge"] + [f"libexec/{engine}" for engine in ENGINES] +
                                       [f"libexec/forge/{library}" for library in LIBRARIES]))
        for name in ("LICENSE", "NOTICE", "README.md", "schemas/job.schema.json", "licenses/libsentencepiece0.txt"):
            self.assertTrue((self.tree / "share/forge" / name).is_file(), name)

    def test_it_starts_and_says_how_to_get_libtorch(self):
        self.assertEqual(run(self.tree / "bin/forge", "--version").stdout, "forge 0.1.0\n")
        (HERE / "none").mkdir(exist_ok=True)
        (HERE / "none/python3").write_text("#!/bin/sh\n")
        (HERE / "none/python3").chmod(0o755)
        doctor = run(self.tree / "bin/forge", "doctor", PATH=f"{HERE}/none:/usr/bin:/bin")
        self.assertEqual(doctor.returncode, 5, doctor.stdout)
        self.assertIn(f"pip install torch==2.11.0 --target '{self.tree}/libexec/forge/site-packages'", doctor.stdout)

    def test_it_is_whole_with_libtorch(self):
        doctor = run(self.tree / "bin/forge", "doctor", FORGE_TORCH_DIR=str(BUILD / "libexec/forge/site-packages"))
        self.assertEqual(doctor.returncode, 0, doctor.stdout)
        self.assertIn(str(self.tree / "libexec/forge-engine"), doctor.stdout)

    def test_binaries(self):
        """The floors are those that the documentation states, beyond what package.sh itself
        refuses.
        """
        stated = (SOURCE / "docs/packaging.md").read_text()
        floor = floors.floors(self.tree)
        self.assertIn(f"glibc {floor['GLIBC']} and libstdc++ 11 (GLIBCXX_{floor['GLIBCXX']})", stated)
        own = str(BUILD).encode()
        for path in floors.binaries(self.tree):
            self.assertNotIn(own, pathlib.Path(path).read_bytes(), path)


class Installed(unittest.TestCase):
    """Tests `cmake --install`, for the machine that built it."""

    def install(self, script):
        prefix = pathlib.Path(tempfile.mkdtemp(dir=HERE))
        answer = run("cmake", f"-DCMAKE_INSTALL_PREFIX={prefix}", "-P", script, PATH=os.environ["PATH"])
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return prefix

    def test_it_finds_the_libtorch_of_its_build(self):
        prefix = self.install(BUILD / "cmake_install.cmake")
        doctor = run(prefix / "bin/forge", "doctor")
        self.assertEqual(doctor.returncode, 0, doctor.stdout)
        self.assertIn(str(prefix / "libexec/forge-engine"), doctor.stdout)

    def test_what_was_not_built_is_left_out(self):
        script = HERE / "install.cmake"
        text = re.sub(r"/(bin/forge-engine|lib/libforge-)", r"/not-built/\1", (BUILD / "cmake_install.cmake").read_text())
        self.assertIn("not-built", text)
        script.write_text(text)
        prefix = self.install(script)
        self.assertEqual(run(prefix / "bin/forge", "--version").stdout, "forge 0.1.0\n")
        self.assertEqual(list((prefix / "libexec").glob("forge-engine*")), [])


class Floors(unittest.TestCase):
    """Tests the refusals of package.sh on binaries of this compiler."""

    def compiled(self, name, source, *options):
        folder = pathlib.Path(tempfile.mkdtemp(dir=HERE))
        path = folder / name
        subprocess.run(["g++", "-x", "c++", "-", "-x", "none", "-o", path, *options], input=source, text=True, check=True)
        return path

    def faults(self, path):
        return "\n".join(floors.faults(str(path), set()))

    def test_a_symbol_above_the_floor(self):
        path = self.compiled("forge", "int main() {}", "-s")
        self.assertEqual(self.faults(path), "")
        with unittest.mock.patch.dict(floors.HIGHEST, GLIBC="2.33"):
            self.assertIn("forge: needs GLIBC_2.34, expected at most GLIBC_2.33", self.faults(path))

    def test_a_library_from_nowhere(self):
        path = self.compiled("libz.so.9", "", "-shared", "-s", "-Wl,-soname,libz.so.9")
        program = self.compiled("forge", "int main() {}", "-s", "-Wl,--no-as-needed", path)
        self.assertIn("forge: needs libz.so.9, which is neither in the package nor allowed from outside", self.faults(program))

    def test_a_folder_of_the_builder(self):
        path = self.compiled("forge", "int main() {}", "-s", "-Wl,-rpath,/opt/builder/lib:$ORIGIN")
        self.assertIn("looks for libraries in /opt/builder/lib:$ORIGIN, expected $ORIGIN alone", self.faults(path))

    def test_symbols_for_debuggers(self):
        self.assertIn("forge: is not stripped", self.faults(self.compiled("forge", "int main() {}", "-g")))

    def test_tags_follow_the_policies(self):
        tag = floors.platform_tag
        self.assertEqual(tag({"GLIBC": "2.34", "GLIBCXX": "3.4.29"}), "manylinux_2_34_x86_64")
        self.assertEqual(tag({"GLIBC": "2.34", "GLIBCXX": "3.4.30"}), "manylinux_2_35_x86_64")
        self.assertIsNone(tag({"GLIBC": "2.36", "GLIBCXX": "3.4.29"}))


if __name__ == "__main__":
    unittest.main(verbosity=2)

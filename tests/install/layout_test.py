#!/usr/bin/env python3
"""The program finds its engine and LibTorch wherever installers put them, without an active
environment.

    layout_test.py FORGE        FORGE: the built program, copied into each layout
"""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

FORGE = pathlib.Path(sys.argv.pop(1)).resolve()
RELEASE = "2.11.0"


def put_torch(folder, release=RELEASE):
    """Writes the files that the search reads: the library's name and the version."""
    (folder / "torch/lib").mkdir(parents=True)
    (folder / "torch/lib/libtorch_cpu.so").touch()
    (folder / "torch/version.py").write_text(f"__version__ = '{release}+cu130'\n")
    return folder


def put_python(path, *folders):
    """Writes an interpreter whose sys.path is `folders`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nprintf '%s\\n' " + shlex.join(map(str, folders)) + "\n")
    path.chmod(0o755)


class Layouts(unittest.TestCase):
    def setUp(self):
        self.here = pathlib.Path(tempfile.mkdtemp(prefix="a layout's "))
        self.addCleanup(shutil.rmtree, self.here)
        self.prefix = self.here / "prefix"
        (self.prefix / "bin").mkdir(parents=True)
        shutil.copy(FORGE, self.prefix / "bin/forge")
        (self.here / "empty").mkdir()
        self.environment = {"PATH": f"{self.here}/empty:/usr/bin:/bin", "HOME": str(self.here)}
        # This machine's interpreters may have LibTorch, so the first python3 of PATH has none.
        put_python(self.here / "empty/python3")

    def doctor(self, program=None, **variables):
        answer = subprocess.run([program or self.prefix / "bin/forge", "doctor", "--json"], cwd=self.here, text=True,
                                capture_output=True, env={**self.environment, **variables})
        self.assertTrue(answer.stdout, answer.stderr)
        return {finding["what"]: finding for finding in json.loads(answer.stdout)["findings"]}

    def assert_found(self, folder, **options):
        torch = self.doctor(**options)["LibTorch"]
        self.assertEqual((torch["state"], torch["found"]), ("ok", f"{RELEASE}+cu130 in {folder}"), torch)

    def test_layouts_of_installers(self):
        for place in ("lib/python3.11/site-packages",          # a virtual environment, conda, --user
                      "lib/python3.13/site-packages",
                      "lib64/python3.12/site-packages",        # Fedora keeps binary packages here
                      "lib/python3/dist-packages",             # Debian's packages
                      "lib/python3.11/dist-packages",          # Debian's pip as root: /usr/local
                      "libexec/forge/site-packages",           # an unpacked tarball with pip --target
                      "."):                                    # pip --target of the wheel
            with self.subTest(place):
                folder = put_torch(self.prefix / place)
                self.assert_found(folder.resolve())
                shutil.rmtree(folder / "torch")

    def test_a_link_in_a_folder_of_the_path_is_followed(self):
        folder = put_torch(self.prefix / "lib/python3.11/site-packages")
        (self.here / "elsewhere").mkdir()
        (self.here / "elsewhere/forge").symlink_to(self.prefix / "bin/forge")
        self.assert_found(folder, program=self.here / "elsewhere/forge")

    def test_the_interpreter_beside_the_program_is_asked_before_that_of_the_path(self):
        near, far = put_torch(self.here / "near"), put_torch(self.here / "far")
        put_python(self.prefix / "bin/python3", near)
        put_python(self.here / "empty/python3", far)
        self.assert_found(near)
        (self.prefix / "bin/python3").unlink()
        self.assert_found(far)

    def test_another_release_is_passed_over(self):
        put_torch(self.prefix / "lib/python3.11/site-packages", "2.9.0")
        folder = put_torch(self.prefix / "lib/python3.13/site-packages")
        self.assert_found(folder)
        shutil.rmtree(folder)
        torch = self.doctor()["LibTorch"]
        self.assertEqual(torch["state"], "problem")
        self.assertIn(f"LibTorch 2.9.0, expected {RELEASE}", torch["found"])

    def test_a_given_folder_comes_first(self):
        put_torch(self.prefix / "lib/python3.11/site-packages")
        given = put_torch(self.here / "given")
        self.assert_found(given, FORGE_TORCH_DIR=str(given))

    def test_without_libtorch_the_remedy_is_a_command_that_works_here(self):
        torch = self.doctor()["LibTorch"]
        self.assertEqual(torch["state"], "problem")
        self.assertIn(f"--target '{self.prefix}/libexec/forge/site-packages'", torch["remedy"])

    def test_engines_lie_in_libexec(self):
        (self.prefix / "libexec").mkdir()
        engine = self.prefix / "libexec/forge-engine"
        engine.write_text("#!/bin/sh\n")
        engine.chmod(0o755)
        self.assertEqual(self.doctor()["engine"]["found"], str(engine))


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""Checks that the engine starts. Standard library only.

The engine's own answer decides, after it computed a sum over one rank by NCCL. `forge doctor` is
printed as well; it also looks for a CPU engine, which the kit does not carry."""
import json
import subprocess
import sys

import kit


def info() -> dict:
    engine = subprocess.Popen([str(kit.KIT / "bin/forge-engine-cuda13")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=kit.program_environment())
    engine.stdin.write('{"command": "info"}\n')
    engine.stdin.flush()  # kept open: the engine stops when its input ends
    said = []
    for line in engine.stdout:
        said.append(line)
        if '"event":"done"' in line:
            engine.stdin.close()
            engine.wait()
            return json.loads(line)
    sys.exit(f"forge-engine-cuda13: exit {engine.wait()}\n{''.join(said)[-1500:]}{engine.stderr.read()[-1500:]}")


if __name__ == "__main__":
    answer = info()
    kit.figure(**answer)
    if answer["cuda_devices"] < 1:
        sys.exit(answer["cuda"])
    doctor = subprocess.run([str(kit.KIT / "bin/forge"), "doctor"], capture_output=True, text=True, env=kit.program_environment())
    kit.figure(doctor=doctor.returncode, says=(doctor.stdout + doctor.stderr)[-4000:])

"""Reads how a build folder compiles each source."""
import json
import pathlib
import re
import shlex


def read(build):
    """Returns {source: words of its compile command}, also for sources that are compiled together
    (forge_joined in cmake/toolchain.cmake); the words then name the file that includes them.
    """
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        joined = re.findall(r'^#include "(.+)"$', file.read_text(), re.MULTILINE) if file.parent.name == "Unity" else [file]
        for source in joined:
            commands.setdefault(pathlib.Path(source), shlex.split(entry["command"]))
    return commands

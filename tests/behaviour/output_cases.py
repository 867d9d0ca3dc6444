"""Files that a user names for output, where something stands already: a link, a file of its own mode, a device, a mount."""
import json
import os
import stat
import subprocess
from pathlib import Path

from lab import Lab, MODEL


def rows_in(folder: Path) -> dict:
    (folder / "rows.jsonl").write_text('{"prompt": "one", "completion": " two"}\n' * 8)
    return {"data": {"train": [{"path": str(folder / "rows.jsonl")}]}}


def save_a_chat(lab: Lab, path: Path) -> None:
    subprocess.run([lab.forge, "chat", "--model", str(MODEL), "--template", "chatml", "--max-new-tokens", "2"], input=f"hi\n/save {path}\n",
                   text=True, capture_output=True, check=True, timeout=60)


def commands(lab: Lab, data: dict) -> dict:
    """By its option, the command that writes to a path."""
    lab.run()
    return {"--html": lambda path: lab.run("--html", str(path), command="data", name="data", **data),
            "--dump": lambda path: lab.run("--dump", str(path), command="data", name="data", **data),
            "--trace": lambda path: lab.run("--trace", str(path), "--steps", "1", "--seconds", "0", command="bench", name="bench"),
            "--per-example": lambda path: lab.evaluate(str(lab.folder / "run"), "--per-example", str(path)),
            "/save": lambda path: save_a_chat(lab, path)}


def init(lab: Lab, path: Path) -> None:
    subprocess.run([lab.forge, "init", str(path)], check=True, capture_output=True)


def a_link_stays_a_link(lab: Lab):
    for number, (option, write) in enumerate(commands(lab, rows_in(lab.folder)).items()):
        target, link = lab.folder / f"target-{number}", lab.folder / f"link-{number}"
        target.write_text("old\n")
        link.symlink_to(target)
        write(link)
        assert link.is_symlink() and len(target.read_text()) > 10, option
    link = lab.folder / "link-to-nothing"
    link.symlink_to(lab.folder / "made.yaml")
    init(lab, link)  # which refuses a file that is there
    assert link.is_symlink() and "version: 1" in (lab.folder / "made.yaml").read_text()


def a_file_keeps_its_mode(lab: Lab):
    for number, (option, write) in enumerate(commands(lab, rows_in(lab.folder)).items()):
        path = lab.folder / f"private-{number}"
        path.write_text("old\n")
        path.chmod(0o600)
        write(path)
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600 and len(path.read_text()) > 10, option
        assert option == "/save" or not path.read_text().startswith("old"), option


def a_device_stays_a_device(lab: Lab):
    def device(name: str) -> Path:
        path = lab.folder / name
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # as /dev/null
        path.write_text("x")
        return path

    try:
        device("first")
    except OSError:
        return print("     (not tried: this user may not make a device here)")
    for number, (option, write) in enumerate([*commands(lab, rows_in(lab.folder)).items(), ("init", lambda path: init(lab, path))]):
        path = device(f"null-{number}")
        write(path)
        assert stat.S_ISCHR(path.lstat().st_mode), option


def a_file_that_is_mounted_by_itself_is_written(lab: Lab):
    """As docker run -v out.jsonl:/data/out.jsonl mounts one."""
    data = rows_in(lab.folder)
    lab.run("--dump", str(lab.folder / "whole"), command="data", name="data", **data)
    outside, inside = lab.folder / "outside", lab.folder / "inside"
    outside.write_text("old")
    inside.touch()
    mounted = ["unshare", "--mount", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh", str(outside), str(inside)]
    if subprocess.run([*mounted, "true"], capture_output=True).returncode != 0:
        return print("     (not tried: this user may not mount)")
    done = subprocess.run([*mounted, lab.forge, "data", str(lab.folder / "data.json"), "--dump", str(inside)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert outside.read_bytes() == (lab.folder / "whole").read_bytes() and not list(lab.folder.glob("inside.tmp*"))


def saved_rows_stand_on_lines_of_their_own(lab: Lab):
    path = lab.folder / "saved.jsonl"
    path.write_text('{"messages": []}')  # as an editor without a last newline leaves it
    for _ in range(2):
        save_a_chat(lab, path)
    lines = path.read_text().splitlines()
    assert len(lines) == 3 and all("messages" in json.loads(line) for line in lines), lines

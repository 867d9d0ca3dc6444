"""First contact with a GPU, in one command: python3 forge-first-contact.pyz --output DIR

Unpacks the kit once, into the system's folder for temporary files, and runs run.py there with the
same options."""
import os
import sys
import tempfile
import zipfile
from pathlib import Path

ARCHIVE = Path(__file__).resolve().parent


def unpacked() -> Path:
    stamp = ARCHIVE.stat()
    folder = Path(tempfile.gettempdir()) / f"forge-first-contact-{stamp.st_size:x}-{int(stamp.st_mtime):x}"
    if folder.exists():
        return folder
    whole = folder.with_suffix(".part")
    with zipfile.ZipFile(ARCHIVE) as archive:
        for entry in archive.infolist():
            os.chmod(archive.extract(entry, whole), entry.external_attr >> 16 or 0o644)
    whole.rename(folder)
    return folder


if __name__ == "__main__":
    script = unpacked() / "bench/gpu/first_contact/run.py"
    os.execv(sys.executable, [sys.executable, str(script), *sys.argv[1:]])

#!/usr/bin/env bash
# Tries the packages in empty roots of Debian 12 and 13 or Ubuntu, which debootstrap makes below DIR
# (root is needed, 20 GB):
#   packaging/try.sh FOLDER_OF_PACKAGES DIR [bookworm | trixie | jammy | noble …]
# In each root it tries the wheel in a bare environment (pip, doctor, Parquet, a first adapter on
# own data, uninstall), then the tarball with LibTorch's three wheels for a CPU. Prints seconds and
# sizes; the first failure ends it. The machine's certificates, resolver and PIP_* are taken along;
# $PIP_FIND_LINKS may be a folder of wheels downloaded before.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
packages=$(cd "$1" && pwd) place=$(mkdir -p "$2" && cd "$2" && pwd)
shift 2
[ $# -gt 0 ] || set -- bookworm trixie
model=${FORGE_CACHE:-$HOME/.cache/forge}/models/SmolLM2-135M-Instruct.gguf
wheels=${PIP_FIND_LINKS-}

unmount() { for folder in proc wheels packages; do umount "$1/$folder" 2>/dev/null || true; done; }

for suite in "$@"; do
  chroot=$place/$suite
  case $suite in
    jammy | noble | questing | resolute) distribution=(--components=main,universe "$suite" "$place/$suite.part" '' gutsy) ;;
    *) distribution=("$suite" "$place/$suite.part") ;;
  esac
  if [ ! -d "$place/$suite.clean" ]; then
    rm -rf "$place/$suite.part"
    debootstrap --variant=minbase --include=ca-certificates,python3-venv "${distribution[@]}" >"$place/$suite.log"
    mv "$place/$suite.part" "$place/$suite.clean"
  fi
  rm -rf "$chroot"
  cp -a "$place/$suite.clean" "$chroot"
  mkdir -p "$chroot"/{packages,wheels}
  cp "$model" "$chroot/root/model.gguf"
  cp "$here/in_root.sh" "$chroot/root/"
  cp /etc/resolv.conf "$chroot/etc/"
  cp /etc/ssl/certs/ca-certificates.crt "$chroot/etc/ssl/certs/"
  trap 'unmount "$chroot"' EXIT
  mount -t proc proc "$chroot/proc"
  mount --bind -o ro "$packages" "$chroot/packages"
  [ ! -d "$wheels" ] || mount --bind -o ro "$wheels" "$chroot/wheels"
  echo "== $suite"
  chroot "$chroot" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LC_ALL=C.UTF-8 PIP_FIND_LINKS=/wheels \
    PIP_ROOT_USER_ACTION=ignore PIP_CERT=/etc/ssl/certs/ca-certificates.crt bash /root/in_root.sh
  unmount "$chroot"
  rm -rf "$chroot"
done

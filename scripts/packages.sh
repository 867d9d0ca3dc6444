#!/usr/bin/env bash
# Installs the system packages that building forge needs, on Debian and Ubuntu, as root or with
# sudo. Without either, unpacks them below ~/.cache/forge/system, with which the scripts beside this
# one then build. On another system it says what is needed.
#
#   scripts/packages.sh [--rootless]
#
#   --rootless  unpacks them even if sudo is available
. "$(dirname "$0")/common.sh"
[ $# = 0 ] || [ "$*" = --rootless ] || die "$* is no option" "scripts/packages.sh --help"
packages=(g++ cmake ninja-build ccache mold git python3 python3-pip ca-certificates
  libcli11-dev libyaml-cpp-dev nlohmann-json3-dev libsentencepiece-dev libfmt-dev catch2 libpcre2-dev
  libutf8proc-dev libxxhash-dev zlib1g-dev libzstd-dev libcurl4-openssl-dev libssl-dev libedit2 dict-devil python3-jsonschema python3-yaml)
fedora='gcc-c++ cmake ninja-build ccache mold git python3-pip cli11-devel yaml-cpp-devel json-devel sentencepiece-devel
fmt-devel pcre2-devel utf8proc-devel xxhash-devel zlib-devel libzstd-devel libcurl-devel openssl-devel libedit'

if ! command -v apt-get >/dev/null; then
  for tool in g++ cmake ninja python3; do
    command -v $tool >/dev/null || die "$tool not found, and no apt-get to install it" \
      "the wheel, the tarball and the container need none of this (docs/install.md); to build, install (Fedora's names): ${fedora//$'\n'/ }"
  done
  say "no apt-get here: libraries are taken from where CMake finds them"
  exit 0
fi
! grep -qsx "# ${packages[*]}" "$system/environment" || exit 0  # unpacked before
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

sudo=()
[ "$(id -u)" = 0 ] || sudo=(sudo)
if [ $# = 0 ] && { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }; then
  hint="without root: scripts/packages.sh --rootless"
  say "installing ${#missing[@]} packages"
  "${sudo[@]}" apt-get update -qq || die "apt-get update failed" "is there a network? $hint"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >/dev/null || die "apt-get install failed: ${missing[*]}" "$hint"
  exit 0
fi

# Unpacks what apt would install, without root: from the same sources with the same signatures, and
# never configured.
say "unpacking ${#missing[@]} packages and what they need into $system"
rm -rf "$system"
mkdir -p "$system"/{bin,usr/lib,apt/lists/partial,apt/archives/partial}
ln -s usr/lib "$system/lib"
apt=(apt-get -qq -o Debug::NoLocking=1 -o "Dir::State::lists=$system/apt/lists" -o "Dir::Cache=$system/apt")
"${apt[@]}" update || die "apt-get update failed" "is there a network?"
"${apt[@]}" install -y --no-install-recommends --download-only "${missing[@]}" >/dev/null ||
  die "apt-get could not download: ${missing[*]}" "is there a network?"
for archive in "$system"/apt/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$archive" | tar -x --keep-directory-symlink -C "$system"
done
rm -rf "$system/apt"
libraries=$system/usr/lib/x86_64-linux-gnu
# A development package's link names a library that the system has itself.
find "$system/usr/lib" -xtype l | while read -r link; do
  name=$(basename "$(readlink "$link")")
  for folder in /usr/lib/x86_64-linux-gnu /lib/x86_64-linux-gnu; do
    [ ! -e "$folder/$name" ] || ln -sf "$folder/$name" "$link"
  done
done
# shellcheck disable=SC2016
{
  echo "# ${packages[*]}"
  printf 'export PATH=%s/bin:%s/usr/bin:$PATH\n' "$system" "$system"
  printf 'export CMAKE_PREFIX_PATH=%s/usr LIBRARY_PATH=%s\n' "$system" "$libraries"
  printf 'export LD_LIBRARY_PATH=%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\n' "$libraries"
  printf 'export LDFLAGS=-Wl,--disable-new-dtags,-rpath,%s\n' "$libraries"
} >"$system/environment.part"
if [ -x "$system/usr/bin/g++" ]; then  # a compiler looks for the C library's headers in /usr/include alone
  sed -i "s| /usr/lib| $system/usr/lib|g" "$libraries/libc.so"
  printf '#!/bin/sh\nexec %s/usr/bin/g++ "$@" -idirafter %s/usr/include/x86_64-linux-gnu -idirafter %s/usr/include\n' \
    "$system" "$system" "$system" >"$system/bin/g++"
  chmod +x "$system/bin/g++"
  echo "export CXX=$system/bin/g++" >>"$system/environment.part"
fi
if [ ! -f /etc/ssl/certs/ca-certificates.crt ] && [ -d "$system/usr/share/ca-certificates" ]; then
  cat "$system"/usr/share/ca-certificates/mozilla/*.crt >"$system/certificates.crt"
  echo "export SSL_CERT_FILE=$system/certificates.crt PIP_CERT=$system/certificates.crt" >>"$system/environment.part"
fi
mv "$system/environment.part" "$system/environment"

#!/usr/bin/env bash
# usage: checker_venv.sh FOLDER
# Makes the virtual environment FOLDER with MLCommons' own log checkers (PyPI: mlperf-logging) once; later calls need no network.
# The last line on standard output is the path of its Python. Exit 0: ready; 3: it cannot be made here, the reason is on standard
# error; 2: wrong use. Safe to call from several tests at once.
set -euo pipefail

if [[ $# -ne 1 ]]; then
  echo "usage: checker_venv.sh FOLDER" >&2
  exit 2
fi
mkdir -p "$(dirname -- "$1")"
folder="$(cd -- "$(dirname -- "$1")" && pwd)/$(basename -- "$1")"
python="$folder/bin/python"
ready="$folder/ready"

# Versions the tests were seen to pass with. An older Python takes the newest numbers it can get for the libraries below the checkers.
packages=(
  "mlperf-logging==4.1.68"
  "numpy==2.4.6; python_version >= '3.11'"
  "scipy==1.17.1; python_version >= '3.11'"
  "pandas==3.1.1; python_version >= '3.11'"
  "numpy; python_version < '3.11'"
  "scipy; python_version < '3.11'"
  "pandas; python_version < '3.11'"
  "PyYAML==6.0.4"
)

make_environment() {
  [[ -e "$ready" ]] && return 0
  rm -rf -- "$folder"
  local log="$folder.log"
  # The distribution's own Python first: version managers may hand out one that is gone tomorrow.
  local base=/usr/bin/python3
  [[ -x "$base" ]] || base="$(command -v python3)" || { echo "python3 is not installed" >&2; return 3; }
  if ! "$base" -m venv "$folder" >"$log" 2>&1; then
    echo "no virtual environment (install python3-venv): $(tail -n 1 "$log")" >&2
    return 3
  fi
  if ! "$python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 "${packages[@]}" >"$log" 2>&1; then
    echo "cannot install the official checkers: $(tail -n 1 "$log")" >&2
    return 3
  fi
  touch "$ready"
}

exec 9>"$folder.lock"
flock 9
make_environment
echo "$python"

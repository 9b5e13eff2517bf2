#!/usr/bin/env bash
# Try the wheel in dist/ the way of those who do not clone: in an environment of its own, with the newest of all that the
# wheel needs, in a folder that is removed at the end.
set -euo pipefail
wheel=$(ls "$PWD"/dist/*.whl)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

echo '==> pip install rivet-dagster: 560 MB to download, 900 MB on disk for as long as this takes'
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --no-compile --progress-bar off "$wheel" | grep -v '^Collecting\|^  '
PATH=$folder/venv/bin:$PATH

echo '==> rivet-dagster init shop --example && cd shop && rivet-dagster run'
rivet-dagster init shop --example
cd shop
rivet-dagster run 2>&1 | tee run.txt
rivet-dagster test 2>&1 | tee test.txt

# The JVM tells this of every Spark; any other warning is an error here.
if grep -hiE 'warn|error|exception|traceback' run.txt test.txt | grep -v 'Using incubator modules'; then
  echo 'A run in the environment of the wheel printed these lines.' >&2
  exit 1
fi
test -d warehouse/revenue_by_customer

#!/usr/bin/env bash
# The only step of action.yml: install the command from the action's own checkout, run it once, write the outputs.
# Inputs come as INPUT_* and are never part of this text. Runs on Linux and macOS.
set -euo pipefail

fail() {
  echo "outcome=error" >>"$GITHUB_OUTPUT"
  exit 2
}
trap fail ERR

action=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Another version of the action in the same job has an environment of its own if its dependencies differ.
environment="$RUNNER_TEMP/gpu-constructs-$(cksum <"$action/requirements-command.txt" | cut -d ' ' -f 1)"
# Two uses in one job don't share a folder.
reports=${INPUT_OUTPUT:-$(mktemp -d "$RUNNER_TEMP/gpu-constructs-reports.XXXXXX")}

# Dependencies with their hashes, and the library itself as it is in the checkout. `python -I` doesn't import from the
# working directory, which has the files of the pull request. An earlier use may have ended before pip did.
if [ ! -e "$environment/.complete" ]; then
  "${INPUT_PYTHON:-python3}" -m venv --clear "$environment"
  "$environment/bin/python" -I -m pip install --quiet --disable-pip-version-check --require-hashes \
    -r "$action/requirements-command.txt"
  touch "$environment/.complete"
fi
packages=$("$environment/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$action" >"$packages/action.pth"
mkdir -p "$reports"
rm -f "$reports"/report.{html,md,sarif}

if [ -n "${INPUT_BEFORE:-}" ]; then
  arguments=(review)
  operands=("$INPUT_BEFORE" "${INPUT_AFTER:-cdk.out}")
  if [ -n "${INPUT_MAX_USD_PER_MONTH:-}" ]; then
    arguments+=("--max-usd-per-month=$INPUT_MAX_USD_PER_MONTH")
  fi
elif [ -n "${INPUT_MAX_USD_PER_MONTH:-}" ]; then
  echo "gpu-constructs: max-usd-per-month must come with before, got '$INPUT_MAX_USD_PER_MONTH'; set before" >&2
  fail
else
  arguments=(check)
  operands=()
  while IFS= read -r path; do
    if [ -n "$path" ]; then operands+=("$path"); fi
  done <<<"${INPUT_PATHS:-cdk.out}"
fi
arguments+=("--fail-on=${INPUT_FAIL_ON:-error}" "--html=$reports/report.html")
arguments+=("--also=markdown=$reports/report.md" "--also=sarif=$reports/report.sarif")
# As a shell splits words, without expanding anything: a NUL ends each word.
words="$environment/words"
printf '%s' "${INPUT_ARGS:-}" | "$environment/bin/python" -I -c '
import shlex, sys
try:
    words = shlex.split(sys.stdin.read())
except ValueError as error:
    sys.exit(f"gpu-constructs: args must be quoted as in a shell: {error}; close the quote")
sys.stdout.write("".join(f"{word}\0" for word in words))
' >"$words"
while IFS= read -r -d '' word; do
  arguments+=("$word")
done <"$words"

code=0
"$environment/bin/python" -I -m gpu_constructs "${arguments[@]}" -- "${operands[@]}" || code=$?
case $code in
  0) outcome=passes ;;
  1) outcome=fails ;;
  *) fail ;;
esac
# Python exits with 1 for a traceback, too, and then there are no reports.
cat "$reports/report.md" >>"$GITHUB_STEP_SUMMARY"
{
  echo "outcome=$outcome"
  echo "markdown=$reports/report.md"
  echo "sarif=$reports/report.sarif"
  echo "html=$reports/report.html"
} >>"$GITHUB_OUTPUT"
exit "$code"

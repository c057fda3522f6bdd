#!/usr/bin/env bash
# The whole chain on real NVIDIA hardware: tests/gpu/run.sh DIRECTORY_WITH_RELEASE_BINARIES [OUTPUT_DIRECTORY]
# Needs one NVIDIA GPU, its driver, python3 with torch and nvidia-ml-py (nvitop is compared too when installed).
# Changes no setting of the card. Ends with a short table; exits 1 when a value disagrees.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "${1:?the directory with gpuctl, gpufleet-agent and gpufleet-aggregator}" && pwd)
out=${2:-$(mktemp -d)}
work=$(mktemp -d)
failed=0
trap 'kill $(jobs -p) 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT
step() { printf '\n== %s\n' "$*"; }
check() { if "$@"; then echo "ok: $*"; else echo "FAILED: $*"; failed=1; fi; }

step "certificates and servers"
host=gpuhost
"$bin/gpuctl" pki init --dir "$work/ca" --trust-domain gpu.test >/dev/null
for who in "agent $host" "aggregator central" "user $(id -un)"; do
  # shellcheck disable=SC2086
  "$bin/gpuctl" pki issue $who --ca "$work/ca" --out "$work/${who%% *}" >/dev/null
done
"$bin/gpufleet-agent" --listen 127.0.0.1:0 --tls-dir "$work/agent" --backend nvml --ready-file "$work/agent.addr" 2>"$out/agent.log" &
agent=$!
for _ in $(seq 100); do [ -s "$work/agent.addr" ] && break; sleep 0.1; done
"$bin/gpufleet-aggregator" --listen 127.0.0.1:0 --tls-dir "$work/aggregator" --hosts "$host=$(cat "$work/agent.addr")" \
  --operator "$(id -un)" --ready-file "$work/aggregator.addr" 2>"$out/aggregator.log" &
for _ in $(seq 100); do [ -s "$work/aggregator.addr" ] && break; sleep 0.1; done
fleet=(--aggregator "https://$(cat "$work/aggregator.addr")" --tls-dir "$work/user")

step "two processes: one busy, one idle"
python3 "$here/load.py" 4 400 1 & busy=$!
python3 "$here/load.py" 2 400 0 & idle=$!
deadline=$((SECONDS + 90))
until [ "$("$bin/gpuctl" ps -o name "${fleet[@]}" 2>/dev/null | wc -l)" -ge 2 ] || [ $SECONDS -ge $deadline ]; do sleep 1; done
sleep 8 # The driver averages utilisation and power over seconds.

step "what people see"
"$bin/gpuctl" top --once --cluster "${fleet[@]}" | tee "$out/top.txt"
"$bin/gpuctl" top --once | tee "$out/top-local.txt"
"$bin/gpuctl" devices -o json "${fleet[@]}" >"$out/devices.json"
"$bin/gpuctl" ps -o json "${fleet[@]}" >"$out/ps.json"

step "agreement with NVML, nvidia-smi and nvitop"
check python3 "$here/compare.py" "$bin/gpuctl" 10 "${fleet[@]}"

step "cost of the agent over 60 s at 1 Hz"
cpu_ticks() { awk '{print $14 + $15}' "/proc/$agent/stat"; }
before=$(cpu_ticks); start=$(date +%s.%N)
sleep 60
after=$(cpu_ticks); end=$(date +%s.%N)
awk -v a="$before" -v b="$after" -v s="$start" -v e="$end" -v hz="$(getconf CLK_TCK)" \
  'BEGIN {printf "agent CPU %.3f %% of one core (driver calls included)\n", 100 * (b - a) / hz / (e - s)}'
grep -E 'VmRSS|RssAnon|RssFile|Threads' "/proc/$agent/status"
[ -x "$bin/tick_cost" ] && "$bin/tick_cost" 30

step "time of one-shot commands"
for command in "top --once" "ps" "devices"; do
  # shellcheck disable=SC2086
  python3 - "$bin/gpuctl" $command <<'PY'
import statistics, subprocess, sys, time
times = []
for _ in range(11):
    start = time.perf_counter()
    subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
    times.append((time.perf_counter() - start) * 1000)
print(f"gpuctl {' '.join(sys.argv[2:])}: median {statistics.median(times):.1f} ms, most {max(times):.1f} ms")
PY
done

step "kill --wait frees the memory"
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits; }
echo "before: $(used) MiB"
check "$bin/gpuctl" kill "$host:$idle" --yes --wait 20s "${fleet[@]}"
echo "after the idle one: $(used) MiB"
check "$bin/gpuctl" kill "$host:$busy" --yes --wait 20s "${fleet[@]}"
echo "after both: $(used) MiB"
check test "$(nvidia-smi --query-compute-apps=pid --format=csv,noheader | wc -l)" -eq 0

step "result"
[ $failed -eq 0 ] && echo "everything agrees" || echo "something disagrees, see above"
exit $failed

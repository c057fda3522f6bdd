"""Compares what gpuctl prints through agent and aggregator with NVML, nvidia-smi and nvitop read at the same moments.

Usage: compare.py GPUCTL ROUNDS [gpuctl flags that choose the aggregator...]
Exits 1 when memory differs by a byte, or when a reading of ours lies outside what NVML said within one sample of it.
"""

import json
import subprocess
import sys
import time

import pynvml

gpuctl, rounds, flags = sys.argv[1], int(sys.argv[2]), sys.argv[3:]


def ours():
    text = subprocess.run([gpuctl, "ps", "-o", "json", *flags], check=True, capture_output=True, text=True).stdout
    return json.loads(text)


def nvml():
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return {
        "uuid": pynvml.nvmlDeviceGetUUID(handle),
        "utilization_percent": pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "memory_used_bytes": memory.used,
        "memory_total_bytes": memory.total,
        "memory_reserved_bytes": memory.reserved,
        "temperature_celsius": pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
        "power_watts": pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "sm_clock_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
        "processes": {p.pid: p.usedGpuMemory for p in processes},
    }


def smi():
    query = "uuid,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw"
    line = subprocess.run(
        ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"], check=True, capture_output=True, text=True
    ).stdout.strip()
    return dict(zip(query.split(","), (part.strip() for part in line.split(","))))


def nvitop():
    try:
        from nvitop import Device, GpuProcess
    except ImportError:
        return None
    device = Device(0)
    found = {}
    for process in device.processes().values():
        snapshot = process.as_snapshot()
        found[snapshot.pid] = {
            "memory_used_bytes": snapshot.gpu_memory,
            "sm_percent": snapshot.gpu_sm_utilization,
            "user": snapshot.username,
            "host_memory_bytes": snapshot.host_memory,
            "command": snapshot.command,
        }
    return found


pynvml.nvmlInit()
series, failures = [], []
for _ in range(rounds):
    before = nvml()
    mine = ours()
    after = nvml()
    series.append((before, mine, after))
    time.sleep(1)

EXACT = ["uuid", "memory_used_bytes", "memory_total_bytes", "memory_reserved_bytes"]
BANDS = {"utilization_percent": 5, "temperature_celsius": 2, "power_watts": 25, "sm_clock_mhz": 60}
for index, (before, mine, after) in enumerate(series):
    device = mine["devices"][0]
    for field in EXACT:
        if device[field] not in (before[field], after[field]):
            failures.append(f"round {index}: {field}: {device[field]} against {before[field]}..{after[field]}")
    window = [sample for b, _, a in series[max(0, index - 2) : index + 2] for sample in (b, a)]
    for field, band in BANDS.items():
        low, high = min(s[field] for s in window) - band, max(s[field] for s in window) + band
        if device[field] is None or not low <= device[field] <= high:
            failures.append(f"round {index}: {field}: {device[field]} outside {low}..{high}")
    mine_processes = {p["pid"]: p["devices"][0]["memory_used_bytes"] for p in mine["processes"]}
    if mine_processes != before["processes"] and mine_processes != after["processes"]:
        failures.append(f"round {index}: processes: {mine_processes} against {before['processes']}")

before, mine, after = series[-1]
device, theirs = mine["devices"][0], smi()
print(f"{'reading':<24}{'gpuctl':>22}{'NVML just before':>22}{'nvidia-smi':>14}")
SMI = {
    "utilization_percent": "utilization.gpu",
    "memory_used_bytes": "memory.used",
    "memory_total_bytes": "memory.total",
    "temperature_celsius": "temperature.gpu",
    "power_watts": "power.draw",
}
for field in [*EXACT, *BANDS]:
    print(f"{field:<24}{str(device[field])[:21]:>22}{str(before[field])[:21]:>22}{theirs.get(SMI.get(field, ''), ''):>14}")

other = nvitop()
print(f"\n{'pid':>8} {'reading':<20}{'gpuctl':>24}{'nvitop':>24}")
for process in mine["processes"]:
    use = process["devices"][0]
    seen = (other or {}).get(process["pid"], {})
    for field, value in [
        ("memory_used_bytes", use["memory_used_bytes"]),
        ("sm_percent", use["sm_percent"]),
        ("user", process["user"]),
        ("host_memory_bytes", process["host_memory_bytes"]),
        ("command", process["command"]),
    ]:
        print(f"{process['pid']:>8} {field:<20}{str(value)[:23]:>24}{str(seen.get(field, '-'))[:23]:>24}")
    for field in ("memory_used_bytes", "user", "command"):
        mine_value = use[field] if field in use else process[field]
        if seen and str(seen[field]) != str(mine_value):
            failures.append(f"pid {process['pid']}: {field}: {mine_value} against nvitop's {seen[field]}")

print(f"\n{len(series)} rounds compared, {len(failures)} differences")
for failure in failures:
    print("DIFFERS", failure)
sys.exit(bool(failures))

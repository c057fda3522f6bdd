//! One simulated device: physics that follow the load its processes make.

use std::sync::Arc;
use std::time::Duration;

use gpufleet_model::{Backend, DeviceInfo, DeviceReadings, DeviceStatus, Reading, Unknown};
use rand::RngExt;

use super::hardware::Hardware;
use crate::sample::{DeviceSample, PidUse};

/// Memory in use that belongs to no process.
pub(crate) const MEMORY_OVERHEAD: u64 = 4 << 20;

/// NVML's clock event reason "nothing to do".
const REASON_GPU_IDLE: u64 = 0x1;
/// NVML's clock event reason "software power cap".
const REASON_POWER_CAP: u64 = 0x4;
/// Power settles with this share of the way per second, temperature with the other.
const POWER_RATE: f64 = 0.6;
const TEMPERATURE_RATE: f64 = 0.08;

/// A device and its physics.
#[derive(Debug)]
pub(crate) struct SimulatedDevice {
    info: Arc<DeviceInfo>,
    hardware: &'static Hardware,
    ambient: f64,
    temperature: f64,
    power: f64,
    energy: f64,
    power_violation: f64,
    corrected_errors: u64,
    readings: DeviceReadings,
}

/// What the processes of one device add up to, each 0–1.
struct Load {
    compute: f64,
    memory: f64,
    encoder: f64,
    decoder: f64,
}

impl SimulatedDevice {
    /// An idle device. Its UUID is a function of the host's name and the random state.
    pub(crate) fn new(index: u32, host_name: &str, hardware: &'static Hardware, rng: &mut impl RngExt) -> Self {
        let uuid = {
            let [a, b, c, d] = rng.random::<[u32; 4]>();
            let (b1, b2, c1, c2) = (b >> 16, b & 0xffff, c >> 16, c & 0xffff);
            format!("GPU-{a:08x}-{b1:04x}-{b2:04x}-{c1:04x}-{c2:04x}{d:08x}")
        };
        let info = DeviceInfo {
            backend: Backend::Simulated,
            index,
            uuid,
            name: hardware.name.to_owned(),
            pci_bus_id: Some(format!("{:08X}:{:02X}:00.0", index / 200, 0x10 + index % 200)),
            minor_number: Some(index),
            serial: Some(format!("SIM{:010}", rng.random_range(0..10_000_000_000_u64))),
            part_number: Some(format!("SIM-{host_name}-{index}")),
            vbios_version: Some(String::from("00.00.00.00.00")),
            cuda_capability: Some(hardware.cuda_capability),
            core_count: Some(hardware.core_count),
            mig: None,
            limits: hardware.limits(),
        };
        let ambient = rng.random_range(26.0..34.0);
        Self {
            info: Arc::new(info),
            hardware,
            ambient,
            temperature: ambient + 12.0,
            power: hardware.power_idle,
            energy: rng.random_range(1.0e8..1.0e9),
            power_violation: rng.random_range(0.0..100.0),
            corrected_errors: 0,
            readings: DeviceReadings::unknown(Unknown::NotSupported),
        }
    }

    /// Its index.
    pub(crate) fn index(&self) -> u32 {
        self.info.index
    }

    /// The product.
    pub(crate) fn hardware(&self) -> &'static Hardware {
        self.hardware
    }

    /// Lets one interval pass under the load of `uses`.
    pub(crate) fn step(
        &mut self,
        uses: Vec<PidUse>,
        interval: Duration,
        slow: bool,
        demand: bool,
        rng: &mut impl RngExt,
    ) -> DeviceSample {
        let load = Load::of(&uses);
        let seconds = interval.as_secs_f64();
        let capped = self.settle(&load, seconds, rng);
        self.read_tick(&load, &uses, capped);
        if slow {
            self.read_slow(&uses);
        }
        self.read_demand(&load, demand, rng);
        DeviceSample {
            info: Arc::clone(&self.info),
            status: DeviceStatus::Ok,
            readings: self.readings.clone(),
            uses: Ok(uses),
        }
    }

    /// Moves power and temperature towards what the load asks for; true when the power limit holds the clocks down.
    fn settle(&mut self, load: &Load, seconds: f64, rng: &mut impl RngExt) -> bool {
        let hardware = self.hardware;
        let wanted = if load.compute > 0.0 {
            let share = 0.35 * load.compute.sqrt() + 0.5 * load.compute + 0.25 * load.memory;
            hardware.power_idle + (hardware.power_limit - hardware.power_idle) * share
        } else {
            hardware.power_idle
        };
        let wanted = wanted * rng.random_range(0.985..1.015);
        let capped = wanted > hardware.power_limit;
        self.power += (wanted.min(hardware.power_limit) - self.power) * (POWER_RATE * seconds).min(1.0);
        let rise = if hardware.has_fan { 48.0 } else { 40.0 };
        let target = self.ambient + 6.0 + rise * self.power / hardware.power_limit;
        self.temperature += (target - self.temperature) * (TEMPERATURE_RATE * seconds).min(1.0);
        self.energy += self.power * seconds;
        if capped {
            self.power_violation += seconds * 0.2;
        }
        if rng.random_bool(1.0e-5) {
            self.corrected_errors += 1;
        }
        capped
    }

    fn read_tick(&mut self, load: &Load, uses: &[PidUse], capped: bool) {
        let hardware = self.hardware;
        let held: u64 = uses.iter().filter_map(|one| one.readings.memory_used_bytes.ok()).sum();
        let in_use = MEMORY_OVERHEAD + held;
        let busy = load.compute > 0.0;
        let sm_clock = match (busy, capped) {
            (false, _) => hardware.sm_clock_idle,
            (true, false) => hardware.sm_clock,
            (true, true) => round_u32(f64::from(hardware.sm_clock) * 0.81 / 15.0) * 15,
        };
        let readings = &mut self.readings;
        readings.utilization_percent = Ok(percent(load.compute));
        readings.memory_utilization_percent = Ok(percent(load.memory));
        readings.encoder_utilization_percent = Ok(percent(load.encoder));
        readings.decoder_utilization_percent = Ok(percent(load.decoder));
        readings.jpeg_utilization_percent = Ok(0);
        readings.ofa_utilization_percent = Ok(0);
        readings.memory_used_bytes = Ok(in_use);
        readings.memory_reserved_bytes = Ok(hardware.memory_reserved);
        readings.memory_total_bytes = Ok(hardware.memory_total);
        readings.memory_free_bytes = Ok(hardware.memory_total.saturating_sub(hardware.memory_reserved + in_use));
        readings.temperature_celsius = Ok(round_i32(self.temperature));
        readings.power_watts = Ok((self.power * 1000.0).round() / 1000.0);
        readings.power_limit_watts = Ok(hardware.power_limit);
        readings.performance_state = Ok(if busy || !hardware.has_fan { 0 } else { 8 });
        readings.clock_event_reasons = Ok(match (busy, capped) {
            (false, _) => REASON_GPU_IDLE,
            (true, true) => REASON_POWER_CAP,
            (true, false) => 0,
        });
        readings.graphics_clock_mhz = Ok(sm_clock);
        readings.sm_clock_mhz = Ok(sm_clock);
        readings.memory_clock_mhz = Ok(if busy || !hardware.has_fan { hardware.memory_clock } else { 405 });
        readings.video_clock_mhz = Ok(if busy { hardware.video_clock } else { hardware.video_clock / 2 });
        readings.ecc_corrected_volatile = Ok(self.corrected_errors);
        readings.ecc_uncorrected_volatile = Ok(0);
        readings.ecc_corrected_aggregate = Ok(self.corrected_errors);
        readings.ecc_uncorrected_aggregate = Ok(0);
        readings.remapped_rows_corrected = Ok(0);
        readings.remapped_rows_uncorrected = Ok(0);
        readings.remapped_rows_pending = Ok(false);
        readings.remapped_rows_failed = Ok(false);
        readings.last_xid = Err(Unknown::NotYet);
    }

    fn read_slow(&mut self, uses: &[PidUse]) {
        let hardware = self.hardware;
        let contexts = u64::try_from(uses.len()).unwrap_or(u64::MAX);
        let fan = |temperature: f64| (30.0 + (temperature - 40.0).max(0.0) * 1.6).min(100.0);
        let readings = &mut self.readings;
        readings.bar1_used_bytes = Ok((1 << 20) + contexts.saturating_mul(2 << 20).min(hardware.bar1_total / 2));
        readings.bar1_total_bytes = Ok(hardware.bar1_total);
        readings.memory_temperature_celsius =
            if hardware.has_fan { Err(Unknown::NotSupported) } else { Ok(round_i32(self.temperature + 6.0)) };
        readings.energy_joules = Ok(self.energy.round());
        readings.fan_speed_percent =
            if hardware.has_fan { Ok(round_u32(fan(self.temperature))) } else { Err(Unknown::NotSupported) };
        readings.pcie_generation = Ok(hardware.pcie_generation);
        readings.pcie_width = Ok(16);
        readings.pcie_replay_count = Ok(0);
        readings.nvlink_active_links = hardware.nvlink_links.ok_or(Unknown::NotSupported);
        readings.power_violation_seconds = Ok(self.power_violation.round());
        readings.thermal_violation_seconds = Ok(0.0);
        readings.mig_mode_enabled = if hardware.has_fan { Err(Unknown::NotSupported) } else { Ok(false) };
        readings.ecc_mode_enabled = Ok(true);
        readings.persistence_mode_enabled = Ok(true);
        readings.display_active = Ok(false);
        readings.compute_mode = Ok(0);
    }

    fn read_demand(&mut self, load: &Load, demand: bool, rng: &mut impl RngExt) {
        let mut lane = |full: f64| -> Reading<u64> {
            if !demand {
                return Err(Unknown::NotYet);
            }
            let rate = 1.0e9 * full * load.compute * rng.random_range(0.2..2.0);
            Ok(u64::from(round_u32(rate / 1024.0)) * 1024)
        };
        self.readings.pcie_tx_bytes_per_second = lane(1.0);
        self.readings.pcie_rx_bytes_per_second = lane(3.0);
    }
}

impl Load {
    fn of(uses: &[PidUse]) -> Self {
        let sum = |of: fn(&PidUse) -> Reading<u32>| {
            let total: u32 = uses.iter().filter_map(|one| of(one).ok()).sum();
            f64::from(total.min(100)) / 100.0
        };
        Self {
            compute: sum(|one| one.readings.sm_percent),
            memory: sum(|one| one.readings.memory_bandwidth_percent),
            encoder: sum(|one| one.readings.encoder_percent),
            decoder: sum(|one| one.readings.decoder_percent),
        }
    }
}

/// A share as a whole number of percent.
pub(crate) fn percent(share: f64) -> u32 {
    round_u32(share.clamp(0.0, 1.0) * 100.0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range of the result")]
pub(crate) fn round_u32(value: f64) -> u32 {
    value.round().clamp(0.0, f64::from(u32::MAX)) as u32
}

#[expect(clippy::cast_possible_truncation, reason = "clamped to the range of the result")]
fn round_i32(value: f64) -> i32 {
    value.round().clamp(f64::from(i32::MIN), f64::from(i32::MAX)) as i32
}

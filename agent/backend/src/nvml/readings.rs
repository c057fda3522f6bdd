//! Reading one device, tier by tier.
//!
//! In: a handle and what was read before. Out: readings, each a value or the reason there is none. Every call fails
//! alone; but once a device has said that it is lost, the rest of its calls are not made, for they may take long.

use std::cell::Cell;
use std::time::Instant;

use gpufleet_model::{DeviceReadings, Reading, Unknown};
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PcieUtilCounter, PerformancePolicy, PerformanceState, TemperatureSensor,
};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::field_id::NVML_FI_DEV_MEMORY_TEMP;
use nvml_wrapper_sys::bindings::{NVML_DEVICE_MIG_ENABLE, NVML_NVLINK_MAX_LINKS};

use super::errors::{Trouble, trouble, unknown};
use super::ffi::{self, Handle, Retirement};
use super::processes::plausible;
use crate::vendor::Meter;

/// A device about to be read, and what its calls have said beyond their own readings.
pub(crate) struct Reader<'a> {
    nvml: &'a Nvml,
    handle: Handle,
    device: Device<'a>,
    meter: &'a Meter,
    trouble: Cell<Trouble>,
}

/// How many groups the slow tier is read in.
pub(crate) const SLOW_GROUPS: usize = 10;

type SlowGroup = fn(&Reader<'_>, &mut DeviceReadings);

impl<'a> Reader<'a> {
    pub(crate) fn new(nvml: &'a Nvml, handle: Handle, meter: &'a Meter) -> Self {
        Self { nvml, handle, device: handle.device(nvml), meter, trouble: Cell::default() }
    }

    /// The worst that a call has said.
    pub(crate) fn trouble(&self) -> Trouble {
        self.trouble.get()
    }

    /// Makes one call, unless the device is known not to answer.
    pub(crate) fn call<T>(
        &self,
        call: impl FnOnce(&Device<'a>, &'a Nvml, Handle) -> Result<T, NvmlError>,
    ) -> Result<T, NvmlError> {
        match self.trouble.get() {
            Trouble::Session => return Err(NvmlError::Uninitialized),
            Trouble::DeviceLost => return Err(NvmlError::GpuLost),
            Trouble::None | Trouble::StaleHandle => {}
        }
        let result = self.meter.call(|| call(&self.device, self.nvml, self.handle));
        if let Err(error) = &result {
            self.trouble.set(self.trouble.get().max(trouble(error)));
        }
        result
    }

    fn get<T>(&self, call: impl FnOnce(&Device<'a>) -> Result<T, NvmlError>) -> Reading<T> {
        self.call(|device, _, _| call(device)).map_err(|error| unknown(&error))
    }

    fn raw<T>(&self, call: impl FnOnce(&'a Nvml, Handle) -> Result<T, NvmlError>) -> Reading<T> {
        self.call(|_, nvml, handle| call(nvml, handle)).map_err(|error| unknown(&error))
    }

    /// Memory, by the newer call where the driver has it. The older one counts the reserve as used.
    fn read_memory(&self, readings: &mut DeviceReadings) {
        let newer = self.call(|device, _, _| device.memory_info());
        let older = |error: NvmlError| match unknown(&error) {
            Unknown::NotSupported => self.raw(ffi::memory_v1).map(|memory| (memory, Err(Unknown::NotSupported))),
            reason => Err(reason),
        };
        let memory = match newer {
            Ok(info) => Ok((info.total, info.free, info.used, Ok(info.reserved))),
            // A handle that names nothing is told by the one call every device can answer.
            Err(error @ (NvmlError::InvalidArg | NvmlError::NotFound)) => {
                self.trouble.set(self.trouble.get().max(Trouble::StaleHandle));
                Err(unknown(&error))
            }
            Err(error) => older(error).map(|(memory, reserved)| (memory.total, memory.free, memory.used, reserved)),
        };
        readings.memory_total_bytes = memory.map(|(total, ..)| total);
        readings.memory_free_bytes = memory.map(|(_, free, ..)| free);
        readings.memory_used_bytes = memory.map(|(_, _, used, _)| used);
        readings.memory_reserved_bytes = memory.and_then(|(.., reserved)| reserved);
    }

    /// The tier of each tick, for a physical device.
    pub(crate) fn read_tick(&self, readings: &mut DeviceReadings) {
        self.read_memory(readings);
        let utilization = self.get(Device::utilization_rates);
        readings.utilization_percent = utilization.as_ref().map_err(|e| *e).and_then(|rates| plausible(rates.gpu));
        readings.memory_utilization_percent = utilization.and_then(|rates| plausible(rates.memory));
        readings.encoder_utilization_percent =
            self.get(Device::encoder_utilization).and_then(|info| plausible(info.utilization));
        readings.decoder_utilization_percent =
            self.get(Device::decoder_utilization).and_then(|info| plausible(info.utilization));
        readings.jpeg_utilization_percent = self.raw(ffi::jpeg_utilization).and_then(plausible);
        readings.ofa_utilization_percent = self.raw(ffi::ofa_utilization).and_then(plausible);
        readings.temperature_celsius =
            self.get(|device| device.temperature(TemperatureSensor::Gpu)).and_then(temperature);
        readings.power_watts = self.get(Device::power_usage).map(thousandths);
        readings.power_limit_watts = self.get(Device::enforced_power_limit).map(thousandths);
        readings.performance_state = self.get(Device::performance_state).and_then(performance_state);
        readings.clock_event_reasons = self.raw(ffi::clock_event_reasons);
        readings.graphics_clock_mhz = self.get(|device| device.clock_info(Clock::Graphics));
        readings.sm_clock_mhz = self.get(|device| device.clock_info(Clock::SM));
        readings.memory_clock_mhz = self.get(|device| device.clock_info(Clock::Memory));
        readings.video_clock_mhz = self.get(|device| device.clock_info(Clock::Video));
        self.read_errors(readings);
    }

    fn read_errors(&self, readings: &mut DeviceReadings) {
        let errors = |kind, counter| self.get(|device| device.total_ecc_errors(kind, counter));
        readings.ecc_corrected_volatile = errors(MemoryError::Corrected, EccCounter::Volatile);
        readings.ecc_uncorrected_volatile = errors(MemoryError::Uncorrected, EccCounter::Volatile);
        readings.ecc_corrected_aggregate = errors(MemoryError::Corrected, EccCounter::Aggregate);
        readings.ecc_uncorrected_aggregate = errors(MemoryError::Uncorrected, EccCounter::Aggregate);
        let rows = self.raw(ffi::remapped_rows);
        readings.remapped_rows_corrected = rows.map(|rows| rows.corrected);
        readings.remapped_rows_uncorrected = rows.map(|rows| rows.uncorrected);
        readings.remapped_rows_pending = rows.map(|rows| rows.pending);
        readings.remapped_rows_failed = rows.map(|rows| rows.failed);
    }

    /// The tier of each tick, for a MIG instance: memory. The rest belongs to the physical device.
    pub(crate) fn read_instance_tick(&self, readings: &mut DeviceReadings) {
        self.read_memory(readings);
    }

    /// One group of the slow tier, for a physical device.
    pub(crate) fn read_slow(&self, group: usize, fan_count: &mut Option<u32>, readings: &mut DeviceReadings) {
        const GROUPS: [SlowGroup; SLOW_GROUPS - 1] = [
            |reader, readings| {
                readings.energy_joules =
                    reader.get(Device::total_energy_consumption).map(|millijoules| millijoules as f64 / 1000.0);
            },
            |reader, readings| readings.power_violation_seconds = reader.violation(PerformancePolicy::Power),
            |reader, readings| readings.memory_temperature_celsius = reader.memory_temperature(),
            |reader, readings| readings.thermal_violation_seconds = reader.violation(PerformancePolicy::Thermal),
            |reader, readings| reader.read_bar1(readings),
            |reader, readings| reader.read_link(readings),
            |reader, readings| {
                readings.mig_mode_enabled =
                    reader.get(Device::mig_mode).map(|mode| mode.current == NVML_DEVICE_MIG_ENABLE);
                readings.ecc_mode_enabled = reader.get(Device::is_ecc_enabled).map(|mode| mode.currently_enabled);
            },
            |reader, readings| readings.nvlink_active_links = reader.active_links(),
            |reader, readings| reader.read_modes(readings),
        ];
        if let Some(read) = GROUPS.get(group) {
            read(self, readings);
        } else {
            readings.fan_speed_percent = self.fan_speed(fan_count);
            self.read_retired_pages(readings);
        }
    }

    /// The slow tier of a MIG instance.
    pub(crate) fn read_instance_slow(&self, group: usize, readings: &mut DeviceReadings) {
        if group == 0 {
            self.read_bar1(readings);
        }
    }

    /// The demand tier: each direction blocks 20 ms.
    pub(crate) fn read_demand(&self, readings: &mut DeviceReadings) {
        let direction = |which| self.get(|device| device.pcie_throughput(which)).map(|kib| u64::from(kib) * 1024);
        readings.pcie_tx_bytes_per_second = direction(PcieUtilCounter::Send);
        readings.pcie_rx_bytes_per_second = direction(PcieUtilCounter::Receive);
    }

    fn violation(&self, policy: PerformancePolicy) -> Reading<f64> {
        self.get(|device| device.violation_status(policy)).map(|status| status.violation_time as f64 / 1.0e9)
    }

    fn memory_temperature(&self) -> Reading<i32> {
        use nvml_wrapper::enums::device::SampleValue;
        let values = self.get(|device| device.field_values_for(&[FieldId(NVML_FI_DEV_MEMORY_TEMP)]))?;
        let sample = values.into_iter().next().ok_or(Unknown::Failed)?.map_err(|error| unknown(&error))?;
        match sample.value.map_err(|error| unknown(&error))? {
            SampleValue::U32(value) => temperature(value),
            SampleValue::U64(value) => u32::try_from(value).map_err(|_| Unknown::Failed).and_then(temperature),
            SampleValue::I64(value) => i32::try_from(value).map_err(|_| Unknown::Failed),
            SampleValue::F64(_) => Err(Unknown::Failed),
        }
    }

    fn read_bar1(&self, readings: &mut DeviceReadings) {
        let bar1 = self.get(Device::bar1_memory_info);
        readings.bar1_total_bytes = bar1.as_ref().map(|bar1| bar1.total).map_err(|reason| *reason);
        readings.bar1_used_bytes = bar1.map(|bar1| bar1.used);
    }

    fn read_link(&self, readings: &mut DeviceReadings) {
        readings.pcie_generation = self.get(Device::current_pcie_link_gen);
        readings.pcie_width = self.get(Device::current_pcie_link_width);
        readings.pcie_replay_count = self.get(Device::pcie_replay_counter).map(u64::from);
    }

    fn read_modes(&self, readings: &mut DeviceReadings) {
        use nvml_wrapper::enum_wrappers::device::ComputeMode;
        readings.persistence_mode_enabled = self.get(Device::is_in_persistent_mode);
        readings.display_active = self.get(Device::is_display_active);
        readings.compute_mode = self.get(Device::compute_mode).map(|mode| match mode {
            ComputeMode::Default => 0,
            ComputeMode::ExclusiveThread => 1,
            ComputeMode::Prohibited => 2,
            ComputeMode::ExclusiveProcess => 3,
        });
    }

    fn read_retired_pages(&self, readings: &mut DeviceReadings) {
        let pages = |cause| self.raw(|nvml, handle| ffi::retired_pages(nvml, handle, cause));
        readings.retired_pages_corrected = pages(Retirement::Corrected);
        readings.retired_pages_uncorrected = pages(Retirement::Uncorrected);
        readings.retired_pages_pending = self.get(Device::are_pages_pending_retired);
    }

    /// Speed of the fastest fan. The count is asked first: asking a device without fans for a speed is slow.
    fn fan_speed(&self, fan_count: &mut Option<u32>) -> Reading<u32> {
        let count = match *fan_count {
            Some(count) => count,
            None => *fan_count.insert(self.get(Device::num_fans)?),
        };
        let mut fastest = Err(Unknown::NotSupported);
        for fan in 0..count {
            match (self.get(|device| device.fan_speed(fan)), fastest) {
                (Ok(speed), Ok(known)) if speed <= known => {}
                (Ok(speed), _) => fastest = Ok(speed),
                (Err(reason), Err(_)) => fastest = Err(reason),
                (Err(_), Ok(_)) => {}
            }
        }
        fastest
    }

    /// Links that are up. A device without NVLink supports none of them; the last ones a device lacks are no error.
    fn active_links(&self) -> Reading<u32> {
        let mut active = Err(Unknown::NotSupported);
        for link in 0..NVML_NVLINK_MAX_LINKS {
            match self.get(|device| device.link_wrapper_for(link).is_active()) {
                Ok(up) => active = Ok(active.unwrap_or(0) + u32::from(up)),
                Err(reason) if link == 0 => return Err(reason),
                Err(_) => break,
            }
        }
        active
    }
}

/// The time after which the demand tier of further devices waits for the next round, as a share of the interval.
pub(crate) fn demand_has_room(round_began: Instant, interval: std::time::Duration) -> bool {
    round_began.elapsed() < interval / 2
}

fn thousandths(milliwatts: u32) -> f64 {
    f64::from(milliwatts) / 1000.0
}

fn temperature(degrees: u32) -> Reading<i32> {
    // Negative degrees come as a wrapped number; nothing that measures is hotter than this.
    match degrees.cast_signed() {
        plausible @ -100..=1000 => Ok(plausible),
        _ => Err(Unknown::Failed),
    }
}

fn performance_state(state: PerformanceState) -> Reading<u32> {
    use PerformanceState as P;
    Ok(match state {
        P::Zero => 0,
        P::One => 1,
        P::Two => 2,
        P::Three => 3,
        P::Four => 4,
        P::Five => 5,
        P::Six => 6,
        P::Seven => 7,
        P::Eight => 8,
        P::Nine => 9,
        P::Ten => 10,
        P::Eleven => 11,
        P::Twelve => 12,
        P::Thirteen => 13,
        P::Fourteen => 14,
        P::Fifteen => 15,
        P::Unknown => return Err(Unknown::Failed),
    })
}

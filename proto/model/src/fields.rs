//! The catalogue of readings: one row per metric.
//!
//! Each row names the field, its type, its number in the wire message of the same name, its unit, the cost tier it is
//! read in, its column title, its metric name and its source. The structs, their diffs, the wire conversions, filters,
//! columns and metrics are all generated from these rows, so a new metric is one row here, one field in the proto,
//! one read per backend and one simulated generator.

use crate::reading::{Reading, Unknown};

/// The unit of a reading, as its name spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Percent, 0–100; CPU percent counts one logical CPU as 100 and may exceed it.
    Percent,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Degrees Celsius.
    Celsius,
    /// Watts.
    Watts,
    /// Joules.
    Joules,
    /// Megahertz.
    Megahertz,
    /// Seconds.
    Seconds,
    /// A count of things or events.
    Count,
    /// A bit mask.
    Mask,
    /// Yes or no.
    Flag,
    /// A number of a small enumeration, such as a performance state.
    Code,
}

/// How often a backend reads a field, by what the read costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Every tick: microseconds.
    Tick,
    /// Every ten seconds: hundreds of microseconds to milliseconds.
    Slow,
    /// Only while somebody asks: tens of milliseconds.
    Demand,
}

/// A reading's value without its static type, for columns, filters and metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// A real number, always finite.
    Real(f64),
    /// Yes or no.
    Flag(bool),
}

impl Value {
    /// The value as a real number; a flag is 0 or 1.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Unsigned(v) => v as f64,
            Self::Signed(v) => v as f64,
            Self::Real(v) => v,
            Self::Flag(v) => f64::from(u8::from(v)),
        }
    }
}

impl From<u32> for Value {
    fn from(v: u32) -> Self {
        Self::Unsigned(v.into())
    }
}
impl From<u64> for Value {
    fn from(v: u64) -> Self {
        Self::Unsigned(v)
    }
}
impl From<i32> for Value {
    fn from(v: i32) -> Self {
        Self::Signed(v.into())
    }
}
impl From<f64> for Value {
    fn from(v: f64) -> Self {
        Self::Real(v)
    }
}
impl From<bool> for Value {
    fn from(v: bool) -> Self {
        Self::Flag(v)
    }
}

/// One row of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldInfo {
    /// The name, spelled the same in proto, Rust, JSON and the command line.
    pub name: &'static str,
    /// The field's number in its wire message.
    pub number: u32,
    /// The unit.
    pub unit: Unit,
    /// The cost tier.
    pub tier: Tier,
    /// The column title in tables.
    pub title: &'static str,
    /// Where NVML and DCGM give it; empty when computed.
    pub source: &'static str,
}

/// Calls `$callback!` with every row of [`DeviceReadings`], after the tokens of `$context`.
#[macro_export]
macro_rules! for_each_device_reading {
    ($callback:path $(, $context:tt)*) => { $callback! { [$($context)*]
        /// Time with at least one kernel running, over the driver's sampling window.
        1 utilization_percent: u32, Percent, Tick, "GPU%", "nvmlDeviceGetUtilizationRates.gpu; DCGM 203";
        /// Time the memory controller was busy, over the driver's sampling window.
        2 memory_utilization_percent: u32, Percent, Tick, "MBW%", "nvmlDeviceGetUtilizationRates.memory; DCGM 204";
        /// Video encoder utilisation.
        3 encoder_utilization_percent: u32, Percent, Tick, "ENC%", "nvmlDeviceGetEncoderUtilization; DCGM 206";
        /// Video decoder utilisation.
        4 decoder_utilization_percent: u32, Percent, Tick, "DEC%", "nvmlDeviceGetDecoderUtilization; DCGM 207";
        /// JPEG engine utilisation.
        5 jpeg_utilization_percent: u32, Percent, Tick, "JPG%", "nvmlDeviceGetJpgUtilization";
        /// Optical-flow engine utilisation.
        6 ofa_utilization_percent: u32, Percent, Tick, "OFA%", "nvmlDeviceGetOfaUtilization";
        /// Memory in use by processes, without the driver's reserve.
        7 memory_used_bytes: u64, Bytes, Tick, "MEM-USED", "nvmlDeviceGetMemoryInfo_v2.used; DCGM 252";
        /// Memory free.
        8 memory_free_bytes: u64, Bytes, Tick, "MEM-FREE", "nvmlDeviceGetMemoryInfo_v2.free; DCGM 251";
        /// Memory the driver and firmware keep for themselves.
        9 memory_reserved_bytes: u64, Bytes, Tick, "MEM-RSVD", "nvmlDeviceGetMemoryInfo_v2.reserved; DCGM 253";
        /// Memory in all.
        10 memory_total_bytes: u64, Bytes, Tick, "MEM-TOTAL", "nvmlDeviceGetMemoryInfo_v2.total; DCGM 250";
        /// BAR1 aperture in use. Not part of memory used.
        11 bar1_used_bytes: u64, Bytes, Slow, "BAR1-USED", "nvmlDeviceGetBAR1MemoryInfo; DCGM 93";
        /// BAR1 aperture in all.
        12 bar1_total_bytes: u64, Bytes, Slow, "BAR1-TOTAL", "nvmlDeviceGetBAR1MemoryInfo; DCGM 90";
        /// Core temperature.
        13 temperature_celsius: i32, Celsius, Tick, "TEMP", "nvmlDeviceGetTemperature; DCGM 150";
        /// Memory temperature.
        14 memory_temperature_celsius: i32, Celsius, Slow, "MTEMP", "NVML_FI_DEV_MEMORY_TEMP; DCGM 140";
        /// Power draw of the board.
        15 power_watts: f64, Watts, Tick, "POWER", "nvmlDeviceGetPowerUsage; DCGM 155";
        /// The power limit in force.
        16 power_limit_watts: f64, Watts, Tick, "POWER-LIMIT", "nvmlDeviceGetEnforcedPowerLimit; DCGM 164";
        /// Energy used since the driver was loaded.
        17 energy_joules: f64, Joules, Slow, "ENERGY", "nvmlDeviceGetTotalEnergyConsumption; DCGM 156";
        /// Intended fan speed, of the fastest fan; may exceed 100.
        18 fan_speed_percent: u32, Percent, Slow, "FAN", "nvmlDeviceGetFanSpeed_v2; DCGM 191";
        /// Performance state: 0 is the fastest, 15 the slowest.
        19 performance_state: u32, Code, Tick, "PSTATE", "nvmlDeviceGetPerformanceState; DCGM 190";
        /// Clock event (throttle) reasons in force, NVML's bits; 0 means none.
        20 clock_event_reasons: u64, Mask, Tick, "THROTTLE", "nvmlDeviceGetCurrentClocksEventReasons; DCGM 112";
        /// Graphics clock.
        21 graphics_clock_mhz: u32, Megahertz, Tick, "GFX-CLK", "nvmlDeviceGetClockInfo(GRAPHICS)";
        /// SM clock.
        22 sm_clock_mhz: u32, Megahertz, Tick, "SM-CLK", "nvmlDeviceGetClockInfo(SM); DCGM 100";
        /// Memory clock.
        23 memory_clock_mhz: u32, Megahertz, Tick, "MEM-CLK", "nvmlDeviceGetClockInfo(MEM); DCGM 101";
        /// Video clock.
        24 video_clock_mhz: u32, Megahertz, Tick, "VID-CLK", "nvmlDeviceGetClockInfo(VIDEO); DCGM 102";
        /// Current PCIe generation of the link.
        25 pcie_generation: u32, Count, Slow, "PCIE-GEN", "nvmlDeviceGetCurrPcieLinkGeneration; DCGM 237";
        /// Current PCIe lanes of the link.
        26 pcie_width: u32, Count, Slow, "PCIE-WIDTH", "nvmlDeviceGetCurrPcieLinkWidth; DCGM 238";
        /// PCIe bytes sent by the device. Blocks 20 ms in the driver.
        27 pcie_tx_bytes_per_second: u64, BytesPerSecond, Demand, "PCIE-TX", "nvmlDeviceGetPcieThroughput(TX)";
        /// PCIe bytes received by the device. Blocks 20 ms in the driver.
        28 pcie_rx_bytes_per_second: u64, BytesPerSecond, Demand, "PCIE-RX", "nvmlDeviceGetPcieThroughput(RX)";
        /// PCIe replays since the driver was loaded.
        29 pcie_replay_count: u64, Count, Slow, "REPLAYS", "nvmlDeviceGetPcieReplayCounter; DCGM 202";
        /// NVLink links that are up.
        30 nvlink_active_links: u32, Count, Slow, "NVLINKS", "nvmlDeviceGetNvLinkState";
        /// Corrected ECC errors since the driver was loaded.
        31 ecc_corrected_volatile: u64, Count, Tick, "ECC-C", "nvmlDeviceGetTotalEccErrors; DCGM 310";
        /// Uncorrected ECC errors since the driver was loaded.
        32 ecc_uncorrected_volatile: u64, Count, Tick, "ECC-U", "nvmlDeviceGetTotalEccErrors; DCGM 311";
        /// Corrected ECC errors over the card's life.
        33 ecc_corrected_aggregate: u64, Count, Tick, "ECC-C-LIFE", "nvmlDeviceGetTotalEccErrors; DCGM 312";
        /// Uncorrected ECC errors over the card's life. A number above zero alone is no fault.
        34 ecc_uncorrected_aggregate: u64, Count, Tick, "ECC-U-LIFE", "nvmlDeviceGetTotalEccErrors; DCGM 313";
        /// Pages retired for many single-bit errors.
        35 retired_pages_corrected: u32, Count, Slow, "RETIRED-C", "nvmlDeviceGetRetiredPages; DCGM 390";
        /// Pages retired for a double-bit error.
        36 retired_pages_uncorrected: u32, Count, Slow, "RETIRED-U", "nvmlDeviceGetRetiredPages; DCGM 391";
        /// A page retirement waits for a reset.
        37 retired_pages_pending: bool, Flag, Slow, "RETIRE-PEND", "nvmlDeviceGetRetiredPagesPendingStatus; DCGM 392";
        /// Rows remapped for corrected errors.
        38 remapped_rows_corrected: u32, Count, Tick, "REMAP-C", "nvmlDeviceGetRemappedRows; DCGM 394";
        /// Rows remapped for uncorrected errors.
        39 remapped_rows_uncorrected: u32, Count, Tick, "REMAP-U", "nvmlDeviceGetRemappedRows; DCGM 393";
        /// A row remap waits for a reset.
        40 remapped_rows_pending: bool, Flag, Tick, "REMAP-PEND", "nvmlDeviceGetRemappedRows; DCGM 396";
        /// A row remap has failed.
        41 remapped_rows_failed: bool, Flag, Tick, "REMAP-FAIL", "nvmlDeviceGetRemappedRows; DCGM 395";
        /// Time spent below requested clocks for the power limit, since the driver was loaded.
        42 power_violation_seconds: f64, Seconds, Slow, "PWR-VIOL", "nvmlDeviceGetViolationStatus(POWER); DCGM 240";
        /// Time spent below requested clocks for heat, since the driver was loaded.
        43 thermal_violation_seconds: f64, Seconds, Slow, "THERM-VIOL", "nvmlDeviceGetViolationStatus(THERMAL); DCGM 241";
        /// MIG mode is on.
        44 mig_mode_enabled: bool, Flag, Slow, "MIG", "nvmlDeviceGetMigMode; DCGM 67";
        /// ECC is on.
        45 ecc_mode_enabled: bool, Flag, Slow, "ECC", "nvmlDeviceGetEccMode";
        /// Persistence mode is on.
        46 persistence_mode_enabled: bool, Flag, Slow, "PERSIST", "nvmlDeviceGetPersistenceMode; DCGM 66";
        /// A display is attached and initialised.
        47 display_active: bool, Flag, Slow, "DISPLAY", "nvmlDeviceGetDisplayActive";
        /// Compute mode: 0 default, 1 exclusive thread, 2 prohibited, 3 exclusive process.
        48 compute_mode: u32, Code, Slow, "COMPUTE-MODE", "nvmlDeviceGetComputeMode; DCGM 65";
        /// The newest XID seen since the agent started; not yet known while there was none.
        49 last_xid: u32, Code, Tick, "XID", "nvmlEventSetWait_v2(XidCriticalError); DCGM 230";
    } };
}

/// Calls `$callback!` with every row of [`ProcessReadings`], after the tokens of `$context`.
#[macro_export]
macro_rules! for_each_process_reading {
    ($callback:path $(, $context:tt)*) => { $callback! { [$($context)*]
        /// CPU use since the last sample; 100 is one logical CPU. Not yet known on the first sample.
        1 cpu_percent: f64, Percent, Tick, "CPU%", "/proc/PID/stat";
        /// Resident memory.
        2 host_memory_bytes: u64, Bytes, Tick, "HOST-MEM", "/proc/PID/stat";
        /// Resident memory as a share of the host's memory.
        3 host_memory_percent: f64, Percent, Tick, "MEM%", "computed";
        /// CPU time used so far, user and system.
        4 cpu_time_seconds: f64, Seconds, Tick, "TIME+", "/proc/PID/stat";
        /// Threads.
        5 thread_count: u32, Count, Tick, "THREADS", "/proc/PID/stat";
    } };
}

/// Calls `$callback!` with every row of [`UseReadings`], after the tokens of `$context`.
#[macro_export]
macro_rules! for_each_use_reading {
    ($callback:path $(, $context:tt)*) => { $callback! { [$($context)*]
        /// Device memory the process holds on this device.
        1 memory_used_bytes: u64, Bytes, Tick, "GPU-MEM", "nvmlDeviceGetComputeRunningProcesses_v3";
        /// SM utilisation by the process.
        2 sm_percent: u32, Percent, Tick, "SM%", "nvmlDeviceGetProcessesUtilizationInfo";
        /// Memory-bandwidth utilisation by the process.
        3 memory_bandwidth_percent: u32, Percent, Tick, "GMBW%", "nvmlDeviceGetProcessesUtilizationInfo";
        /// Encoder utilisation by the process.
        4 encoder_percent: u32, Percent, Tick, "ENC%", "nvmlDeviceGetProcessesUtilizationInfo";
        /// Decoder utilisation by the process.
        5 decoder_percent: u32, Percent, Tick, "DEC%", "nvmlDeviceGetProcessesUtilizationInfo";
    } };
}

macro_rules! define_readings {
    ([$name:ident $patch:ident $doc:literal] $( $(#[$meta:meta])* $number:literal $field:ident : $ty:ty, $unit:ident, $tier:ident, $title:literal, $source:literal; )*) => {
        #[doc = $doc]
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[$meta])* pub $field: Reading<$ty>, )*
        }

        impl $name {
            /// The rows of the catalogue that make up this struct, in wire order.
            pub const FIELDS: &'static [FieldInfo] = &[
                $( FieldInfo { name: stringify!($field), number: $number, unit: Unit::$unit, tier: Tier::$tier, title: $title, source: $source }, )*
            ];

            /// Every field unknown for the same reason.
            pub const fn unknown(reason: Unknown) -> Self {
                Self { $( $field: Err(reason), )* }
            }

            /// The value of the field called `name`; `None` when there is no such field.
            pub fn get(&self, name: &str) -> Option<Reading<Value>> {
                match name {
                    $( stringify!($field) => Some(self.$field.map(Value::from)), )*
                    _ => None,
                }
            }

            /// What turns `self` into `newer`; `None` when nothing differs.
            pub fn patch_to(&self, newer: &Self) -> Option<$patch> {
                let mut patch = $patch::default();
                let mut changed = false;
                $( if self.$field != newer.$field {
                    patch.$field = Some(newer.$field);
                    changed = true;
                } )*
                changed.then_some(patch)
            }

            /// A patch that sets every field to what it is here.
            pub fn full_patch(&self) -> $patch {
                $patch { $( $field: Some(self.$field), )* }
            }

            /// Sets the fields that the patch names.
            pub fn apply(&mut self, patch: &$patch) {
                $( if let Some(reading) = patch.$field {
                    self.$field = reading;
                } )*
            }
        }

        #[doc = concat!("The fields of [`", stringify!($name), "`] that changed; `None` leaves a field as it is.")]
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $patch {
            $( $(#[$meta])* pub $field: Option<Reading<$ty>>, )*
        }

        impl $patch {
            /// Marks the field with wire number `number` as no longer known; an unknown number changes nothing.
            pub fn forget(&mut self, number: u32, reason: Unknown) {
                match number {
                    $( $number => self.$field = Some(Err(reason)), )*
                    _ => {}
                }
            }
        }
    };
}

crate::for_each_device_reading!(
    define_readings,
    DeviceReadings,
    DeviceReadingsPatch,
    "What is measured of a device. Every field is a value or the reason there is none."
);
crate::for_each_process_reading!(
    define_readings,
    ProcessReadings,
    ProcessReadingsPatch,
    "What the host measures of a process, counted once however many devices it uses."
);
crate::for_each_use_reading!(
    define_readings,
    UseReadings,
    UseReadingsPatch,
    "What is measured of one process on one device."
);

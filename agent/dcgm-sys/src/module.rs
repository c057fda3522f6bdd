//! What an engine consists of and costs: its modules, memory and CPU time, and which profiling fields go together.

use crate::code::{c_enum, layout, versioned};
use crate::field::FieldId;
use crate::version::Zeroable;

c_enum! {
    /// A module of the engine.
    #[doc(alias = "dcgmModuleId_t")]
    pub struct ModuleId(i32) {
        /// The core.
        CORE = 0;
        /// NVSwitches.
        NVSWITCH = 1;
        /// Virtual GPUs.
        VGPU = 2;
        /// The engine's own cost.
        INTROSPECT = 3;
        /// Health watches.
        HEALTH = 4;
        /// Policies.
        POLICY = 5;
        /// Settings of devices.
        CONFIG = 6;
        /// Diagnostics.
        DIAG = 7;
        /// Profiling on GPUs before Hopper.
        PROFILING = 8;
        /// CPUs.
        SYSMON = 9;
        /// Diagnostics over several nodes; from 4.0.
        MULTI_NODE_DIAG = 10;
    }
}

c_enum! {
    /// Whether a module is there.
    #[doc(alias = "dcgmModuleStatus_t")]
    pub struct ModuleStatus(i32) {
        /// Not needed yet.
        NOT_LOADED = 0;
        /// Denied when the engine was started.
        DENYLISTED = 1;
        /// Could not be loaded.
        FAILED = 2;
        /// Loaded.
        LOADED = 3;
        /// Loaded and unloaded again.
        UNLOADED = 4;
        /// Paused.
        PAUSED = 5;
        /// Can be loaded again; from 4.0.
        RELOADABLE = 6;
    }
}

c_enum! {
    /// The state of the fabric manager, as field 170 tells it.
    #[doc(alias = "dcgmFabricManagerStatus_t")]
    pub struct FabricManagerStatus(i32) {
        /// The device has none.
        NOT_SUPPORTED = 0;
        /// Not started.
        NOT_STARTED = 1;
        /// Starting.
        IN_PROGRESS = 2;
        /// Done.
        SUCCESS = 3;
        /// Failed.
        FAILURE = 4;
        /// A state that DCGM does not know.
        UNRECOGNIZED = 5;
        /// NVML is too old to tell.
        NVML_TOO_OLD = 6;
    }
}

/// A module and its status.
#[doc(alias = "dcgmModuleGetStatusesModule_t")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Module {
    /// The module.
    pub id: ModuleId,
    /// Its status.
    pub status: ModuleStatus,
}

/// Every module.
#[doc(alias = "dcgmModuleGetStatuses_v1")]
#[repr(C)]
pub struct ModuleStatusesV1 {
    /// The version word.
    pub version: u32,
    /// How many are filled.
    pub count: u32,
    /// The modules.
    pub modules: [Module; 16],
}

/// The engine's memory.
#[doc(alias = "dcgmIntrospectMemory_v1")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct IntrospectMemoryV1 {
    /// The version word.
    pub version: u32,
    /// Bytes in use.
    pub bytes_used: i64,
}

/// The engine's CPU time, each from 0 to 1.
#[doc(alias = "dcgmIntrospectCpuUtil_v1")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct IntrospectCpuV1 {
    /// The version word.
    pub version: u32,
    /// In all.
    pub total: f64,
    /// In the kernel.
    pub kernel: f64,
    /// In user mode.
    pub user: f64,
}

/// Profiling fields that can be read together.
#[doc(alias = "dcgmProfMetricGroupInfo_v2")]
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct MetricGroup {
    /// Groups of different major ids can be read together; of one major id only one at a time.
    pub major: u16,
    /// The number within the major id.
    pub minor: u16,
    /// How many fields are filled.
    pub count: u32,
    /// The fields.
    pub fields: [FieldId; 64],
}

impl MetricGroup {
    /// The fields that are filled.
    pub fn fields(&self) -> &[FieldId] {
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        self.fields.get(..count).unwrap_or(&self.fields)
    }
}

/// Every group of profiling fields of a GPU.
#[doc(alias = "dcgmProfGetMetricGroups_v3")]
#[repr(C)]
pub struct MetricGroupsV3 {
    /// The version word.
    pub version: u32,
    /// Not used.
    pub unused: u32,
    /// In: the GPU.
    pub gpu: u32,
    /// How many are filled.
    pub count: u32,
    /// The groups.
    pub groups: [MetricGroup; 10],
}

layout!(Module: size 8, align 4; id @ 0, 4; status @ 4, 4;);
layout!(ModuleStatusesV1: size 136, align 4; version @ 0, 4; count @ 4, 4; modules @ 8, 128;);
layout!(IntrospectMemoryV1: size 16, align 8; version @ 0, 4; bytes_used @ 8, 8;);
layout!(IntrospectCpuV1: size 32, align 8; version @ 0, 4; total @ 8, 8; kernel @ 16, 8; user @ 24, 8;);
layout!(MetricGroup: size 136, align 4; major @ 0, 2; minor @ 2, 2; count @ 4, 4; fields @ 8, 128;);
layout!(MetricGroupsV3: size 1376, align 4;
    version @ 0, 4; unused @ 4, 4; gpu @ 8, 4; count @ 12, 4; groups @ 16, 1360;
);
// SAFETY: numbers and arrays of them.
unsafe impl Zeroable for ModuleStatusesV1 {}
// SAFETY: numbers.
unsafe impl Zeroable for IntrospectMemoryV1 {}
// SAFETY: numbers.
unsafe impl Zeroable for IntrospectCpuV1 {}
// SAFETY: numbers and arrays of them.
unsafe impl Zeroable for MetricGroupsV3 {}
versioned! {
    ModuleStatusesV1 = 1 => 0x0100_0088;
    IntrospectMemoryV1 = 1 => 0x0100_0010;
    IntrospectCpuV1 = 1 => 0x0100_0020;
    MetricGroupsV3 = 3 => 0x0300_0560;
}

//! What the ready-made devices answer.

use gpufleet_fake_nvml::scenario::{Device, Process, Scenario};
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PcieUtilCounter, PerformancePolicy, PerformanceState, TemperatureSensor,
    TemperatureThreshold,
};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper_sys::bindings::{nvmlMemory_t, nvmlReturn_enum_NVML_SUCCESS as SUCCESS};

use crate::Turn;

#[test]
fn an_h200_gives_the_values_a_real_one_gave() {
    let mut device = Device::h200(0);
    device.processes = vec![Process::busy(440, 5_345_640_448, 97), Process::idle(441, 2_826_960_896)];
    let turn = Turn::one(device);
    let nvml = turn.nvml();
    assert_eq!(nvml.sys_driver_version().unwrap(), "580.159.04");
    assert_eq!(nvml.sys_cuda_driver_version().unwrap(), 13_000);
    assert_eq!(nvml.device_count().unwrap(), 1);
    let gpu = nvml.device_by_index(0).unwrap();
    assert_eq!(gpu.name().unwrap(), "NVIDIA H200");
    let memory = gpu.memory_info().unwrap();
    assert_eq!(
        (memory.total, memory.used, memory.reserved, memory.free),
        (150_754_820_096, 8_187_740_160, 644_939_776, 150_754_820_096 - 8_187_740_160 - 644_939_776)
    );
    let utilization = gpu.utilization_rates().unwrap();
    assert_eq!((utilization.gpu, utilization.memory), (95, 22));
    assert_eq!(gpu.temperature(TemperatureSensor::Gpu).unwrap(), 59);
    assert_eq!(gpu.temperature_threshold(TemperatureThreshold::Shutdown).unwrap(), 95);
    assert_eq!(gpu.temperature_threshold(TemperatureThreshold::GpuMax).unwrap(), 87);
    assert_eq!(gpu.power_usage().unwrap(), 690_855);
    assert_eq!(gpu.enforced_power_limit().unwrap(), 700_000);
    assert_eq!(gpu.num_fans().unwrap(), 0);
    assert!(matches!(gpu.fan_speed(0), Err(NvmlError::NotSupported)));
    assert_eq!(gpu.performance_state().unwrap(), PerformanceState::Zero);
    assert_eq!(gpu.current_throttle_reasons().unwrap(), ThrottleReasons::SW_POWER_CAP);
    assert_eq!(gpu.clock_info(Clock::SM).unwrap(), 1500);
    assert_eq!(gpu.max_clock_info(Clock::Memory).unwrap(), 3201);
    assert_eq!(gpu.current_pcie_link_gen().unwrap(), 5);
    assert_eq!(gpu.pcie_throughput(PcieUtilCounter::Send).unwrap(), 24_650);
    assert_eq!(gpu.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Aggregate).unwrap(), 1);
    assert_eq!(gpu.violation_status(PerformancePolicy::Power).unwrap().violation_time, 21_500_000_000);
    assert!(matches!(gpu.link_wrapper_for(0).is_active(), Err(NvmlError::NotSupported)));
    assert!(gpu.mig_is_mig_device_handle().is_ok_and(|mig| !mig));
    assert_eq!(gpu.pci_info().unwrap().bus_id, "00000000:17:00.0");
    let by_bus = nvml.device_by_pci_bus_id("0000:17:00.0").unwrap();
    assert_eq!(by_bus.uuid().unwrap(), gpu.uuid().unwrap());
    let uuid = gpu.uuid().unwrap();
    assert_eq!(nvml.device_by_uuid(uuid).unwrap().index().unwrap(), 0);
    assert!(matches!(nvml.device_by_index(1), Err(NvmlError::InvalidArg)));
    assert!(matches!(nvml.device_by_uuid("GPU-none"), Err(NvmlError::NotFound)));
}

#[test]
fn field_values_answer_one_by_one() {
    let turn = Turn::one(Device::h200(0));
    let nvml = turn.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    let ids =
        [field_id::NVML_FI_DEV_MEMORY_TEMP, field_id::NVML_FI_DEV_POWER_INSTANT, field_id::NVML_FI_DEV_ECC_SBE_VOL_L1];
    let ids = ids.map(nvml_wrapper::structs::device::FieldId);
    let values = gpu.field_values_for(&ids).unwrap();
    let read: Vec<_> = values.into_iter().map(|value| value.ok().and_then(|value| value.value.ok())).collect();
    assert_eq!(
        read,
        [
            Some(nvml_wrapper::enums::device::SampleValue::U32(47)),
            Some(nvml_wrapper::enums::device::SampleValue::U32(690_855)),
            None
        ]
    );
}

#[test]
fn an_old_card_has_the_first_memory_call_only() {
    let turn = Turn::one(Device::k80(0));
    let nvml = turn.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    assert!(matches!(gpu.memory_info(), Err(NvmlError::NotSupported)));
    let raw = turn.raw();
    let mut memory = nvmlMemory_t { total: 0, free: 0, used: 0 };
    // SAFETY: the handle is from the same library, and `memory` is a structure of the right type.
    let code = unsafe { raw.nvmlDeviceGetMemoryInfo(gpu.handle(), &raw mut memory) };
    assert_eq!((code, memory.used), (SUCCESS, 3 * 1024 * 1024));
    assert_eq!(gpu.fan_speed(0).unwrap(), 34);
    assert!(matches!(gpu.fan_speed(1), Err(NvmlError::InvalidArg)));
    assert!(matches!(gpu.mig_mode(), Err(NvmlError::NotSupported)));
    assert!(matches!(gpu.total_energy_consumption(), Err(NvmlError::NotSupported)));
    let cause = nvml_wrapper::enum_wrappers::device::RetirementCause::MultipleSingleBitEccErrors;
    assert_eq!(gpu.retired_pages(cause).unwrap().len(), 2);
}

#[test]
fn mig_instances_have_memory_and_processes_of_their_own() {
    let mut device = Device::a100_mig(0);
    let process = Process { gpu_instance: Some(5), compute_instance: Some(0), ..Process::idle(77, 1 << 30) };
    device.processes = vec![process];
    let turn = Turn::one(device);
    let nvml = turn.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    assert_eq!(gpu.mig_mode().unwrap().current, 1);
    assert!(matches!(gpu.utilization_rates(), Err(NvmlError::NotSupported)));
    assert_eq!(gpu.running_compute_processes().unwrap()[0].gpu_instance_id, Some(5));
    assert_eq!(gpu.mig_device_count().unwrap(), 7);
    let instance = gpu.mig_device_by_index(1).unwrap();
    assert!(instance.mig_is_mig_device_handle().unwrap());
    assert!(instance.name().unwrap().ends_with(" MIG 2g.10gb"));
    assert!(instance.uuid().unwrap().starts_with("MIG-"));
    assert_eq!(instance.memory_info().unwrap().used, (1 << 30) + 12 * 1024 * 1024);
    assert_eq!(instance.running_compute_processes().unwrap().len(), 1);
    assert!(matches!(instance.power_usage(), Err(NvmlError::NotSupported)));
    let other = gpu.mig_device_by_index(0).unwrap();
    assert!(other.running_compute_processes().unwrap().is_empty());
    assert!(matches!(gpu.mig_device_by_index(3), Err(NvmlError::NotFound)));
    assert!(matches!(gpu.mig_device_by_index(7), Err(NvmlError::InvalidArg)));
    let raw = turn.raw();
    let (mut id, mut parent) = (0, std::ptr::null_mut());
    // SAFETY: the handle is from the same library; `id` and `parent` are of the right types.
    unsafe {
        assert_eq!(raw.nvmlDeviceGetGpuInstanceId(instance.handle(), &raw mut id), SUCCESS);
        assert_eq!(raw.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance.handle(), &raw mut parent), SUCCESS);
        assert_eq!(parent, gpu.handle());
    }
    assert_eq!(id, 5);
}

#[test]
fn the_number_of_devices_follows_the_scenario() {
    let mut scenario = Scenario { devices: vec![Device::h200(0), Device::a100(1)], ..Scenario::default() };
    let turn = Turn::with(&scenario);
    let nvml = turn.nvml();
    let second = nvml.device_by_index(1).unwrap();
    assert_eq!(second.name().unwrap(), "NVIDIA A100-SXM4-40GB");
    scenario.devices.remove(0);
    turn.write(&scenario);
    assert_eq!(nvml.device_count().unwrap(), 1);
    assert_eq!(second.index().unwrap(), 0, "the handle still means the same card");
}

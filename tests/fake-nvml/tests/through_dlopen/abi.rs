//! Null pointers, small buffers, handles of nobody, calls before the start.

use std::ffi::c_char;
use std::ptr::null_mut;

use gpufleet_fake_nvml::Code;
use gpufleet_fake_nvml::scenario::{Device, Process};
use nvml_wrapper_sys::bindings::nvmlDevice_t;

use crate::Turn;

#[test]
fn nothing_works_before_the_start_and_after_the_end() {
    let turn = Turn::one(Device::h200(0));
    let raw = turn.raw();
    let mut count = 7;
    // SAFETY: pointers to variables of the right types.
    unsafe {
        assert_eq!(Code(raw.nvmlDeviceGetCount_v2(&raw mut count)), Code::UNINITIALIZED);
        assert_eq!(Code(raw.nvmlShutdown()), Code::UNINITIALIZED);
        assert_eq!(Code(raw.nvmlInitWithFlags(1)), Code::SUCCESS);
        assert_eq!(Code(raw.nvmlInit_v2()), Code::SUCCESS);
        assert_eq!(Code(raw.nvmlShutdown()), Code::SUCCESS);
        assert_eq!(Code(raw.nvmlDeviceGetCount_v2(&raw mut count)), Code::SUCCESS, "initialised twice, shut down once");
        assert_eq!(count, 1);
        assert_eq!(Code(raw.nvmlShutdown()), Code::SUCCESS);
        assert_eq!(Code(raw.nvmlDeviceGetCount_v2(&raw mut count)), Code::UNINITIALIZED);
        let text = std::ffi::CStr::from_ptr(raw.nvmlErrorString(15));
        assert_eq!(text.to_str().unwrap(), "GPU is lost");
    }
}

#[test]
fn null_pointers_and_strange_handles_are_invalid_arguments() {
    let turn = Turn::one(Device::h200(0));
    let nvml = turn.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    let raw = turn.raw();
    let mut number = 0;
    // SAFETY: this is what is tested: null pointers, and handles that the library only looks up.
    unsafe {
        let device = gpu.handle();
        assert_eq!(Code(raw.nvmlDeviceGetPowerUsage(device, null_mut())), Code::INVALID_ARGUMENT);
        assert_eq!(Code(raw.nvmlDeviceGetMemoryInfo_v2(device, null_mut())), Code::INVALID_ARGUMENT);
        assert_eq!(Code(raw.nvmlDeviceGetName(device, null_mut(), 64)), Code::INVALID_ARGUMENT);
        assert_eq!(Code(raw.nvmlDeviceGetHandleByUUID(null_mut(), null_mut())), Code::INVALID_ARGUMENT);
        assert_eq!(Code(raw.nvmlDeviceGetHandleByIndex_v2(0, null_mut())), Code::INVALID_ARGUMENT);
        assert_eq!(Code(raw.nvmlDeviceGetFieldValues(device, 3, null_mut())), Code::INVALID_ARGUMENT);
        assert_eq!(Code(raw.nvmlEventSetWait_v2(null_mut(), null_mut(), 0)), Code::INVALID_ARGUMENT);
        for strange in
            [null_mut(), 1 as nvmlDevice_t, usize::MAX as nvmlDevice_t, (device as usize + 8) as nvmlDevice_t]
        {
            assert_eq!(Code(raw.nvmlDeviceGetPowerUsage(strange, &raw mut number)), Code::INVALID_ARGUMENT);
        }
    }
}

#[test]
fn buffers_that_are_too_small_are_told_so_and_not_overrun() {
    let turn = Turn::one(Device { processes: vec![Process::idle(1, 1), Process::idle(2, 2)], ..Device::h200(0) });
    let nvml = turn.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    let raw = turn.raw();
    let mut name: [c_char; 12] = [0x55; 12];
    let mut count = 0;
    // SAFETY: the lengths given are no more than those of the buffers.
    unsafe {
        let device = gpu.handle();
        assert_eq!(Code(raw.nvmlDeviceGetName(device, name.as_mut_ptr(), 11)), Code::INSUFFICIENT_SIZE);
        assert_eq!(name, [0x55; 12]);
        assert_eq!(Code(raw.nvmlDeviceGetName(device, name.as_mut_ptr(), 12)), Code::SUCCESS);
        let code = raw.nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut count, null_mut());
        assert_eq!((Code(code), count), (Code::INSUFFICIENT_SIZE, 2));
        let code = raw.nvmlDeviceGetGraphicsRunningProcesses_v3(device, &raw mut count, null_mut());
        assert_eq!((Code(code), count), (Code::SUCCESS, 0));
        let code = raw.nvmlDeviceGetComputeRunningProcesses_v3(device, null_mut(), null_mut());
        assert_eq!(Code(code), Code::INVALID_ARGUMENT);
    }
}

//! What the fake driver of one agent says, and how a test changes it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gpufleet_fake_nvml::scenario::{Device, Process, Scenario};

/// The scenario file of one fake driver. Changes are written atomically.
#[derive(Debug)]
pub struct Driver {
    path: PathBuf,
    scenario: Mutex<Scenario>,
}

impl Driver {
    /// A driver with these devices; UUIDs and serial numbers are made unique with `host`. A process that has exited
    /// leaves its devices at once, as with a real driver.
    pub fn new(folder: &Path, host: &str, devices: Vec<Device>) -> Self {
        let devices = devices.into_iter().enumerate().map(|(index, device)| of_host(host, index, device)).collect();
        let scenario = Scenario { release_on_exit_ms: Some(0), devices, ..Scenario::default() };
        let driver = Self { path: folder.join(format!("{host}.scenario.toml")), scenario: Mutex::new(scenario) };
        driver.update(|_| {});
        driver
    }

    /// The scenario file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes what the driver says.
    pub fn update(&self, change: impl FnOnce(&mut Scenario)) {
        let mut scenario = self.scenario.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut scenario);
        let fresh = self.path.with_extension("new");
        fs::write(&fresh, scenario.to_toml().expect("a scenario can be written")).expect("a scenario can be written");
        fs::rename(fresh, &self.path).expect("a scenario can be replaced");
    }

    /// Puts a process on the device of this index.
    pub fn add_process(&self, device: usize, process: Process) {
        self.update(|scenario| scenario.devices.get_mut(device).expect("the device exists").processes.push(process));
    }

    /// The UUID of the device of this index.
    pub fn uuid(&self, device: usize) -> String {
        let scenario = self.scenario.lock().unwrap_or_else(PoisonError::into_inner);
        scenario.devices.get(device).expect("the device exists").uuid.clone()
    }
}

/// UUIDs must be unique in a fleet: the host's name goes into their last part.
fn of_host(host: &str, index: usize, mut device: Device) -> Device {
    let hash = host
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let number = (hash ^ (index as u64)) & 0xffff_ffff_ffff;
    device.uuid = format!("GPU-00000000-0000-4000-8000-{number:012x}");
    device.minor_number = u32::try_from(index).ok();
    device.pci_bus_id = format!("0000:{:02x}:00.0", 0x17 + index);
    for mig in &mut device.mig {
        mig.uuid = format!("MIG-{:08x}-0000-5000-8000-{number:012x}", mig.gpu_instance);
    }
    device
}

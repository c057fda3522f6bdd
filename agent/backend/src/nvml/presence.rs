//! What the kernel says of NVIDIA hardware and driver, without entering the driver.

use std::fs;
use std::path::Path;

const NVIDIA_VENDOR: &str = "0x10de";
/// PCI class of display controllers; 3D controllers without display are a subclass.
const DISPLAY_CLASS: &str = "0x03";

/// True when a PCI device under `bus` (normally `/sys/bus/pci/devices`) is an NVIDIA GPU.
pub(crate) fn has_nvidia_gpu(bus: &Path) -> bool {
    let Ok(entries) = fs::read_dir(bus) else { return false };
    entries.flatten().any(|entry| {
        let starts_with = |file: &str, prefix: &str| {
            fs::read_to_string(entry.path().join(file)).is_ok_and(|text| text.trim_start().starts_with(prefix))
        };
        starts_with("vendor", NVIDIA_VENDOR) && starts_with("class", DISPLAY_CLASS)
    })
}

/// What the loaded driver says it is and which GPUs it drives, from `/proc/driver/nvidia`. Changes when the driver is
/// reloaded with another version, and when a GPU comes or goes. `None` without a driver.
pub(crate) fn driver_view(proc_driver: &Path) -> Option<String> {
    let mut view = fs::read_to_string(proc_driver.join("version")).ok()?;
    let mut gpus: Vec<String> = fs::read_dir(proc_driver.join("gpus"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    gpus.sort_unstable();
    view.push_str(&gpus.join(" "));
    Some(view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_nvidia_gpu_is_told_from_other_cards() {
        let bus = tempfile::tempdir().unwrap();
        assert!(!has_nvidia_gpu(&bus.path().join("absent")));
        let add = |slot: &str, vendor: &str, class: &str| {
            let device = bus.path().join(slot);
            fs::create_dir(&device).unwrap();
            fs::write(device.join("vendor"), vendor).unwrap();
            fs::write(device.join("class"), class).unwrap();
        };
        add("0000:00:01.0", "0x8086\n", "0x030000\n");
        add("0000:00:02.0", "0x10de\n", "0x0c0330\n");
        assert!(!has_nvidia_gpu(bus.path()));
        add("0000:00:03.0", "0x10de\n", "0x030200\n");
        assert!(has_nvidia_gpu(bus.path()));
    }

    #[test]
    fn the_drivers_view_changes_with_its_version_and_its_gpus() {
        let driver = tempfile::tempdir().unwrap();
        assert_eq!(driver_view(driver.path()), None);
        fs::write(driver.path().join("version"), "NVRM version: 580.1").unwrap();
        let empty = driver_view(driver.path());
        fs::create_dir_all(driver.path().join("gpus/0000:01:00.0")).unwrap();
        let one = driver_view(driver.path());
        assert!(empty.is_some() && one.is_some() && empty != one);
        fs::write(driver.path().join("version"), "NVRM version: 580.2").unwrap();
        assert_ne!(driver_view(driver.path()), one);
    }
}

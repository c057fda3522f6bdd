//! The sandbox's own parts.

use gpufleet_tests::scenario::{Device, Process};
use gpufleet_tests::{Driver, Workload, binary, eventually, fake_nvml_folder, fake_nvml_library};

#[test]
fn programs_and_library_are_built() {
    for program in ["gpuctl", "gpufleet-agent", "gpufleet-aggregator"] {
        assert!(binary(program).is_file());
    }
    assert!(fake_nvml_library().is_file());
    let folder = tempfile::tempdir().unwrap();
    assert!(fake_nvml_folder(folder.path()).join("libnvidia-ml.so.1").is_file());
}

#[test]
fn drivers_of_two_hosts_have_different_devices() {
    let folder = tempfile::tempdir().unwrap();
    let devices = || vec![Device::h200(0), Device::a100_mig(1)];
    let (one, two) = (Driver::new(folder.path(), "one", devices()), Driver::new(folder.path(), "two", devices()));
    let uuids = [one.uuid(0), one.uuid(1), two.uuid(0), two.uuid(1)];
    let distinct: std::collections::HashSet<_> = uuids.iter().collect();
    assert_eq!(distinct.len(), uuids.len());
    one.add_process(0, Process::busy(1, 2, 3));
    let written = std::fs::read_to_string(one.path()).unwrap();
    assert!(written.contains("memory_bytes = 2"), "{written}");
}

#[test]
fn workloads_end_by_the_signals_they_do_not_ignore() {
    let mut plain = Workload::start("plain");
    let mut stubborn = Workload::stubborn("stubborn");
    assert!(plain.runs() && stubborn.runs());
    assert!(plain.start_ticks() > 0);
    for workload in [&plain, &stubborn] {
        let pid = rustix::process::Pid::from_raw(workload.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
    assert_eq!(plain.ended_by(), Some(15));
    eventually("nothing", || Ok::<_, String>(()));
    assert!(stubborn.runs());
}

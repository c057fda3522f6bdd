//! Health of devices, from what the driver says to the caller who asks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use gpufleet_proto::convert::timestamp;
use gpufleet_proto::health_socket::client::HealthClient;
use gpufleet_proto::health_socket::{Status, mask};
use gpufleet_proto::v1::agent_service_client::AgentServiceClient;
use gpufleet_proto::v1::{self, Verdict};
use gpufleet_tests::scenario::{Device, Event, Scenario};
use gpufleet_tests::{DEADLINE, Driver, Fleet, Sandbox, eventually};
use tonic::Code;

/// A host of two H200s, a kernel log of its own, and a health socket.
fn judged_host() -> (Fleet, PathBuf, PathBuf) {
    let sandbox = Sandbox::new();
    let (socket, kernel_log) = (sandbox.folder().join("run/health.sock"), sandbox.folder().join("kmsg"));
    std::fs::write(&kernel_log, "").unwrap();
    let driver = Driver::new(sandbox.folder(), "host1", vec![Device::h200(0), Device::h200(1)]);
    let agent = sandbox
        .agent_with("host1", &driver)
        .arg("--health-socket")
        .arg(&socket)
        .env("GPUFLEET_AGENT_HEALTH__KERNEL_LOG", &kernel_log);
    (Fleet::of_one(sandbox, "host1", driver, agent), socket, kernel_log)
}

fn change(fleet: &Fleet, change: impl FnOnce(&mut Scenario)) {
    fleet.agents[0].driver.update(change);
}

fn report_xid(fleet: &Fleet, device: usize, code: u64) {
    let event = Event { id: code, device: fleet.agents[0].driver.uuid(device), kind: 8, data: code, replay: true };
    change(fleet, |scenario| scenario.events.push(event));
}

async fn health(fleet: &Fleet) -> Vec<v1::DeviceHealth> {
    let mut client = AgentServiceClient::new(fleet.dial_agent("host1").await);
    client.get_health(v1::GetHealthRequest::default()).await.unwrap().into_inner().devices
}

fn until_verdict(fleet: &Fleet, device: usize, wanted: Verdict) -> v1::DeviceHealth {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut found = None;
    eventually(&format!("device {device} is {wanted:?}"), || {
        let devices = runtime.block_on(health(fleet));
        match devices.get(device) {
            Some(health) if health.verdict() == wanted => {
                found = Some(health.clone());
                Ok(())
            }
            other => Err(format!("{other:#?}")),
        }
    });
    found.unwrap()
}

#[test]
fn a_busy_card_at_its_power_cap_with_one_old_error_is_healthy() {
    let (fleet, ..) = judged_host();
    for device in [0, 1] {
        assert_eq!(until_verdict(&fleet, device, Verdict::Healthy).incidents, []);
    }
}

#[test]
fn an_xid_makes_its_device_critical_with_code_evidence_and_action() {
    let (fleet, ..) = judged_host();
    until_verdict(&fleet, 1, Verdict::Healthy);
    report_xid(&fleet, 1, 79);
    let critical = until_verdict(&fleet, 1, Verdict::Critical);
    let incident = &critical.incidents[0];
    assert_eq!((incident.code.as_str(), incident.suggested_action()), ("XID_79", v1::SuggestedAction::Reboot));
    assert!(incident.summary.contains("GPU_HAS_FALLEN_OFF_THE_BUS"), "{}", incident.summary);
    assert!(!incident.evidence.is_empty());
    until_verdict(&fleet, 0, Verdict::Healthy);
}

#[test]
fn a_failed_row_remap_is_critical() {
    let (fleet, ..) = judged_host();
    until_verdict(&fleet, 0, Verdict::Healthy);
    change(&fleet, |scenario| scenario.devices[0].remapped_rows.failed = Some(true));
    assert_eq!(until_verdict(&fleet, 0, Verdict::Critical).incidents[0].code, "ROW_REMAP_FAILED");
}

#[test]
fn a_lost_device_is_critical() {
    let (fleet, ..) = judged_host();
    until_verdict(&fleet, 1, Verdict::Healthy);
    change(&fleet, |scenario| scenario.devices[1].lost = true);
    assert_eq!(until_verdict(&fleet, 1, Verdict::Critical).incidents[0].code, "DEVICE_LOST");
}

#[test]
fn a_device_that_does_not_exist_is_an_error() {
    let (fleet, ..) = judged_host();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = AgentServiceClient::new(fleet.dial_agent("host1").await);
        let request = v1::GetHealthRequest { device_uuids: vec!["GPU-nope".to_owned()] };
        let status = client.get_health(request).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
        assert!(status.message().contains("GPU-nope"), "{}", status.message());
    });
}

#[test]
fn the_watch_tells_verdicts_when_they_change() {
    let (fleet, ..) = judged_host();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = AgentServiceClient::new(fleet.dial_agent("host1").await);
        let mut stream = client.watch_health(v1::WatchHealthRequest::default()).await.unwrap().into_inner();
        let mut news = Vec::new();
        report_xid(&fleet, 0, 79);
        let critical = async {
            while let Some(message) = stream.message().await.unwrap() {
                news.extend(message.devices);
                if news.iter().any(|health| health.verdict() == Verdict::Critical) {
                    return;
                }
            }
        };
        tokio::time::timeout(DEADLINE, critical).await.expect("the verdict is told");
        // Each verdict once, not once a tick: two devices at first, one change, and what the first rounds did not know.
        assert!(news.len() <= 6, "{news:#?}");
    });
}

#[test]
fn events_from_the_driver_and_the_kernel_log_are_told_once() {
    let (fleet, _, kernel_log) = judged_host();
    let bus = fleet.until_device("host1", 1, "its bus is known", |device| device.info.pci_bus_id.is_some());
    let bus = bus.info.pci_bus_id.clone().unwrap().to_lowercase();
    let place = bus[4..].trim_end_matches(".0").to_owned();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = AgentServiceClient::new(fleet.dial_agent("host1").await);
        let since = Some(timestamp(SystemTime::now() - Duration::from_hours(1)));
        let mut stream = client.watch_events(v1::WatchEventsRequest { since }).await.unwrap().into_inner();
        report_xid(&fleet, 0, 31);
        let micros = rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec * 1_000_000;
        std::fs::write(&kernel_log, format!("4,7,{micros},-;NVRM: Xid (PCI:{place}): 63, pid=1, row remapped\n"))
            .unwrap();
        let mut told = Vec::new();
        let both = async {
            while told.len() < 2 {
                told.extend(stream.message().await.unwrap().expect("the stream goes on").events);
            }
        };
        tokio::time::timeout(DEADLINE, both).await.expect("both are told");
        told.sort_by_key(|event| event.xid);
        assert_eq!(
            told.iter().map(|event| (event.xid, event.source.as_str())).collect::<Vec<_>>(),
            [(Some(31), "nvml"), (Some(63), "kmsg")]
        );
        assert_eq!(told[1].device_uuid, fleet.agents[0].driver.uuid(1));
        assert_eq!((told[0].severity(), told[1].severity()), (Verdict::Healthy, Verdict::Degraded));
    });
}

#[test]
fn the_socket_answers_as_the_agent_judges() {
    let (fleet, socket, _) = judged_host();
    until_verdict(&fleet, 0, Verdict::Healthy);
    let mut client = HealthClient::connect(&socket, DEADLINE).unwrap();
    let record = client.device(0, mask::TEMPERATURE | mask::POWER).unwrap();
    assert_eq!((record.status, record.temperature_centicelsius), (Status::Healthy, Some(5900)));
    change(&fleet, |scenario| scenario.devices[1].lost = true);
    until_verdict(&fleet, 1, Verdict::Critical);
    assert_eq!(client.device(1, 0).unwrap().status, Status::Critical);
    assert_eq!(client.device(7, 0).unwrap().status, Status::UnknownDevice);
}

#[test]
fn the_python_client_learns_the_same() {
    let (fleet, socket, _) = judged_host();
    until_verdict(&fleet, 0, Verdict::Healthy);
    let script = "\
import sys, threading
from gpufleet_health import HealthClient, HealthError, Status
with HealthClient(sys.argv[1], timeout=30) as health:
    hello = health.hello()
    assert (hello.version, hello.device_count) == (1, 2), hello
    record = health.device(0)
    assert record.status is Status.HEALTHY and record.fit and record.temperature_celsius == 59.0, record
    assert set(health.devices()) == {0, 1}
    assert health.device(9).status is Status.UNKNOWN_DEVICE
    threads = [threading.Thread(target=lambda: [health.device(1) for _ in range(200)]) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert next(health.watch(1))[0] == 1
try:
    HealthClient(sys.argv[1] + '.nowhere').hello()
except HealthError as error:
    assert 'nowhere' in str(error), error
else:
    raise AssertionError('a missing socket is an error')
print('ok')
";
    let clients = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/clients/python");
    let ran = std::process::Command::new("python3")
        .args(["-B", "-c", script])
        .arg(&socket)
        .env("PYTHONPATH", clients)
        .output();
    match ran {
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "ok", "{error}");
        }
        Err(error) => eprintln!("not shown here: python3: {error}"),
    }
}

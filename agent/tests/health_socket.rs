//! The health socket over a real Unix socket: good, malformed, pipelined, half-sent, slow and hostile clients.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gpufleet_agent::health::HealthState;
use gpufleet_agent::health::socket::{HealthSocket, SocketOptions};
use gpufleet_model::health::{DeviceHealth, Verdict};
use gpufleet_model::{
    Backend, Device, DeviceInfo, DeviceKey, DeviceLimits, DeviceReadings, DeviceStatus, Host, HostReadings,
    HostSnapshot, Unknown,
};
use gpufleet_proto::health_socket::client::HealthClient;
use gpufleet_proto::health_socket::{Record, Request, Status, mask};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const PATIENCE: Duration = Duration::from_secs(20);
const FOUR: u32 = mask::TEMPERATURE | mask::POWER | mask::ECC_UNCORRECTED | mask::PCIE_REPLAYS;

fn device(index: u32, celsius: i32) -> Device {
    let info = DeviceInfo {
        backend: Backend::Simulated,
        index,
        uuid: format!("GPU-{index}"),
        name: "Simulated".to_owned(),
        pci_bus_id: None,
        minor_number: None,
        serial: None,
        part_number: None,
        vbios_version: None,
        cuda_capability: None,
        core_count: None,
        mig: None,
        limits: DeviceLimits::default(),
    };
    let readings = DeviceReadings {
        temperature_celsius: Ok(celsius),
        power_watts: Ok(690.855),
        ecc_uncorrected_volatile: Ok(0),
        ..DeviceReadings::unknown(Unknown::NotSupported)
    };
    Device { key: DeviceKey(index), info: Arc::new(info), status: DeviceStatus::Ok, readings }
}

fn state(devices: &[(Device, Verdict)], sampled: Instant) -> Arc<HealthState> {
    let now = SystemTime::UNIX_EPOCH;
    let readings = HostReadings {
        cpu_percent: Err(Unknown::NotYet),
        memory_used_bytes: Err(Unknown::NotYet),
        memory_total_bytes: Err(Unknown::NotYet),
        swap_used_bytes: Err(Unknown::NotYet),
        swap_total_bytes: Err(Unknown::NotYet),
        load_averages: Err(Unknown::NotYet),
    };
    let host = Host {
        name: "host1".to_owned(),
        boot_id: String::new(),
        booted_at: now,
        kernel_version: String::new(),
        os_name: String::new(),
        agent_version: String::new(),
        cpu_count: 1,
        sample_interval_ms: 60_000,
        simulated: true,
        host_pid_namespace: true,
        backends: Vec::new(),
        labels: BTreeMap::new(),
        readings,
    };
    let judged = |verdict| DeviceHealth { verdict, incidents: Vec::new(), judged_at: now };
    let snapshot = HostSnapshot {
        sequence: 1,
        sampled_at: now,
        host: Arc::new(host),
        devices: devices.iter().map(|(device, _)| (device.key, Arc::new(device.clone()))).collect(),
        processes: BTreeMap::new(),
    };
    let health: BTreeMap<_, _> = devices.iter().map(|(device, verdict)| (device.key, judged(*verdict))).collect();
    Arc::new(HealthState { snapshot: Arc::new(snapshot), health: Arc::new(health), sampled })
}

struct Served {
    directory: tempfile::TempDir,
    state: watch::Sender<Option<Arc<HealthState>>>,
    cancel: CancellationToken,
    tasks: TaskTracker,
}

impl Served {
    fn start(change: impl FnOnce(&mut SocketOptions)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let healthy = state(&[(device(0, 59), Verdict::Healthy), (device(1, 90), Verdict::Critical)], Instant::now());
        let (sender, receiver) = watch::channel(Some(healthy));
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let mut options = SocketOptions::new(directory.path().join("run/health.sock"));
        change(&mut options);
        HealthSocket::serve(options, receiver, &tasks, cancel.clone()).unwrap();
        Self { directory, state: sender, cancel, tasks }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("run/health.sock")
    }

    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Runs blocking client code beside the server.
    async fn client<T: Send + 'static>(&self, ask: impl FnOnce(HealthClient) -> T + Send + 'static) -> T {
        let client = HealthClient::connect(&self.path(), PATIENCE).unwrap();
        tokio::task::spawn_blocking(move || ask(client)).await.unwrap()
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[tokio::test]
async fn a_client_learns_verdict_and_readings() {
    let served = Served::start(|_| {});
    served
        .client(|mut client| {
            let hello = client.hello().unwrap();
            assert_eq!((hello.version, hello.device_count, hello.sample_interval_ms), (1, 2, 60_000));
            let record = client.device(0, FOUR).unwrap();
            let expected = Record {
                status: Status::Healthy,
                temperature_centicelsius: Some(5900),
                power_watts: Some(691),
                ecc_uncorrected: Some(0),
                pcie_replays: None,
            };
            assert_eq!(record, expected);
            assert_eq!(client.device(0, 0).unwrap(), Record::status_only(Status::Healthy), "nothing asked for");
            assert_eq!(client.device(1, 0).unwrap().status, Status::Critical);
            assert_eq!(client.device(7, FOUR).unwrap(), Record::status_only(Status::UnknownDevice));
            assert_eq!(client.devices(0).unwrap().iter().map(|(gpu, _)| *gpu).collect::<Vec<_>>(), [0, 1]);
        })
        .await;
}

#[tokio::test]
async fn the_socket_is_private_unless_configured_otherwise() {
    let served = Served::start(|_| {});
    assert_eq!(std::fs::metadata(served.path()).unwrap().permissions().mode() & 0o777, 0o600);
    let open = Served::start(|options| options.mode = 0o666);
    assert_eq!(std::fs::metadata(open.path()).unwrap().permissions().mode() & 0o777, 0o666);
    let left: Vec<_> = std::fs::read_dir(open.directory.path().join("run")).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing but the socket is left");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let served = Served::start(|_| {});
    let mut stream = served.raw();
    let answers = blocking(move || {
        let requests: Vec<u8> = (0..1000u32).flat_map(|n| Request::Device { gpu: n % 3, mask: 0 }.encode()).collect();
        stream.write_all(&requests).unwrap();
        let mut answers = vec![0; 13 * 1000];
        stream.read_exact(&mut answers).unwrap();
        answers
    })
    .await;
    for (n, record) in answers.chunks_exact(13).enumerate() {
        assert_eq!(record[0], [0, 3, 5][n % 3], "answer {n}");
    }
}

#[tokio::test]
async fn a_request_sent_byte_by_byte_is_answered() {
    let served = Served::start(|_| {});
    let mut stream = served.raw();
    let first = blocking(move || {
        for byte in (Request::Device { gpu: 1, mask: 0 }).encode() {
            stream.write_all(&[byte]).unwrap();
            stream.flush().unwrap();
        }
        let mut record = [0; 13];
        stream.read_exact(&mut record).unwrap();
        record[0]
    })
    .await;
    assert_eq!(first, 3);
}

#[tokio::test]
async fn garbage_is_answered_with_bad_request_and_the_end_and_hurts_nobody() {
    let served = Served::start(|_| {});
    let mut stream = served.raw();
    let answer = blocking(move || {
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    })
    .await;
    assert_eq!(answer, Record::status_only(Status::BadRequest).encode());
    assert_eq!(served.client(|mut client| client.device(0, 0).unwrap().status).await, Status::Healthy);
}

#[tokio::test]
async fn a_reader_that_does_not_read_costs_others_nothing() {
    let served = Served::start(|_| {});
    let mut stream = served.raw();
    stream.set_nonblocking(true).unwrap();
    let flood: Vec<u8> = (0..64).flat_map(|_| Request::All { mask: FOUR }.encode()).collect();
    // Writes until the server no longer reads, because its answers are not taken.
    let deadline = Instant::now() + PATIENCE;
    let mut refused = 0;
    while refused < 20 && Instant::now() < deadline {
        if stream.write_all(&flood).is_ok() {
            refused = 0;
        } else {
            refused += 1;
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(served.client(|mut client| client.device(0, 0).unwrap().status).await, Status::Healthy);
}

#[tokio::test]
async fn connections_over_the_limit_are_closed_and_room_comes_back() {
    let served = Served::start(|options| options.max_connections = 2);
    let ask = |mut stream: UnixStream| {
        blocking(move || {
            let sent = stream.write_all(&Request::Device { gpu: 0, mask: 0 }.encode());
            let mut record = [0; 13];
            (sent.and_then(|()| stream.read_exact(&mut record)).is_ok(), stream)
        })
    };
    let (first, second) = (ask(served.raw()).await, ask(served.raw()).await);
    assert!(first.0 && second.0);
    assert!(!ask(served.raw()).await.0, "the third is over the limit");
    drop(first);
    let deadline = Instant::now() + PATIENCE;
    while !ask(served.raw()).await.0 {
        assert!(Instant::now() < deadline, "room did not come back");
    }
}

#[tokio::test]
async fn a_subscriber_is_told_what_changes_and_nothing_else() {
    let served = Served::start(|_| {});
    let client = HealthClient::connect(&served.path(), PATIENCE).unwrap();
    let (mut client, listing) = blocking(move || {
        let mut client = client;
        let listing = client.subscribe(None, mask::TEMPERATURE).unwrap();
        (client, listing)
    })
    .await;
    assert_eq!(listing.len(), 2);
    // Power is not in the mask; only device 1's verdict is news.
    let mut same = device(0, 59);
    same.readings.power_watts = Ok(1.0);
    served
        .state
        .send_replace(Some(state(&[(same, Verdict::Healthy), (device(1, 90), Verdict::Healthy)], Instant::now())));
    let (mut client, change) = blocking(move || {
        let change = client.next_change(Some(PATIENCE)).unwrap();
        (client, change)
    })
    .await;
    assert_eq!((change.0, change.1.status), (1, Status::Healthy));
    served.state.send_replace(Some(state(&[(device(0, 59), Verdict::Healthy)], Instant::now())));
    let gone = blocking(move || client.next_change(Some(PATIENCE)).unwrap()).await;
    assert_eq!((gone.0, gone.1.status), (1, Status::UnknownDevice));
}

#[tokio::test]
async fn an_old_sample_is_stale_and_never_healthy() {
    let served = Served::start(|_| {});
    let long_ago = Instant::now().checked_sub(Duration::from_secs(181)).unwrap();
    served.state.send_replace(Some(state(&[(device(0, 59), Verdict::Healthy)], long_ago)));
    assert_eq!(served.client(|mut client| client.device(0, 0).unwrap().status).await, Status::Stale);
    served.state.send_replace(None);
    assert_eq!(served.client(|mut client| client.device(0, 0).unwrap().status).await, Status::Stale);
}

#[tokio::test]
async fn the_end_removes_the_socket_and_a_dead_one_is_taken_over() {
    let served = Served::start(|_| {});
    served.cancel.cancel();
    served.tasks.close();
    tokio::time::timeout(PATIENCE, served.tasks.wait()).await.unwrap();
    assert!(!served.path().exists());
    // What a killed agent leaves: a socket that nobody answers.
    drop(UnixListener::bind(served.path()).unwrap());
    let (_sender, receiver) = watch::channel(None);
    let options = SocketOptions::new(served.path());
    HealthSocket::serve(options, receiver, &TaskTracker::new(), CancellationToken::new()).unwrap();
}

#[tokio::test]
async fn a_living_socket_or_another_file_is_never_replaced() {
    let served = Served::start(|_| {});
    let attempt = |path: PathBuf| {
        let (_sender, receiver) = watch::channel(None);
        HealthSocket::serve(SocketOptions::new(path), receiver, &TaskTracker::new(), CancellationToken::new())
            .unwrap_err()
            .to_string()
    };
    assert!(attempt(served.path()).contains("another program listens there"));
    let file = served.directory.path().join("precious");
    std::fs::write(&file, "data").unwrap();
    assert!(attempt(file.clone()).contains("not a socket"));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "data");
}

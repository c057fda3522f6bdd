//! The health socket: latency at 1,000 requests a second, the most requests, and a connection for each.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpufleet_proto::health_socket::client::{ClientError, HealthClient};
use gpufleet_proto::health_socket::mask;

const TIMEOUT: Duration = Duration::from_secs(10);
const FIELDS: u32 = mask::TEMPERATURE | mask::POWER | mask::ECC_UNCORRECTED | mask::PCIE_REPLAYS;
/// Connections that are measured together.
const CONNECTIONS: [usize; 2] = [8, 64];

pub(crate) fn run(socket: &Path, seconds: u64) -> anyhow::Result<()> {
    let length = Duration::from_secs(seconds);
    let paced = paced(socket, length)?;
    row("one connection, 1,000 requests/s", &paced, "p50 40 us, p99 100 us");
    row("a connection for each request", &connect_each(socket, length)?, "p50 110 us");
    for connections in CONNECTIONS {
        let rate = flood(socket, connections, length)?;
        println!("{:<36} {rate:>9.0} requests/s  (budget 80,000)", format!("{connections} connections, no pause"));
    }
    Ok(())
}

fn row(name: &str, latencies: &[Duration], budget: &str) {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let at = |share: usize| {
        let place = (sorted.len() * share / 1000).min(sorted.len().saturating_sub(1));
        sorted.get(place).map_or(0.0, |latency| latency.as_secs_f64() * 1e6)
    };
    let (p50, p99, p999) = (at(500), at(990), at(999));
    println!("{name:<36} p50 {p50:>6.1} us  p99 {p99:>6.1} us  p99.9 {p999:>6.1} us  (budget {budget})");
}

/// Asks at a steady pace. A late answer delays no later question: its wait counts.
fn paced(socket: &Path, length: Duration) -> Result<Vec<Duration>, ClientError> {
    let mut client = HealthClient::connect(socket, TIMEOUT)?;
    let (started, mut latencies) = (Instant::now(), Vec::new());
    let mut due = started;
    while started.elapsed() < length {
        due += Duration::from_millis(1);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let asked = Instant::now();
        client.device(0, FIELDS)?;
        latencies.push(asked.elapsed());
    }
    Ok(latencies)
}

fn connect_each(socket: &Path, length: Duration) -> Result<Vec<Duration>, ClientError> {
    let (started, mut latencies) = (Instant::now(), Vec::new());
    while started.elapsed() < length {
        let asked = Instant::now();
        HealthClient::connect(socket, TIMEOUT)?.device(0, FIELDS)?;
        latencies.push(asked.elapsed());
    }
    Ok(latencies)
}

/// Requests a second over so many connections, each asking again at once.
#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn flood(socket: &Path, connections: usize, length: Duration) -> Result<f64, ClientError> {
    let over = AtomicBool::new(false);
    let ask = || -> Result<u64, ClientError> {
        let mut client = HealthClient::connect(socket, TIMEOUT)?;
        let mut answered = 0;
        while !over.load(Ordering::Relaxed) {
            client.device(0, FIELDS)?;
            answered += 1;
        }
        Ok(answered)
    };
    let started = Instant::now();
    let answered = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..connections).map(|_| scope.spawn(ask)).collect();
        std::thread::sleep(length);
        over.store(true, Ordering::Relaxed);
        asking.into_iter().map(|thread| thread.join().unwrap_or(Ok(0))).sum::<Result<u64, _>>()
    })?;
    Ok(answered as f64 / started.elapsed().as_secs_f64())
}

//! What one tick costs on this host: `tick_cost [TICKS]`, 20 unless given.
//!
//! Prints the median and the most of our own work (joining and reading processes) beside the time spent in the driver.

use std::io::Write as _;
use std::time::Duration;

use gpufleet_agent::{AgentSettings, LocalHost};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let ticks: usize = std::env::args().nth(1).map_or(Ok(20), |text| text.parse())?;
    let mut host = LocalHost::start(AgentSettings::new("localhost"))?;
    let (mut own, mut driver, mut processes, mut devices) = (Vec::new(), Vec::new(), 0, 0);
    // The first ticks fill caches.
    for tick in 0..ticks + 3 {
        let Some(snapshot) = host.device_processes().await else { break };
        (processes, devices) = (snapshot.processes.len(), snapshot.devices.len());
        if let Some(cost) = host.cost().filter(|_| tick >= 3) {
            own.push(cost.own);
            driver.push(cost.round.driver_time);
        }
        if !host.changed().await {
            break;
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} ticks, {devices} devices, {processes} processes on them", own.len())?;
    for (name, mut times) in [("own work", own), ("driver calls", driver)] {
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        let most = times.last().copied().unwrap_or_default();
        writeln!(out, "{name:<14} median {:>8.3} ms  most {:>8.3} ms", millis(median), millis(most))?;
    }
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

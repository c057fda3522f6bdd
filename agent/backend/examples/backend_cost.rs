//! What a backend costs on this host: `cargo run --release -p gpufleet-backend --example backend_cost -- nvml 60`.
//!
//! Runs the backend of the first argument at 1 Hz for the seconds of the second, prints the last sample, and how the
//! process's CPU time divides into calls of the driver and our own work.

#![allow(clippy::print_stdout, reason = "an example that prints")]

use std::error::Error;
use std::time::{Duration, Instant};

use gpufleet_backend::sample::RoundCost;
use gpufleet_backend::{BackendChoice, BackendOptions, Worker};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let choice: BackendChoice = arguments.next().unwrap_or_else(|| String::from("auto")).parse()?;
    let seconds: u32 = arguments.next().unwrap_or_else(|| String::from("10")).parse()?;
    let interval = Duration::from_secs(1);
    let worker = Worker::spawn(choice, BackendOptions::default(), interval)?;
    let demand = arguments.next().is_some_and(|word| word == "demand").then(|| worker.demand());

    let mut newest = worker.subscribe();
    let (mut rounds, mut total, mut longest) = (0_u32, RoundCost::default(), Duration::ZERO);
    let until = Instant::now() + interval * seconds;
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
        if worker.needs_ticks() {
            worker.tick_now();
        }
        if newest.has_changed()? {
            let cost = newest.borrow_and_update().cost;
            rounds += 1;
            if rounds == 1 {
                println!("first round: {cost:?}");
                continue;
            }
            total.driver_time += cost.driver_time;
            total.thread_cpu_time += cost.thread_cpu_time;
            total.driver_calls += cost.driver_calls;
            longest = longest.max(cost.driver_time);
        }
    }
    drop(demand);
    println!("{:#?}", worker.latest());
    let others = rounds.saturating_sub(1).max(1);
    println!(
        "{others} rounds after the first, each: {:?} in the driver (longest {longest:?})",
        total.driver_time / others
    );
    println!("{:?} CPU of the backend's thread, {} calls", total.thread_cpu_time / others, total.driver_calls / others);
    Ok(())
}

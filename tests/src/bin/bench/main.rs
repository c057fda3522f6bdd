//! Benches of what is asked often: `bench health-socket SOCKET [SECONDS]`.
//!
//! They run against a program that is already there, so that a release build on real hardware can be measured. Each
//! figure stands beside its budget.

#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

use std::path::Path;

mod health_socket;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["health-socket", socket] => health_socket::run(Path::new(socket), 5),
        ["health-socket", socket, seconds] => health_socket::run(Path::new(socket), seconds.parse()?),
        _ => anyhow::bail!("usage: bench health-socket SOCKET [SECONDS]"),
    }
}

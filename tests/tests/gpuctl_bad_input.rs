//! Bad input to `gpuctl` gets a clear message and the right exit code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use gpufleet_tests::scenario::Device;
use gpufleet_tests::{Finished, Fleet, OPERATOR, Sandbox, eventually};

/// The message says what is meant, and where.
#[track_caller]
fn says(finished: &Finished, parts: &[&str]) {
    for part in parts {
        assert!(finished.stderr.contains(part), "`{part}` is not in:\n{}", finished.stderr);
    }
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
}

#[test]
fn wrong_commands_flags_and_values_of_gpuctl_are_usage_errors() {
    let sandbox = Sandbox::new();
    for (arguments, part) in [
        (["devices", "--no-such-flag"], "--no-such-flag"),
        (["devises", "--once"], "devises"),
        (["ps", "--output=jsonl"], "jsonl"),
        (["ps", "--pid=0"], "0"),
        (["kill", "host1:x"], "host1:x"),
        (["up", "--simulate=4"], "4x8"),
    ] {
        let finished = sandbox.plain_gpuctl().args(arguments).run().expect_code(2);
        says(&finished, &[part]);
    }
}

#[test]
fn certificates_that_gpuctl_cannot_read_are_named() {
    let sandbox = Sandbox::new();
    let nowhere = sandbox.folder().join("nowhere");
    let finished = sandbox.gpuctl_with(&nowhere, ([127, 0, 0, 1], 1).into()).arg("devices").run();
    assert!([1, 2].contains(&finished.code()), "{finished:?}");
    says(&finished, &["nowhere"]);
}

#[test]
fn an_aggregator_that_is_not_there_is_unreachable() {
    let sandbox = Sandbox::new();
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for command in
        [vec!["devices"], vec!["ps"], vec!["hosts"], vec!["top", "--cluster", "--once"], vec!["kill", "a:2", "--yes"]]
    {
        let finished = sandbox.gpuctl(OPERATOR, free).args(&command).run().expect_code(5);
        says(&finished, &[&free.to_string()]);
    }
}

#[test]
fn something_else_on_the_port_is_said_to_be_so() {
    let sandbox = Sandbox::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let finished = sandbox.gpuctl(OPERATOR, address).arg("devices").run().expect_code(5);
    says(&finished, &[&address.to_string(), "TLS"]);
}

#[test]
fn a_reader_that_closes_the_pipe_ends_us_quietly() {
    let fleet = Fleet::start(vec![("host1", vec![Device::h200(0)])]);
    let mut child = fleet.gpuctl(["ps", "--watch"]).spawn_piped();
    let mut output = child.stdout.take().unwrap();
    let mut first = [0; 1];
    output.read_exact(&mut first).unwrap();
    drop(output);
    let status = eventually("gpuctl ends", || child.try_wait().unwrap().ok_or("it runs"));
    assert_eq!(status.code(), Some(0));
}

//! Bad input gets a clear message and the right exit code, and the servers live on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use gpufleet_proto::v1;
use gpufleet_proto::v1::agent_service_client::AgentServiceClient;
use gpufleet_proto::v1::fleet_service_client::FleetServiceClient;
use gpufleet_tests::scenario::Device;
use gpufleet_tests::{Finished, Fleet, Role, Sandbox};

const SERVERS: [&str; 2] = ["gpufleet-agent", "gpufleet-aggregator"];

/// The message says what is meant, and where.
#[track_caller]
fn says(finished: &Finished, parts: &[&str]) {
    for part in parts {
        assert!(finished.stderr.contains(part), "`{part}` is not in:\n{}", finished.stderr);
    }
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
}

#[test]
fn a_wrong_flag_is_a_usage_error() {
    let sandbox = Sandbox::new();
    for program in SERVERS {
        let finished = sandbox.program(program).arg("--no-such-flag").run().expect_code(2);
        says(&finished, &["--no-such-flag"]);
    }
}

#[test]
fn unreadable_certificates_are_named() {
    let sandbox = Sandbox::new();
    for (program, role) in [("gpufleet-agent", Role::Agent), ("gpufleet-aggregator", Role::Aggregator)] {
        let check =
            |tls: &Path| sandbox.server(program, "broken", tls).env("GPUFLEET_AGGREGATOR_HOSTS", "a=127.0.0.1:1");
        says(&check(&sandbox.folder().join("nowhere")).run().expect_code(2), &["nowhere"]);
        let tls = sandbox.certificates().of(role, "broken");
        fs::write(tls.join("tls.crt"), "not a certificate").unwrap();
        says(&check(&tls).run().expect_code(2), &["tls.crt"]);
        fs::remove_file(tls.join("tls.crt")).unwrap();
        says(&check(&tls).run().expect_code(2), &["tls.crt"]);
    }
}

#[test]
fn keys_are_made_for_their_owner_alone() {
    let sandbox = Sandbox::new();
    let key = sandbox.certificates().of(Role::User, "careful").join("tls.key");
    assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn malformed_settings_name_file_and_place() {
    let sandbox = Sandbox::new();
    let file = sandbox.folder().join("settings.toml");
    for program in SERVERS {
        let check = || sandbox.program(program).arg("--config").arg(&file).arg("--check-config");
        for (text, part) in [
            ("\nlisten = [", "settings.toml:2"),
            ("no_such_key = 1\n", "no_such_key"),
            ("\n\nlisten = 5\n", "settings.toml:3"),
        ] {
            fs::write(&file, text).unwrap();
            says(&check().run().expect_code(2), &[part, "settings.toml"]);
        }
        fs::remove_file(&file).unwrap();
        says(&check().run().expect_code(2), &["settings.toml"]);
    }
    let finished = sandbox.program("gpufleet-agent").env("GPUFLEET_AGENT_INTERVAL", "soon").run().expect_code(2);
    says(&finished, &["interval", "soon"]);
}

/// Writes bytes to a port and waits for the end of the connection, or a moment.
fn throw(address: SocketAddr, bytes: &[u8]) {
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    // The server may well close before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = [0; 256];
    while matches!(stream.read(&mut answer), Ok(read) if read > 0) {}
}

#[test]
fn garbage_on_the_port_changes_nothing() {
    let mut fleet = Fleet::start(vec![("host1", vec![Device::h200(0)])]);
    let noise: Vec<u8> =
        (0..10 << 20).map(|n: u32| u8::try_from(n.wrapping_mul(2_654_435_761) >> 24).unwrap()).collect();
    for address in [fleet.address, fleet.agents[0].address] {
        throw(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        throw(address, &[0x16, 0x03, 0x01, 0xff, 0xff]);
        throw(address, &noise);
        throw(address, b"");
        let idle: Vec<_> = (0..50).filter_map(|_| TcpStream::connect(address).ok()).collect();
        drop(idle);
    }
    fleet.until_host_is("host1", "connected");
    assert_eq!(fleet.devices().expect("the aggregator answers").devices().count(), 1);
    assert!(fleet.aggregator.runs() && fleet.agents[0].program.runs());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_ten_megabytes_is_refused_and_the_servers_live_on() {
    let mut fleet = Fleet::start(vec![("host1", vec![Device::h200(0)])]);
    let large = "x".repeat(10 << 20);
    let filter = v1::FleetFilter { expression: large.clone(), ..v1::FleetFilter::default() };
    let request = v1::ListHostsRequest { filter: Some(filter), ..v1::ListHostsRequest::default() };
    let mut client = FleetServiceClient::new(fleet.dial_aggregator().await);
    let refused = client.list_hosts(request).await.unwrap_err();
    assert!(
        matches!(
            refused.code(),
            tonic::Code::ResourceExhausted | tonic::Code::OutOfRange | tonic::Code::InvalidArgument
        ),
        "{refused:?}"
    );
    client.list_hosts(v1::ListHostsRequest::default()).await.expect("the same connection goes on");
    let request = v1::SignalProcessRequest { reason: large, ..v1::SignalProcessRequest::default() };
    let mut client = AgentServiceClient::new(fleet.dial_agent("host1").await);
    let refused = client.signal_process(request).await.unwrap_err();
    assert!(
        matches!(
            refused.code(),
            tonic::Code::ResourceExhausted | tonic::Code::OutOfRange | tonic::Code::InvalidArgument
        ),
        "{refused:?}"
    );
    client.get_host(v1::GetHostRequest::default()).await.expect("the same connection goes on");
    assert!(fleet.aggregator.runs() && fleet.agents[0].program.runs());
}

#[test]
fn a_port_that_is_taken_is_named() {
    let sandbox = Sandbox::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let agent = sandbox.agent_without_driver("host1").set("--listen", &address);
    says(&agent.run().expect_code(1), &[&address]);
}

//! The mTLS matrix: who is who, through the real programs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use gpufleet_proto::v1;
use gpufleet_proto::v1::agent_service_client::AgentServiceClient;
use gpufleet_proto::v1::fleet_service_client::FleetServiceClient;
use gpufleet_tests::scenario::Device;
use gpufleet_tests::{Certificates, Fleet, OPERATOR, Role, Sandbox, Workload, eventually};

fn fleet() -> Fleet {
    Fleet::start(vec![("host1", vec![Device::h200(0)])])
}

/// The fleet is as it was after whatever a stranger tried.
#[track_caller]
fn lives_on(fleet: &Fleet) {
    assert_eq!(fleet.devices().expect("the aggregator answers").devices().count(), 1);
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let fleet = fleet();
    let other = Certificates::new(&fleet.sandbox.folder().join("other-pki"));
    let foreign = other.of(Role::User, OPERATOR);
    let error = fleet.devices_with(&foreign).unwrap_err();
    assert!(error.contains("ca.crt"), "they do not trust us: {error}");
    // Their certificate with our roots: now it is the server that refuses.
    fs::copy(fleet.sandbox.certificates().of(Role::User, OPERATOR).join("ca.crt"), foreign.join("ca.crt")).unwrap();
    let error = fleet.devices_with(&foreign).unwrap_err();
    assert!(error.contains("certificate"), "we do not trust them: {error}");
    lives_on(&fleet);
}

/// What `openssl s_client` says to a server, or `None` where there is no openssl.
fn openssl(address: SocketAddr, arguments: &[&str], tls: Option<&Path>) -> Option<(bool, String)> {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-alpn", "h2", "-ign_eof", "-connect", &address.to_string()]).args(arguments);
    if let Some(tls) = tls {
        command.arg("-cert").arg(tls.join("tls.crt")).arg("-key").arg(tls.join("tls.key"));
    }
    let Ok(output) = command.stdin(Stdio::null()).output() else {
        eprintln!("not shown here: there is no openssl");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some((output.status.success(), said))
}

#[test]
fn an_expired_certificate_is_refused() {
    let fleet = fleet();
    let expired = fleet.sandbox.certificates().expired(Role::User, OPERATOR);
    let error = fleet.devices_with(&expired).unwrap_err();
    assert!(error.contains("expired"), "{error}");
    // A client that does not look at its own certificate is told by the server.
    for address in [fleet.address, fleet.agents[0].address] {
        if let Some((_, said)) = openssl(address, &["-tls1_3"], Some(&expired)) {
            assert!(said.contains("certificate expired"), "{said}");
        }
    }
    lives_on(&fleet);
}

#[test]
fn no_certificate_is_refused() {
    let fleet = fleet();
    for address in [fleet.address, fleet.agents[0].address] {
        if let Some((_, said)) = openssl(address, &["-tls1_3"], None) {
            assert!(said.contains("certificate required"), "{said}");
        }
    }
    lives_on(&fleet);
}

#[test]
fn older_protocol_versions_are_refused() {
    let fleet = fleet();
    let mine = fleet.sandbox.certificates().of(Role::User, OPERATOR);
    for address in [fleet.address, fleet.agents[0].address] {
        if let Some((success, said)) = openssl(address, &["-tls1_2"], Some(&mine)) {
            assert!(!success && said.contains("protocol version"), "{said}");
        }
    }
    lives_on(&fleet);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_may_do_its_own_and_no_more() {
    let fleet = fleet();
    let mut workload = Workload::start("roles");
    for (role, name, may_ask_agent, may_ask_fleet) in [
        (Role::Agent, "host1", false, false),
        (Role::Agent, "host9", false, false),
        (Role::User, "alice", true, true),
        (Role::Service, "exporter", true, true),
        (Role::Aggregator, "region", true, true),
    ] {
        let mut agent = AgentServiceClient::new(fleet.dial_agent_as(role, name, "host1").await);
        let answer = agent.get_host(v1::GetHostRequest::default()).await;
        assert_eq!(answer.is_ok(), may_ask_agent, "{role:?} asks an agent: {answer:?}");
        let mut aggregator = FleetServiceClient::new(fleet.dial_aggregator_as(role, name).await);
        let answer = aggregator.list_hosts(v1::ListHostsRequest::default()).await;
        assert_eq!(answer.is_ok(), may_ask_fleet, "{role:?} asks the aggregator: {answer:?}");
        if role != Role::Aggregator {
            let target = v1::ProcessTarget {
                host: "host1".into(),
                boot_id: fleet.boot_id(),
                pid: workload.pid(),
                start_ticks: workload.start_ticks(),
            };
            let request = v1::SignalProcessRequest {
                target: Some(target),
                signal: 9,
                request_id: format!("{name}-1"),
                on_behalf_of: "spiffe://fleet.test/gpufleet/user/root".into(),
                ..v1::SignalProcessRequest::default()
            };
            let refused = agent.signal_process(request).await.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{role:?}: {refused:?}");
        }
    }
    assert!(workload.runs());
}

#[test]
fn an_agent_that_shows_the_certificate_of_another_host_is_not_believed() {
    let sandbox = Sandbox::new();
    let mut agent = sandbox.agent("host1", vec![Device::h200(0)]);
    let mut impostor = sandbox.agent("host2", vec![Device::h200(0)]);
    assert!(agent.program.runs() && impostor.program.runs());
    // The inventory says that host1 listens where host2 does.
    let mut aggregator = sandbox.aggregator_of(&[("host1", impostor.address)]).spawn();
    let address = aggregator.address();
    let host = eventually("the problem is told", || {
        let host = sandbox.hosts_of(address)?.into_iter().next().ok_or("no host")?;
        if host.problem.is_some() { Ok(host) } else { Err(format!("{host:#?}")) }
    });
    assert!(host.problem.as_deref().is_some_and(|problem| problem.contains("host2")), "{host:#?}");
    assert_eq!(host.state(), v1::ConnectionState::NeverSeen, "{host:#?}");
}

/// The certificate that a server shows; `None` where there is no openssl.
fn shown_certificate(address: SocketAddr, tls: &Path) -> Option<String> {
    let (_, said) = openssl(address, &["-tls1_3", "-no_ign_eof"], Some(tls))?;
    let start = said.find("-----BEGIN CERTIFICATE-----")?;
    let end = said.find("-----END CERTIFICATE-----")?;
    said.get(start..end).map(str::to_owned)
}

#[test]
fn a_rotated_leaf_is_used_for_new_connections_and_streams_go_on() {
    let fleet = fleet();
    let mine = fleet.sandbox.certificates().of(Role::User, OPERATOR);
    let before = shown_certificate(fleet.agents[0].address, &mine);
    fleet.sandbox.certificates().rotate(Role::Agent, "host1");
    eventually("the new leaf is shown", || {
        let now = shown_certificate(fleet.agents[0].address, &mine);
        if before.is_none() || now != before { Ok(()) } else { Err("the old one is shown") }
    });
    fleet.agents[0].driver.update(|scenario| scenario.devices[0].temperature = Some(62));
    fleet.until_device("host1", 0, "the stream goes on", |device| device.readings.temperature_celsius == Ok(62));
    let connected = fleet.aggregator.log().matches("host connected").count();
    assert_eq!(connected, 1, "{}", fleet.aggregator.log());
    lives_on(&fleet);
}

#[test]
fn rotated_roots_are_believed_without_a_restart_and_streams_go_on() {
    let fleet = fleet();
    let next = Certificates::new(&fleet.sandbox.folder().join("next-pki"));
    // First everybody trusts both authorities, then everybody changes over, then the old one is dropped.
    fleet.sandbox.certificates().trust_also(&next);
    let newcomer = next.of(Role::User, OPERATOR);
    fleet.sandbox.certificates().copy_roots(&newcomer);
    eventually("the new authority is believed", || fleet.devices_with(&newcomer).map(|_| ()));
    fleet.sandbox.certificates().replace_all_by(&next);
    eventually("the old authority is no longer believed", || {
        let old = fleet.sandbox.certificates().stale(Role::User, OPERATOR);
        fleet.devices_with(&old).err().map(|_| ()).ok_or("it is")
    });
    assert_eq!(fleet.devices_with(&newcomer).unwrap().devices().count(), 1);
    // The stream between aggregator and agent was not dropped at any time.
    let connected = fleet.aggregator.log().matches("host connected").count();
    assert_eq!(connected, 1, "{}", fleet.aggregator.log());
    fleet.agents[0].driver.update(|scenario| scenario.devices[0].temperature = Some(63));
    fleet.until_device("host1", 0, "the stream goes on", |device| device.readings.temperature_celsius == Ok(63));
}

/// Orchestrators mount credentials as links into a folder that they exchange as a whole.
#[test]
fn credentials_that_are_exchanged_behind_links_are_reloaded() {
    let sandbox = Sandbox::new();
    let (mount, certificates) = (sandbox.folder().join("mount"), sandbox.certificates());
    let publish = |version: &str| {
        let folder = mount.join(version);
        fs::create_dir_all(&folder).unwrap();
        for file in ["ca.crt", "tls.crt", "tls.key"] {
            let content = fs::read(certificates.of(Role::Agent, "host1").join(file)).unwrap();
            fs::write(folder.join(file), content).unwrap();
        }
        fs::set_permissions(folder.join("tls.key"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink(version, mount.join("..fresh")).unwrap();
        fs::rename(mount.join("..fresh"), mount.join("..data")).unwrap();
    };
    publish("..1");
    for file in ["ca.crt", "tls.crt", "tls.key"] {
        symlink(format!("..data/{file}"), mount.join(file)).unwrap();
    }
    let mut agent = sandbox.server("gpufleet-agent", "host1", &mount).args(["--backend", "sim:1"]).spawn();
    let address = agent.address();
    let mine = certificates.of(Role::User, OPERATOR);
    let before = shown_certificate(address, &mine);
    certificates.rotate(Role::Agent, "host1");
    publish("..2");
    eventually("the new leaf is shown", || {
        let now = shown_certificate(address, &mine);
        if before.is_none() || now != before { Ok(()) } else { Err("the old one is shown") }
    });
    assert!(agent.runs());
}

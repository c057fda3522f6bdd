//! The program itself: exit codes, messages, the ready file, the log and a clean end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use gpufleet_proto::v1;
use gpufleet_proto::v1::agent_service_client::AgentServiceClient;
use gpufleet_transport::pki::{Authority, IssueRequest};
use gpufleet_transport::{Credentials, DialOptions, Dialer, ExpectedPeer, Role};
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_mins(1);

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpufleet-agent"));
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = program().args(arguments).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

/// A folder with credentials of this role in `tls`, and the authority.
fn folder(role: Role) -> (TempDir, Authority) {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::in_memory("test.example", Duration::from_hours(1)).unwrap();
    authority.issue(&IssueRequest::new(role, "node1")).unwrap().write(&folder.path().join("tls"), false).unwrap();
    (folder, authority)
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

/// Ends it however the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn address_in(file: &Path) -> Option<SocketAddr> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[test]
fn mistakes_end_with_2_and_say_what_is_wrong() {
    let (folder, _) = folder(Role::Agent);
    let tls = path(&folder, "tls");
    let nowhere = path(&folder, "nowhere");
    for (arguments, message) in [
        (vec!["--no-such-flag"], "unexpected argument '--no-such-flag'"),
        (vec!["--log-format", "xml"], "invalid value 'xml'"),
        (vec!["--tls-dir", &tls, "--listen", "here"], "`here` is not an address to listen on"),
        (vec!["--tls-dir", &tls, "--backend", "cuda"], "unknown backend `cuda`"),
        (vec!["--tls-dir", &tls, "--interval", "soon"], "`soon` is not a length of time"),
        (vec!["--tls-dir", &tls, "--host-name", "node2"], "is `node2`, and the certificate is of `node1`"),
        (vec!["--tls-dir", &nowhere], nowhere.as_str()),
        (vec!["--config", &nowhere], "cannot read the configuration"),
    ] {
        let (code, stderr) = run(&arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    }
    let Output { status, stderr, .. } = program().env("GPUFLEET_LOG", "gpufleet=loud").output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("`GPUFLEET_LOG`: `gpufleet=loud` is not a filter"), "{stderr}");
}

#[test]
fn a_certificate_of_another_role_is_refused() {
    let (folder, _) = folder(Role::User);
    let (code, stderr) = run(&["--tls-dir", &path(&folder, "tls"), "--check-config"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("is of role `user`; the agent needs one of role `agent`"), "{stderr}");
}

#[test]
fn a_good_configuration_passes_the_check_and_starts_nothing() {
    let (folder, _) = folder(Role::Agent);
    let ready = path(&folder, "ready");
    let (code, stderr) = run(&["--tls-dir", &path(&folder, "tls"), "--check-config", "--ready-file", &ready]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!Path::new(&ready).exists());
}

#[test]
fn a_port_in_use_ends_with_1() {
    let (folder, _) = folder(Role::Agent);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, stderr) = run(&["--tls-dir", &path(&folder, "tls"), "--listen", &address]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains(&format!("cannot listen on `{address}`; choose another with --listen")), "{stderr}");
}

#[test]
fn it_serves_until_it_is_told_to_stop_and_logs_as_asked() {
    let (folder, authority) = folder(Role::Agent);
    let ready = folder.path().join("ready");
    let child = program()
        .args(["--listen", "127.0.0.1:0", "--tls-dir", &path(&folder, "tls"), "--backend", "sim:2"])
        .args(["--log-format", "json", "--ready-file", ready.to_str().unwrap()])
        .spawn()
        .unwrap();
    let mut child = Running(child);
    let address = wait_for("the ready file", || address_in(&ready));
    let user = authority.issue(&IssueRequest::new(Role::User, "alice")).unwrap().credentials().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // A watch is open when the end comes: it must not hold it up.
    let (host, mut stream) = runtime.block_on(watch(user, address));
    assert_eq!((host.name.as_str(), host.simulated), ("node1", true));
    let pid = child.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let ended = runtime.block_on(async {
        loop {
            if let Err(status) = stream.message().await {
                return status;
            }
        }
    });
    assert_eq!(ended.code(), tonic::Code::Unavailable);
    let status = wait_for("the end", || child.0.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    let mut log = String::new();
    std::io::Read::read_to_string(child.0.stderr.as_mut().unwrap(), &mut log).unwrap();
    assert!(log.lines().count() >= 2 && log.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{log}");
    assert!(log.contains("\"message\":\"serving\""), "{log}");
}

async fn watch(user: Credentials, address: SocketAddr) -> (v1::Host, tonic::Streaming<v1::WatchHostResponse>) {
    let dialer = Dialer::new(user, DialOptions::default());
    let expected = ExpectedPeer::Agent("node1".to_owned());
    let mut client = AgentServiceClient::new(dialer.connect(&address.to_string(), &expected).await.unwrap());
    let host = client.get_host(v1::GetHostRequest {}).await.unwrap().into_inner().host.unwrap();
    let mut stream = client.watch_host(v1::WatchHostRequest::default()).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    (host, stream)
}

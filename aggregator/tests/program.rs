//! The program itself: exit codes, messages, the ready file and a clean end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use gpufleet_proto::v1;
use gpufleet_proto::v1::fleet_service_client::FleetServiceClient;
use gpufleet_transport::pki::{Authority, IssueRequest};
use gpufleet_transport::{Credentials, DialOptions, Dialer, ExpectedPeer, Role};
use tempfile::TempDir;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpufleet-aggregator"));
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
    authority.issue(&IssueRequest::new(role, "main")).unwrap().write(&folder.path().join("tls"), false).unwrap();
    (folder, authority)
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_string()
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
        assert!(start.elapsed() < Duration::from_mins(1), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn address_in(file: &Path) -> Option<SocketAddr> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[test]
fn mistakes_end_with_2_and_say_what_is_wrong() {
    let (folder, _) = folder(Role::Aggregator);
    let tls = path(&folder, "tls");
    let nowhere = path(&folder, "nowhere");
    for (arguments, message) in [
        (vec!["--no-such-flag"], "unexpected argument '--no-such-flag'"),
        (vec!["--tls-dir", &tls], "hosts: is required"),
        (vec!["--tls-dir", &tls, "--hosts", "a:1,a:2"], "host `a` is listed twice"),
        (vec!["--tls-dir", &tls, "--hosts", "a:1", "--listen", "here"], "`here` is not an address to listen on"),
        (vec!["--tls-dir", &nowhere, "--hosts", "a:1"], nowhere.as_str()),
        (vec!["--config", &nowhere], "cannot read the configuration"),
        (vec!["--tls-dir", &tls, "--hosts", "a:1", "--operator", "agent/x"], "operator `agent/x` is not"),
    ] {
        let (code, stderr) = run(&arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_certificate_of_another_role_is_refused() {
    let (folder, _) = folder(Role::User);
    let (code, stderr) = run(&["--tls-dir", &path(&folder, "tls"), "--hosts", "a:1", "--check-config"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("is of role `user`; the aggregator needs one of role `aggregator`"), "{stderr}");
}

#[test]
fn a_good_configuration_passes_the_check_and_starts_nothing() {
    let (folder, _) = folder(Role::Aggregator);
    let ready = path(&folder, "ready");
    let arguments = ["--tls-dir", &path(&folder, "tls"), "--hosts", "a:1", "--check-config", "--ready-file", &ready];
    let (code, stderr) = run(&arguments);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!Path::new(&ready).exists());
}

#[test]
fn a_port_in_use_ends_with_1() {
    let (folder, _) = folder(Role::Aggregator);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, stderr) = run(&["--tls-dir", &path(&folder, "tls"), "--hosts", "a:1", "--listen", &address]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains(&format!("cannot listen on `{address}`; choose another with --listen")), "{stderr}");
}

#[test]
fn it_serves_until_it_is_told_to_stop() {
    let (folder, authority) = folder(Role::Aggregator);
    let ready = folder.path().join("ready");
    let child = program()
        .args(["--listen", "127.0.0.1:0", "--tls-dir", &path(&folder, "tls"), "--hosts", "a=127.0.0.1:1"])
        .arg("--ready-file")
        .arg(&ready)
        .spawn()
        .unwrap();
    let mut child = Running(child);
    let address = wait_for("the ready file", || address_in(&ready));
    let user = authority.issue(&IssueRequest::new(Role::User, "alice")).unwrap().credentials().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let names = runtime.block_on(list(user, address));
    assert_eq!(names, ["a"]);
    // With it ends the connection.
    drop(runtime);
    let pid = child.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let status = wait_for("the end", || child.0.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
}

async fn list(user: Credentials, address: SocketAddr) -> Vec<String> {
    let dialer = Dialer::new(user, DialOptions::default());
    let expected = ExpectedPeer::AnyOf(&[Role::Aggregator]);
    let mut client = FleetServiceClient::new(dialer.connect(&address.to_string(), &expected).await.unwrap());
    let hosts = client.list_hosts(v1::ListHostsRequest::default()).await.unwrap().into_inner().hosts;
    hosts.into_iter().map(|host| host.name).collect()
}

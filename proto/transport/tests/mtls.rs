//! The mTLS matrix on real sockets, with gRPC health as the payload.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use gpufleet_transport::pki::{Authority, DEFAULT_CA_VALIDITY, IssueRequest, Issued};
use gpufleet_transport::{
    AccessTable, ConnectError, Credentials, DialOptions, Dialer, ExpectedPeer, Role, ServerLimits, serve,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Code;
use tonic::service::Routes;
use tonic::transport::Channel;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

const PATIENCE: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_hours(24);

fn authority() -> Authority {
    Authority::in_memory("gpu.test", DEFAULT_CA_VALIDITY).unwrap()
}

fn issue(authority: &Authority, role: Role, name: &str) -> Issued {
    authority.issue(&IssueRequest::new(role, name)).unwrap()
}

struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start(credentials: Credentials, limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
        let (routes, shutdown) = (Routes::new(health), CancellationToken::new());
        let token = shutdown.clone();
        let served = tokio::spawn(async move {
            serve(listener, credentials, limits, routes, AccessTable::new(&[]), token).await.unwrap();
        });
        Self { address, shutdown, served }
    }

    async fn of(issued: &Issued) -> Self {
        Self::start(issued.credentials().unwrap(), ServerLimits::default()).await
    }

    async fn dial(&self, credentials: &Credentials, expected: &ExpectedPeer) -> Result<Channel, ConnectError> {
        let options = DialOptions { timeout: PATIENCE, ..DialOptions::default() };
        Dialer::new(credentials.clone(), options).connect(&self.address.to_string(), expected).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn host1() -> ExpectedPeer {
    ExpectedPeer::Agent("host1".to_owned())
}

async fn check(channel: Channel) -> Result<(), tonic::Status> {
    let request = HealthCheckRequest { service: String::new() };
    HealthClient::new(channel).check(request).await.map(|_| ())
}

/// A stream that stays open, and its first message.
async fn open_stream(channel: Channel) -> tonic::Streaming<HealthCheckResponse> {
    let request = HealthCheckRequest { service: String::new() };
    let mut stream = HealthClient::new(channel).watch(request).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    stream
}

#[tokio::test]
async fn good_certificates_on_both_sides_work() {
    let authority = authority();
    let server = Server::of(&issue(&authority, Role::Agent, "host1")).await;
    for role in Role::ALL {
        let client = issue(&authority, role, "somebody").credentials().unwrap();
        check(server.dial(&client, &host1()).await.unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_second_connection_resumes_and_is_still_checked() {
    let authority = authority();
    let server = Server::of(&issue(&authority, Role::Agent, "host1")).await;
    let client = issue(&authority, Role::User, "alice").credentials().unwrap();
    check(server.dial(&client, &host1()).await.unwrap()).await.unwrap();
    check(server.dial(&client, &host1()).await.unwrap()).await.unwrap();
    let other = ExpectedPeer::Agent("host2".to_owned());
    assert!(matches!(server.dial(&client, &other).await, Err(ConnectError::WrongPeer { .. })));
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused() {
    let server = Server::of(&issue(&authority(), Role::Agent, "host1")).await;
    let client = issue(&authority(), Role::User, "alice").credentials().unwrap();
    let error = server.dial(&client, &host1()).await.unwrap_err();
    assert!(matches!(error, ConnectError::ServerCertificate { .. }), "{error}");
    assert!(error.to_string().contains("an authority that `ca.crt` does not hold"), "{error}");
}

/// A client that trusts the server's authority and shows a certificate of its own choosing.
fn client_with(trusted: &Authority, shown: &Issued) -> Credentials {
    Credentials::from_pem(trusted.certificate(), &shown.certificate, &shown.key).unwrap()
}

#[tokio::test]
async fn a_client_of_another_authority_is_refused_and_told_so() {
    let authority = authority();
    let server = Server::of(&issue(&authority, Role::Agent, "host1")).await;
    let stranger = Authority::in_memory("gpu.test", DEFAULT_CA_VALIDITY).unwrap();
    let client = client_with(&authority, &issue(&stranger, Role::Aggregator, "central"));
    let error = server.dial(&client, &host1()).await.unwrap_err();
    assert!(matches!(error, ConnectError::OwnCertificate { .. }), "{error}");
}

#[tokio::test]
async fn a_client_whose_certificate_is_not_valid_yet_is_refused() {
    let authority = authority();
    let server = Server::of(&issue(&authority, Role::Agent, "host1")).await;
    let request = IssueRequest::new(Role::User, "alice");
    let future = authority.issue_between(&request, SystemTime::now() + DAY, DAY).unwrap();
    let error = server.dial(&client_with(&authority, &future), &host1()).await.unwrap_err();
    assert!(matches!(error, ConnectError::OwnCertificate { .. }), "{error}");
}

#[test]
fn our_own_expired_certificate_is_refused_before_anything_is_dialled() {
    let request = IssueRequest::new(Role::User, "alice");
    let past = authority().issue_between(&request, SystemTime::now() - 2 * DAY, DAY).unwrap();
    let error = past.credentials().unwrap_err().to_string();
    assert!(error.contains("spiffe://gpu.test/gpufleet/user/alice expired at"), "{error}");
}

#[tokio::test]
async fn a_server_whose_certificate_is_not_valid_yet_is_refused() {
    let authority = authority();
    let request = IssueRequest::new(Role::Agent, "host1");
    let future = authority.issue_between(&request, SystemTime::now() + DAY, DAY).unwrap();
    let server = Server::of(&future).await;
    let client = issue(&authority, Role::User, "alice").credentials().unwrap();
    let error = server.dial(&client, &host1()).await.unwrap_err();
    assert!(error.to_string().contains("compare the clocks"), "{error}");
}

#[tokio::test]
async fn a_connection_ends_when_the_clients_certificate_does() {
    let authority = authority();
    let server = Server::of(&issue(&authority, Role::Agent, "host1")).await;
    let request = IssueRequest::new(Role::User, "alice");
    let begins = SystemTime::now() - Duration::from_mins(1);
    let short = authority.issue_between(&request, begins, Duration::from_secs(63)).unwrap();
    let channel = server.dial(&short.credentials().unwrap(), &host1()).await.unwrap();
    let mut stream = open_stream(channel).await;
    let ended = tokio::time::timeout(PATIENCE, stream.message()).await.unwrap();
    assert!(!matches!(ended, Ok(Some(_))), "the stream outlived its certificate");
}

#[tokio::test]
async fn wrong_role_and_wrong_host_are_refused_by_the_client() {
    let authority = authority();
    let client = issue(&authority, Role::Aggregator, "central").credentials().unwrap();
    let impostor = Server::of(&issue(&authority, Role::Agent, "host2")).await;
    let error = impostor.dial(&client, &host1()).await.unwrap_err().to_string();
    assert!(error.contains("agent/host2` answers there, expected the agent of `host1`"), "{error}");
    let aggregator = ExpectedPeer::AnyOf(&[Role::Aggregator]);
    let error = impostor.dial(&client, &aggregator).await.unwrap_err().to_string();
    assert!(error.contains("expected a peer of role aggregator"), "{error}");
}

#[tokio::test]
async fn a_users_certificate_cannot_serve() {
    let authority = authority();
    let server = Server::of(&issue(&authority, Role::User, "mallory")).await;
    let client = issue(&authority, Role::User, "alice").credentials().unwrap();
    let error = server.dial(&client, &ExpectedPeer::AnyOf(&Role::ALL)).await.unwrap_err();
    assert!(error.to_string().contains("not made for servers"), "{error}");
}

#[tokio::test]
async fn another_trust_domain_is_a_stranger_even_under_a_trusted_root() {
    let (ours, theirs) = (authority(), Authority::in_memory("other.test", DEFAULT_CA_VALIDITY).unwrap());
    let both = format!("{}{}", ours.certificate(), theirs.certificate());
    let shown = issue(&ours, Role::Agent, "host1");
    let server = Server::of(&Issued { ca: both.clone(), ..shown }).await;
    let foreign = issue(&theirs, Role::User, "alice");
    let client = Credentials::from_pem(&both, &foreign.certificate, &foreign.key).unwrap();
    let error = server.dial(&client, &host1()).await.unwrap_err();
    assert!(matches!(error, ConnectError::WrongTrustDomain { .. }), "{error}");
}

#[tokio::test]
async fn a_method_that_is_not_listed_is_denied() {
    let authority = authority();
    let server = Server::of(&issue(&authority, Role::Agent, "host1")).await;
    let client = issue(&authority, Role::Aggregator, "central").credentials().unwrap();
    let channel = server.dial(&client, &host1()).await.unwrap();
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static("/gpufleet.v1.AgentService/SignalProcess");
    let codec = tonic_prost_codec();
    let status = grpc.unary(tonic::Request::new(HealthCheckRequest::default()), path, codec).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(status.message().contains("role `aggregator` may not call"), "{}", status.message());
}

fn tonic_prost_codec() -> tonic_prost::ProstCodec<HealthCheckRequest, HealthCheckResponse> {
    tonic_prost::ProstCodec::default()
}

async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn write(issued: &Issued, directory: &Path) {
    issued.write(directory, true).unwrap();
}

#[tokio::test]
async fn a_rotated_leaf_is_shown_to_new_connections_and_streams_live_on() {
    let authority = authority();
    let directory = tempfile::tempdir().unwrap();
    write(&issue(&authority, Role::Agent, "host1"), directory.path());
    let credentials = Credentials::load(directory.path()).unwrap();
    let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
    credentials.watch(&tasks, cancel.clone());
    let server = Server::start(credentials.clone(), ServerLimits::default()).await;
    let client = issue(&authority, Role::User, "alice").credentials().unwrap();
    let channel = server.dial(&client, &host1()).await.unwrap();
    let stream = open_stream(channel.clone()).await;

    let before = credentials.expires_at();
    let longer = IssueRequest { validity: 400 * DAY, ..IssueRequest::new(Role::Agent, "host1") };
    write(&authority.issue(&longer).unwrap(), directory.path());
    eventually("the new leaf is in use", async || credentials.expires_at() != before).await;
    check(server.dial(&client, &host1()).await.unwrap()).await.unwrap();
    check(channel).await.unwrap();
    drop(stream);
    cancel.cancel();
}

#[tokio::test]
async fn rotated_roots_shut_the_old_authority_out_and_streams_live_on() {
    let (old, new) = (authority(), authority());
    let directory = tempfile::tempdir().unwrap();
    write(&issue(&old, Role::Agent, "host1"), directory.path());
    let credentials = Credentials::load(directory.path()).unwrap();
    let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
    credentials.watch(&tasks, cancel.clone());
    let server = Server::start(credentials.clone(), ServerLimits::default()).await;
    let old_client = issue(&old, Role::User, "alice").credentials().unwrap();
    let channel = server.dial(&old_client, &host1()).await.unwrap();
    check(channel.clone()).await.unwrap();

    // In between, both authorities are trusted.
    let both = format!("{}{}", old.certificate(), new.certificate());
    let new_leaf = issue(&new, Role::Agent, "host1");
    let new_user = issue(&new, Role::User, "alice");
    write(&Issued { ca: both.clone(), ..new_leaf.clone() }, directory.path());
    let bridging = Credentials::from_pem(&both, &new_user.certificate, &new_user.key).unwrap();
    eventually("both authorities are trusted", async || server.dial(&bridging, &host1()).await.is_ok()).await;
    let old_with_both = Credentials::from_pem(&both, &issue(&old, Role::User, "bob").certificate, "").err();
    assert!(old_with_both.is_some(), "a certificate without its key is refused");

    // This client holds a session ticket from before, which must not outlive the trust in its authority.
    let old_user = issue(&old, Role::User, "bob");
    let old_trusting_both = Credentials::from_pem(&both, &old_user.certificate, &old_user.key).unwrap();
    check(server.dial(&old_trusting_both, &host1()).await.unwrap()).await.unwrap();

    write(&new_leaf, directory.path());
    eventually("the old authority is shut out", async || {
        matches!(server.dial(&old_trusting_both, &host1()).await, Err(ConnectError::OwnCertificate { .. }))
    })
    .await;
    check(channel).await.unwrap();
    check(server.dial(&new_user.credentials().unwrap(), &host1()).await.unwrap()).await.unwrap();
    cancel.cancel();
}

#[test]
fn broken_files_keep_the_last_good_generation() {
    let authority = authority();
    let directory = tempfile::tempdir().unwrap();
    write(&issue(&authority, Role::Agent, "host1"), directory.path());
    let credentials = Credentials::load(directory.path()).unwrap();
    let before = credentials.expires_at();
    let path = |name: &str| directory.path().join(name);
    let good = std::fs::read_to_string(path("tls.crt")).unwrap();
    for broken in ["", "garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        std::fs::write(path("tls.crt"), broken).unwrap();
        let error = credentials.reload().unwrap_err().to_string();
        assert!(error.contains("tls.crt"), "{error}");
    }
    let other = issue(&authority, Role::Agent, "host1");
    std::fs::write(path("tls.crt"), &other.certificate).unwrap();
    assert!(credentials.reload().unwrap_err().to_string().contains("does not belong to the key"));
    write(&issue(&authority, Role::Agent, "host2"), directory.path());
    assert!(credentials.reload().unwrap_err().to_string().contains("restart it to change that"));
    std::fs::remove_file(path("ca.crt")).unwrap();
    assert!(credentials.reload().unwrap_err().to_string().contains("ca.crt"));
    assert_eq!(credentials.expires_at(), before);
    assert!(!good.is_empty());
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    write(&issue(&authority(), Role::Agent, "host1"), directory.path());
    let key = directory.path().join("tls.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = Credentials::load(directory.path()).unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
}

#[tokio::test]
async fn strangers_who_stay_silent_keep_nobody_out() {
    let authority = authority();
    let limits = ServerLimits {
        max_handshakes: 2,
        handshake_timeout: Duration::from_secs(1),
        max_connections: 64,
        ..ServerLimits::default()
    };
    let server = Server::start(issue(&authority, Role::Agent, "host1").credentials().unwrap(), limits).await;
    let silent: Vec<std::net::TcpStream> =
        (0..40).map(|_| std::net::TcpStream::connect(server.address).unwrap()).collect();
    let client = issue(&authority, Role::User, "alice").credentials().unwrap();
    eventually("a friend gets in", async || match server.dial(&client, &host1()).await {
        Ok(channel) => check(channel).await.is_ok(),
        Err(_) => false,
    })
    .await;
    drop(silent);
}

#[tokio::test]
async fn garbage_is_closed_and_the_server_lives_on() {
    let authority = authority();
    let server = Server::of(&issue(&authority, Role::Agent, "host1")).await;
    let address = server.address;
    let answers = tokio::task::spawn_blocking(move || {
        let mut lengths = Vec::new();
        for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; 4096], &[0x16, 0x03, 0x01, 0xFF, 0xFF, 0x01]] {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(garbage).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            lengths.push(answer.len());
        }
        lengths
    });
    let lengths = answers.await.unwrap();
    assert!(lengths.iter().all(|length| *length < 100), "{lengths:?}");
    let client = issue(&authority, Role::User, "alice").credentials().unwrap();
    check(server.dial(&client, &host1()).await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn what_does_not_speak_tls_is_named_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answering = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    });
    let client = issue(&authority(), Role::User, "alice").credentials().unwrap();
    let options = DialOptions { timeout: PATIENCE, ..DialOptions::default() };
    let error = Dialer::new(client, options).connect(&address, &host1()).await.unwrap_err();
    assert!(matches!(error, ConnectError::NotTls { .. }), "{error}");
    answering.await.unwrap();
}

#[tokio::test]
async fn nobody_there_and_nobody_answering_are_told_apart() {
    let client = issue(&authority(), Role::User, "alice").credentials().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap().to_string();
    let dial = |timeout| Dialer::new(client.clone(), DialOptions { timeout, ..DialOptions::default() });
    // Accepts by backlog and says nothing.
    let error = dial(Duration::from_millis(300)).connect(&address, &host1()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Timeout { .. }), "{error}");
    drop(free);
    let error = dial(PATIENCE).connect(&address, &host1()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    let error = dial(PATIENCE).connect("no-such-host.invalid:1", &host1()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Resolve { .. }), "{error}");
}

#[tokio::test]
async fn headers_over_the_limit_are_refused_and_the_server_lives_on() {
    let authority = authority();
    let server = Server::of(&issue(&authority, Role::Agent, "host1")).await;
    let client = issue(&authority, Role::User, "alice").credentials().unwrap();
    let channel = server.dial(&client, &host1()).await.unwrap();
    let mut request = tonic::Request::new(HealthCheckRequest::default());
    request.metadata_mut().insert("x-large", "x".repeat(64 * 1024).parse().unwrap());
    assert!(HealthClient::new(channel).check(request).await.is_err());
    check(server.dial(&client, &host1()).await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn connections_over_the_limit_are_closed_and_room_comes_back() {
    let authority = authority();
    let limits = ServerLimits { max_connections: 1, ..ServerLimits::default() };
    let server = Server::start(issue(&authority, Role::Agent, "host1").credentials().unwrap(), limits).await;
    let client = issue(&authority, Role::User, "alice").credentials().unwrap();
    let first = server.dial(&client, &host1()).await.unwrap();
    check(first.clone()).await.unwrap();
    assert!(server.dial(&client, &host1()).await.is_err());
    drop(first);
    eventually("room comes back", async || server.dial(&client, &host1()).await.is_ok()).await;
}

#[tokio::test]
async fn shutdown_ends_streams_and_returns() {
    let authority = authority();
    let limits = ServerLimits { grace: Duration::from_millis(200), ..ServerLimits::default() };
    let mut server = Server::start(issue(&authority, Role::Agent, "host1").credentials().unwrap(), limits).await;
    let client = issue(&authority, Role::User, "alice").credentials().unwrap();
    let mut stream = open_stream(server.dial(&client, &host1()).await.unwrap()).await;
    server.shutdown.cancel();
    let ended = tokio::time::timeout(PATIENCE, stream.message()).await.unwrap();
    assert!(!matches!(ended, Ok(Some(_))));
    tokio::time::timeout(PATIENCE, &mut server.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_hangup_signal_reloads_without_waiting_for_a_notice() {
    let authority = authority();
    let directory = tempfile::tempdir().unwrap();
    write(&issue(&authority, Role::Agent, "host1"), directory.path());
    // The files are read through a link that is swapped somewhere else, of which the watched directory learns nothing.
    let outside = tempfile::tempdir().unwrap();
    for name in ["ca.crt", "tls.crt", "tls.key"] {
        let (inside, real) = (directory.path().join(name), outside.path().join(name));
        std::fs::rename(&inside, &real).unwrap();
        std::os::unix::fs::symlink(&real, &inside).unwrap();
    }
    let credentials = Credentials::load(directory.path()).unwrap();
    let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
    // A handler must be there before the signal is, or the signal ends the tests.
    let _handled = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).unwrap();
    credentials.watch(&tasks, cancel.clone());
    let before = credentials.expires_at();
    let longer = IssueRequest { validity: 400 * DAY, ..IssueRequest::new(Role::Agent, "host1") };
    write(&authority.issue(&longer).unwrap(), outside.path());
    let deadline = Instant::now() + PATIENCE;
    while credentials.expires_at() == before {
        assert!(Instant::now() < deadline, "the hangup was not heard");
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cancel.cancel();
}

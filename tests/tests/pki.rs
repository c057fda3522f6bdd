//! `gpuctl pki`: certificates for who has none, used by the real servers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use gpufleet_tests::scenario::Device;
use gpufleet_tests::{Driver, Fleet, SCENARIO_VARIABLE, Sandbox, eventually, fake_nvml_library, json};

#[test]
fn certificates_made_by_gpuctl_carry_the_whole_chain() {
    let sandbox = Sandbox::new();
    let gpuctl = |arguments: &[&str]| sandbox.plain_gpuctl().args(arguments).run();
    gpuctl(&["pki", "init", "--trust-domain", "example.org"]).expect_code(0);
    for (role, name) in [("agent", "host1"), ("aggregator", "central"), ("user", "alice")] {
        gpuctl(&["pki", "issue", role, name]).expect_code(0);
    }
    let folder = |name: &str| sandbox.folder().join(name);
    for key in ["gpufleet-ca/ca.key", "agent-host1/tls.key", "user-alice/tls.key"] {
        assert_eq!(fs::metadata(folder(key)).unwrap().permissions().mode() & 0o777, 0o600, "{key}");
    }
    let driver = Driver::new(sandbox.folder(), "host1", vec![Device::h200(0)]);
    let mut agent = sandbox
        .server("gpufleet-agent", "host1", &folder("agent-host1"))
        .arg("--nvml-library")
        .arg(fake_nvml_library())
        .env(SCENARIO_VARIABLE, driver.path())
        .spawn();
    let hosts = format!("host1={}", agent.address());
    let aggregator = sandbox.server("gpufleet-aggregator", "central", &folder("aggregator-central"));
    let mut aggregator = aggregator.args(["--hosts", &hosts]).spawn();
    let address = aggregator.address();
    let alice = || sandbox.gpuctl_with(&folder("user-alice"), address).args(["devices", "-o", "json"]).run();
    let answer = eventually("the device is shown", || {
        let finished = alice();
        let answer: serde_json::Value =
            serde_json::from_str(&finished.stdout).map_err(|e| format!("{e}: {}", finished.stderr))?;
        if json::rows(&answer, "devices").is_empty() { Err(format!("{answer:#}")) } else { Ok(answer) }
    });
    json::row(&answer, "devices", "uuid", driver.uuid(0));
}

#[test]
fn nothing_is_overwritten() {
    let sandbox = Sandbox::new();
    let gpuctl = |arguments: &[&str]| sandbox.plain_gpuctl().args(arguments).run();
    gpuctl(&["pki", "init"]).expect_code(0);
    gpuctl(&["pki", "issue", "user", "alice"]).expect_code(0);
    let read =
        || ["gpufleet-ca/ca.key", "user-alice/tls.key"].map(|file| fs::read(sandbox.folder().join(file)).unwrap());
    let before = read();
    let finished = gpuctl(&["pki", "init"]).expect_code(1);
    assert!(finished.stderr.contains("ca."), "{}", finished.stderr);
    gpuctl(&["pki", "issue", "user", "alice"]).expect_code(1);
    assert_eq!(read(), before);
    gpuctl(&["pki", "issue", "user", "alice", "--replace"]).expect_code(0);
    assert_ne!(read()[1], before[1]);
    for wrong in [["pki", "issue", "king", "alice"], ["pki", "issue", "user", ""], ["pki", "issue", "user", "a/b"]] {
        let code = gpuctl(&wrong).code();
        assert!([1, 2].contains(&code), "{wrong:?}: {code}");
    }
}

#[test]
fn what_certificates_say_is_shown() {
    let fleet = Fleet::start(vec![("host1", vec![Device::h200(0)])]);
    let certificates = fleet.sandbox.certificates();
    let shown = |folder: &std::path::Path| fleet.sandbox.plain_gpuctl().args(["pki", "show"]).arg(folder).run();
    let valid = shown(&certificates.of(gpufleet_tests::Role::Agent, "host1")).expect_code(0);
    assert!(valid.stdout.contains("spiffe://fleet.test/gpufleet/agent/host1"), "{}", valid.stdout);
    assert!(valid.stdout.contains("expires"), "{}", valid.stdout);
    let expired = shown(&certificates.expired(gpufleet_tests::Role::User, "late")).expect_code(1);
    assert!(expired.stdout.contains("EXPIRED"), "{}", expired.stdout);
    let nothing = shown(fleet.sandbox.folder()).expect_code(1);
    assert!(nothing.stderr.contains("tls.crt"), "{}", nothing.stderr);
}

//! The example file is valid and states the defaults, every invalid one is refused with its message, and flags win over
//! environment over file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gpufleet_agent::BackendChoice;
use gpufleet_agent::config::{Config, ConfigError, Flags};

fn crate_path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn load(file: &Path, environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let flags = Flags { config: Some(file.to_path_buf()), ..Flags::default() };
    Config::load(flags, environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

#[test]
fn the_example_is_valid_and_states_the_defaults() {
    let example = load(&crate_path("../deploy/config/agent.toml"), &[]).unwrap();
    let bare = Config::load(Flags::default(), []).unwrap();
    assert_eq!(format!("{example:?}"), format!("{bare:?}"));
}

#[test]
fn every_invalid_file_is_refused_with_its_message() {
    let folder = crate_path("tests/fixtures/invalid");
    let prefix = format!("{}/", folder.display());
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let expected = std::fs::read_to_string(path.with_extension("txt")).unwrap();
            let message = load(&path, &[]).expect_err(&path.display().to_string()).to_string();
            assert_eq!(message.replace(&prefix, ""), expected.trim_end(), "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 10, "the fixtures are not where they are looked for");
}

#[test]
fn flags_win_over_environment_over_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.toml");
    let text = "listen = \"127.0.0.1:1\"\ntls_dir = \"tls\"\ninterval = \"1s\"\n[backend]\nkind = \"nvml\"\nseed = 3\n";
    std::fs::write(&file, text).unwrap();
    let environment = [
        ("GPUFLEET_AGENT_LISTEN", "127.0.0.1:2"),
        ("GPUFLEET_AGENT_INTERVAL", "2s"),
        ("GPUFLEET_AGENT_BACKEND__KIND", "sim:4"),
        ("GPUFLEET_AGENT_SERVING__WATCHES", "7"),
        ("GPUFLEET_AGENT_PROTECTED_NAMES", "one, two*"),
        // What Kubernetes sets for a service of this name is not ours.
        ("GPUFLEET_AGENT_SERVICE_HOST", "10.0.0.1"),
        ("GPUFLEET_AGENT_PORT_9460_TCP", "tcp://10.0.0.1:9460"),
    ];
    let config = load(&file, &environment).unwrap();
    assert_eq!(config.listen.port(), 2);
    assert_eq!(config.tls_dir, folder.path().join("tls"), "paths are relative to the file");
    let settings = config.settings("node1").unwrap();
    assert_eq!(settings.backend, BackendChoice::Simulated { devices: 4 });
    assert_eq!((settings.interval, settings.backend_options.seed), (Duration::from_secs(2), 3));
    assert_eq!(settings.serving.watches, 7);

    let flags = Flags {
        config: Some(file),
        listen: Some("127.0.0.1:3".into()),
        backend: Some("auto".into()),
        ..Flags::default()
    };
    let config = Config::load(flags, [("GPUFLEET_AGENT_LISTEN".into(), "127.0.0.1:2".into())]).unwrap();
    assert_eq!(config.listen.port(), 3);
    assert_eq!(config.settings("node1").unwrap().backend, BackendChoice::Auto);
}

#[test]
fn the_name_must_be_that_of_the_certificate() {
    let flags = Flags { host_name: Some("node1".into()), ..Flags::default() };
    let config = Config::load(flags, []).unwrap();
    assert_eq!(config.settings("node1").unwrap().host_name, "node1");
    assert_eq!(
        config.settings("node2").unwrap_err().to_string(),
        "host_name: is `node1`, and the certificate is of `node2`; they must be the same"
    );
    assert_eq!(Config::load(Flags::default(), []).unwrap().settings("node2").unwrap().host_name, "node2");
}

#[test]
fn a_variable_that_names_no_setting_is_refused() {
    let file = crate_path("../deploy/config/agent.toml");
    let refused = |name, value| load(&file, &[(name, value)]).unwrap_err().to_string();
    assert_eq!(
        refused("GPUFLEET_AGENT_LISTN", "x"),
        "environment variable `GPUFLEET_AGENT_LISTN`: names no setting; unset it or correct its name"
    );
    assert_eq!(
        refused("GPUFLEET_AGENT_SERVING__WATCHES", "many"),
        "environment variable `GPUFLEET_AGENT_SERVING__WATCHES`: `many` is not a whole number"
    );
}

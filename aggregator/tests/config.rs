//! The example files are valid, every invalid one is refused with its message, and flags win over environment over file.

use std::path::{Path, PathBuf};

use gpufleet_aggregator::InventorySource;
use gpufleet_aggregator::config::{Config, Flags};

fn crate_path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn load(file: &Path, environment: &[(&str, &str)]) -> Result<Config, String> {
    let flags = Flags { config: Some(file.to_path_buf()), ..Flags::default() };
    let environment = environment.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string()));
    Config::load(flags, environment).map_err(|error| error.to_string())
}

#[test]
fn the_example_is_valid_and_states_the_defaults() {
    let config = load(&crate_path("../deploy/config/aggregator.toml"), &[]).unwrap();
    let inventory = config.settings.inventory.load().unwrap();
    assert_eq!(
        inventory.iter().map(|entry| &*entry.address).collect::<Vec<_>>(),
        ["10.0.0.1:9460", "10.0.0.2:9460", "node3.example.org:9460"]
    );
    assert_eq!(config.tls_dir, Path::new("/etc/gpufleet/tls"));
    let bare = Config::load(Flags { hosts: Some("a:1".into()), ..Flags::default() }, []).unwrap();
    assert_eq!(config.listen, bare.listen);
    assert_eq!(format!("{:?}", config.settings.fan_in), format!("{:?}", bare.settings.fan_in));
    assert_eq!(format!("{:?}", config.settings.serving), format!("{:?}", bare.settings.serving));
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
            let message = load(&path, &[]).expect_err(&path.display().to_string());
            assert_eq!(message.replace(&prefix, ""), expected.trim_end(), "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 10, "the fixtures are not where they are looked for");
}

#[test]
fn flags_win_over_environment_over_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("aggregator.toml");
    std::fs::write(
        &file,
        "hosts = \"a:1\"\nlisten = \"127.0.0.1:1\"\ntls_dir = \"tls\"\n[fan_in]\nconnect_timeout = \"1s\"\n",
    )
    .unwrap();
    let environment = [
        ("GPUFLEET_AGGREGATOR_LISTEN", "127.0.0.1:2"),
        ("GPUFLEET_AGGREGATOR_OPERATORS", "alice, service/scheduler"),
        ("GPUFLEET_AGGREGATOR_FAN_IN__CONNECT_TIMEOUT", "2s"),
        // What Kubernetes sets for a service of this name is not ours.
        ("GPUFLEET_AGGREGATOR_SERVICE_HOST", "10.0.0.1"),
        ("GPUFLEET_AGGREGATOR_PORT_9461_TCP", "tcp://10.0.0.1:9461"),
    ];
    let config = load(&file, &environment).unwrap();
    assert_eq!(config.listen.port(), 2);
    assert_eq!(config.tls_dir, folder.path().join("tls"), "paths are relative to the file");
    assert_eq!(config.settings.operators, ["alice", "service/scheduler"]);
    assert_eq!(config.settings.fan_in.connect_timeout.as_secs(), 2);

    let flags = Flags {
        config: Some(file),
        listen: Some("127.0.0.1:3".into()),
        hosts: Some("b=127.0.0.1:9".into()),
        ..Flags::default()
    };
    let config = Config::load(flags, [("GPUFLEET_AGGREGATOR_LISTEN".into(), "127.0.0.1:2".into())]).unwrap();
    assert_eq!(config.listen.port(), 3);
    let InventorySource::Fixed(inventory) = config.settings.inventory else { panic!("not a list") };
    assert!(inventory.get("b").is_some());
}

#[test]
fn a_variable_that_names_no_setting_is_refused() {
    let file = crate_path("../deploy/config/aggregator.toml");
    assert_eq!(
        load(&file, &[("GPUFLEET_AGGREGATOR_LISTN", "x")]).unwrap_err(),
        "environment variable `GPUFLEET_AGGREGATOR_LISTN`: names no setting; unset it or correct its name"
    );
    assert_eq!(
        load(&file, &[("GPUFLEET_AGGREGATOR_SERVING__WATCHES", "many")]).unwrap_err(),
        "environment variable `GPUFLEET_AGGREGATOR_SERVING__WATCHES`: `many` is not a whole number"
    );
}

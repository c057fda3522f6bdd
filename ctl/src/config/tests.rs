//! Files that are read and refused, and who wins over whom.

use super::*;

fn fixtures(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(kind);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect()
}

fn config() -> Config {
    Config::read(&fixtures("valid")[0]).unwrap()
}

fn aggregator(address: &str, tls_dir: &str) -> Endpoint {
    Endpoint::Aggregator { address: address.to_owned(), tls_dir: tls_dir.into() }
}

fn environment() -> Environment {
    let (context, aggregator) = (Some("one".to_owned()), Some("env:1".to_owned()));
    Environment { context, aggregator, tls_dir: Some("/env".into()) }
}

fn flags(context: Option<&str>, aggregator: Option<&str>, agent: Option<&str>, tls_dir: Option<&str>) -> Connection {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Connection {
        context: owned(context),
        aggregator: owned(aggregator),
        agent: owned(agent),
        tls_dir: tls_dir.map(PathBuf::from),
    }
}

#[test]
fn every_valid_file_is_read_and_survives_being_written() {
    for path in fixtures("valid") {
        let config = Config::read(&path).unwrap();
        assert_eq!(toml::from_str::<Config>(&toml::to_string(&config).unwrap()).unwrap(), config, "{}", path.display());
    }
    assert_eq!(Config::read(Path::new("/nowhere/config.toml")).unwrap(), Config::default());
}

#[test]
fn every_invalid_file_is_refused_with_its_message() {
    let files = fixtures("invalid");
    assert!(files.len() >= 6, "the fixtures are not where they are looked for");
    for path in files {
        let expected = fs::read_to_string(path.with_extension("txt")).unwrap();
        let error = Config::read(&path).expect_err(&path.display().to_string());
        let prefix = format!("{}/", path.parent().unwrap().display());
        assert_eq!(error.to_string().replace(&prefix, ""), expected.trim_end(), "{}", path.display());
        assert_eq!(error.exit, crate::exit::Exit::Usage);
    }
}

#[test]
fn the_command_line_wins_over_the_environment_over_the_file_over_this_host() {
    let none = Environment::default();
    let endpoint = |flags: Connection, environment: &Environment| config().endpoint(&flags, environment).unwrap();
    assert_eq!(Config::default().endpoint(&Connection::default(), &none).unwrap(), Endpoint::Local);
    assert_eq!(endpoint(Connection::default(), &none), aggregator("central:9461", "/etc/prod"));
    assert_eq!(endpoint(Connection::default(), &environment()), aggregator("env:1", "/env"));
    let context_of_the_environment = Environment { aggregator: None, ..environment() };
    let one = |tls_dir: &str| Endpoint::Agent { address: "node1:7000".to_owned(), tls_dir: tls_dir.into() };
    assert_eq!(endpoint(Connection::default(), &context_of_the_environment), one("/env"));
    // A context of the command line is not mixed with the environment's aggregator and certificates.
    assert_eq!(
        endpoint(flags(Some("prod"), None, None, None), &environment()),
        aggregator("central:9461", "/etc/prod")
    );
    assert_eq!(endpoint(flags(Some("one"), None, None, None), &environment()), one("/etc/one"));
    assert_eq!(endpoint(flags(None, Some("c:3"), None, Some("/t")), &environment()), aggregator("c:3", "/t"));
    assert_eq!(endpoint(flags(Some("prod"), Some("c:3"), None, None), &environment()), aggregator("c:3", "/etc/prod"));
    let agent = Endpoint::Agent { address: "n:9460".to_owned(), tls_dir: "/env".into() };
    assert_eq!(endpoint(flags(None, None, Some("n"), None), &environment()), agent);
}

#[test]
fn an_unknown_context_is_an_error_that_names_the_known_ones() {
    for flags in [flags(Some("nope"), None, None, None), flags(Some("nope"), Some("a:1"), None, None)] {
        let error = config().endpoint(&flags, &Environment::default()).unwrap_err().to_string();
        assert!(error.contains("no context `nope`; known: bare, one, prod"), "{error}");
    }
    let bare = config().endpoint(&flags(Some("bare"), None, None, None), &Environment::default()).unwrap_err();
    assert!(bare.to_string().contains("context `bare` names nobody"), "{bare}");
}

#[test]
fn addresses_get_the_port_that_is_meant() {
    for (text, meant) in [
        ("node1", "node1:1"),
        ("node1:7", "node1:7"),
        ("10.0.0.1", "10.0.0.1:1"),
        ("[::1]", "[::1]:1"),
        ("[::1]:7", "[::1]:7"),
        ("https://node1/", "node1:1"),
        ("https://node1:7", "node1:7"),
        ("::1", "::1"),
        ("", ""),
    ] {
        assert_eq!(address(text, 1), meant, "{text}");
    }
}

#[test]
fn a_relative_folder_of_certificates_is_beside_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    fs::write(&path, "[contexts.a]\naggregator = 'x:1'\ntls_dir = 'tls/a'\n").unwrap();
    let config = Config::read(&path).unwrap();
    assert_eq!(config.contexts["a"].tls_dir, Some(folder.path().join("tls/a")));
}

//! What the sandbox runs: the programs and the fake driver library, as cargo builds them from this tree.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX, EXE_SUFFIX};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock};

/// The path of one of our programs, such as `gpuctl`, built from the present sources.
///
/// `cargo test` builds the programs of other packages only in some cases, so the first test that needs one has cargo
/// bring all of them up to date; that is quick when they are. Test processes of one nextest run do it once.
pub fn binary(name: &str) -> PathBuf {
    static PROFILE: OnceLock<PathBuf> = OnceLock::new();
    let profile = PROFILE.get_or_init(|| {
        let profile = profile_folder();
        build_once(&profile, "programs", &["--workspace", "--bins"]);
        profile
    });
    let path = profile.join(format!("{name}{EXE_SUFFIX}"));
    assert!(path.exists(), "cargo did not build `{}`", path.display());
    path
}

/// The fake NVML library. Cargo builds it with this crate, which depends on it.
pub fn fake_nvml_library() -> PathBuf {
    let name = format!("{DLL_PREFIX}gpufleet_fake_nvml{DLL_SUFFIX}");
    let profile = profile_folder();
    let beside = profile.join("deps").join(&name);
    if beside.exists() {
        return beside;
    }
    build_once(&profile, "fake-nvml", &["--package", "gpufleet-fake-nvml"]);
    let path = profile.join(&name);
    assert!(path.exists(), "cargo did not build `{}`", path.display());
    path
}

/// Puts a link named `libnvidia-ml.so.1` into `folder`, so that the folder can stand on `LD_LIBRARY_PATH`, and gives the
/// folder.
pub fn fake_nvml_folder(folder: &Path) -> PathBuf {
    let folder = folder.join("driver");
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(fake_nvml_library(), folder.join("libnvidia-ml.so.1")).unwrap();
    folder
}

/// `target/debug`, or what it is called here: tests run from `deps` below it.
fn profile_folder() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test program");
    let deps = test.parent().expect("the folder of the test program");
    if deps.ends_with("deps") { deps.parent().expect("the profile's folder").to_owned() } else { deps.to_owned() }
}

/// Runs cargo with a lock held, unless another process of the same nextest run has already done so.
fn build_once(profile: &Path, what: &str, selection: &[&str]) {
    let stamp = profile.join(format!(".gpufleet-tests-{what}"));
    let lock = File::options().create(true).append(true).open(stamp.with_extension("lock")).expect("the build lock");
    flock(&lock, FlockOperation::LockExclusive).expect("the build lock");
    let run = std::env::var("NEXTEST_RUN_ID").ok();
    if run.is_some() && fs::read_to_string(&stamp).ok() == run {
        return;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "--locked"]).args(selection);
    match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(name) => {
            command.args(["--profile", name]);
        }
    }
    command.arg("--target-dir").arg(profile.parent().expect("the target folder"));
    // What cargo tells a test of its package would make build scripts that look at it run again, and with them half of
    // the tree.
    for (name, _) in std::env::vars_os() {
        let told = |prefix: &&str| name.to_str().is_some_and(|name| name.starts_with(prefix));
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_", "CARGO_PRIMARY_"].iter().any(told) {
            command.env_remove(&name);
        }
    }
    let output = command.output().expect("cargo can be run");
    assert!(output.status.success(), "cargo cannot build {what}:\n{}", String::from_utf8_lossy(&output.stderr));
    if let Some(run) = run {
        fs::write(&stamp, run).expect("the build stamp");
    }
}

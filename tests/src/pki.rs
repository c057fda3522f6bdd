//! Certificates: one authority, and what it has issued, each in a folder that programs take as their `--tls-dir`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gpufleet_transport::Role;
use gpufleet_transport::pki::{Authority, IssueRequest};

/// The trust domain of every sandbox.
const TRUST_DOMAIN: &str = "fleet.test";

const A_DAY: Duration = Duration::from_hours(24);

/// An authority with the certificates it has issued.
pub struct Certificates {
    folder: PathBuf,
    authority: Authority,
}

impl Certificates {
    /// A new authority in a folder.
    pub fn new(folder: &Path) -> Self {
        let authority = Authority::in_memory(TRUST_DOMAIN, A_DAY).expect("an authority");
        Self { folder: folder.to_owned(), authority }
    }

    /// The folder with the certificate of this identity, issued when there is none yet.
    pub fn of(&self, role: Role, name: &str) -> PathBuf {
        let folder = self.folder.join(format!("{role}-{name}"));
        if !folder.exists() {
            self.issue(role, name, &folder, false);
        }
        folder
    }

    /// A folder with a certificate that has expired a minute ago.
    pub fn expired(&self, role: Role, name: &str) -> PathBuf {
        let folder = self.folder.join(format!("{role}-{name}-expired"));
        let begins = SystemTime::now() - Duration::from_hours(1);
        let issued = self.authority.issue_between(&IssueRequest::new(role, name), begins, Duration::from_mins(59));
        issued.and_then(|issued| issued.write(&folder, false)).expect("a certificate");
        folder
    }

    fn issue(&self, role: Role, name: &str, folder: &Path, replace: bool) {
        let issued = self.authority.issue(&IssueRequest::new(role, name));
        issued.and_then(|issued| issued.write(folder, replace)).expect("a certificate");
    }

    /// Puts a new leaf in the place of one that was issued.
    pub fn rotate(&self, role: Role, name: &str) {
        self.issue(role, name, &self.of(role, name), true);
    }

    fn issued(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).expect("something was issued");
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.join("tls.crt").exists()).collect()
    }

    fn roots(&self) -> String {
        self.authority.certificate().to_owned()
    }

    /// Everybody to whom a certificate was issued trusts another authority beside this one.
    pub fn trust_also(&self, other: &Self) {
        let both = self.roots() + &other.roots();
        for folder in self.issued() {
            replace(&folder.join("ca.crt"), &both);
        }
    }

    /// The holder of this folder trusts whom those here trust.
    pub fn copy_roots(&self, folder: &Path) {
        let from = self.issued().into_iter().next().expect("something was issued");
        fs::copy(from.join("ca.crt"), folder.join("ca.crt")).expect("a file can be copied");
    }

    /// Everybody gets a certificate of another authority and trusts that alone. What they had is kept as `stale`.
    pub fn replace_all_by(&self, next: &Self) {
        for folder in self.issued() {
            let title = folder.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
            let (role, name) = title.split_once('-').expect("role and name");
            let stale = self.folder.join(format!("stale/{title}"));
            fs::create_dir_all(&stale).expect("a folder");
            for file in ["ca.crt", "tls.crt", "tls.key"] {
                fs::copy(folder.join(file), stale.join(file)).expect("a file can be copied");
            }
            let fresh = next.of(role.parse().expect("a role"), name);
            for file in ["tls.key", "tls.crt"] {
                replace(&folder.join(file), &fs::read_to_string(fresh.join(file)).expect("a file"));
            }
            replace(&folder.join("ca.crt"), &next.roots());
        }
    }

    /// What an identity had before `replace_all_by`.
    pub fn stale(&self, role: Role, name: &str) -> PathBuf {
        self.folder.join(format!("stale/{role}-{name}"))
    }
}

/// Replaces a file atomically and keeps it readable by its owner alone.
fn replace(path: &Path, text: &str) {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let fresh = path.with_extension("fresh");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh).expect("a file");
    file.write_all(text.as_bytes()).expect("a file can be written");
    fs::rename(fresh, path).expect("a file can be replaced");
}

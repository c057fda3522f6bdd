//! Whom no signal may reach, whoever asks.

use thiserror::Error;

/// Names that are protected unless configured otherwise: what keeps the node itself alive and reachable.
const DEFAULT_NAMES: &[&str] = &[
    "init",
    "systemd",
    "systemd-*",
    "(sd-pam)",
    "dbus-daemon",
    "dbus-broker",
    "sshd",
    "sshd-*",
    "slurmd",
    "slurmstepd",
    "slurmctld",
    "munged",
    "kubelet",
    "containerd",
    "containerd-shim*",
    "dockerd",
    "crio",
    "conmon",
    "nvidia-persiste*",
    "nv-hostengine",
    "nv-fabricmanage*",
    "gpufleet-*",
];

/// Protected names: the kernel's short names, with `*` at the end for any rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    names: Vec<String>,
}

/// A pattern that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a process name; write the short name as `ps -o comm` shows it, with `*` at the end for any rest")]
pub struct InvalidPattern(pub String);

impl Default for Protection {
    fn default() -> Self {
        Self { names: DEFAULT_NAMES.iter().map(|name| (*name).to_owned()).collect() }
    }
}

impl Protection {
    /// Protects these names in place of the default ones. Pid 1, kernel threads and this process are protected always.
    ///
    /// # Errors
    /// When a pattern is empty or has `*` elsewhere than at its end.
    pub fn of(names: impl IntoIterator<Item = String>) -> Result<Self, InvalidPattern> {
        let names: Vec<String> = names.into_iter().collect();
        let wrong = |name: &&String| {
            let bare = name.strip_suffix('*').unwrap_or(name);
            bare.is_empty() || bare.contains('*')
        };
        match names.iter().find(wrong) {
            Some(name) => Err(InvalidPattern(name.clone())),
            None => Ok(Self { names }),
        }
    }

    /// Protects no name. For a person who signals on their own machine with their own rights.
    pub const fn none() -> Self {
        Self { names: Vec::new() }
    }

    /// Why this process may not be signalled; `None` when it may.
    pub(super) fn refusal(&self, pid: u32, name: &str, kernel_thread: bool) -> Option<String> {
        if pid <= 1 {
            return Some("pid 1 is never signalled".to_owned());
        }
        if kernel_thread {
            return Some("kernel threads are never signalled".to_owned());
        }
        if pid == std::process::id() {
            return Some("this is gpufleet itself".to_owned());
        }
        let protects = |pattern: &&String| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == **pattern,
        };
        let pattern = self.names.iter().find(protects)?;
        Some(format!("processes named `{pattern}` are protected on this host"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_itself_is_protected() {
        let protection = Protection::default();
        for name in ["sshd", "systemd-logind", "kubelet", "containerd-shim", "gpufleet-agent", "nvidia-persiste"] {
            assert!(protection.refusal(4711, name, false).is_some(), "{name}");
        }
        for name in ["python3", "sshd2", "mysystemd", "train"] {
            assert_eq!(protection.refusal(4711, name, false), None, "{name}");
        }
    }

    #[test]
    fn some_are_protected_whatever_is_configured() {
        let nothing = Protection::none();
        assert!(nothing.refusal(0, "x", false).is_some());
        assert!(nothing.refusal(1, "x", false).is_some());
        assert!(nothing.refusal(4711, "kworker/0:1", true).is_some());
        assert!(nothing.refusal(std::process::id(), "x", false).is_some());
        assert_eq!(nothing.refusal(4711, "sshd", false), None);
    }

    #[test]
    fn patterns_that_cannot_be_meant_are_refused() {
        for wrong in ["", "*", "a*b", "**"] {
            assert!(Protection::of([wrong.to_owned()]).is_err(), "{wrong:?}");
        }
        assert!(Protection::of(["my-daemon".to_owned(), "other*".to_owned()]).is_ok());
    }
}

//! Whether processes named in the scenario still live, as a driver would know: it frees the memory of a process that
//! has exited, reaped by its parent or not.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// When each pid was first seen gone.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    gone_since: HashMap<u32, Instant>,
}

impl Liveness {
    /// Whether the driver still counts `pid` when it lets go of a process `release` after its exit.
    pub(crate) fn holds(&mut self, pid: u32, release: Option<Duration>) -> bool {
        let Some(release) = release else { return true };
        if lives(pid) {
            self.gone_since.remove(&pid);
            return true;
        }
        self.gone_since.entry(pid).or_insert_with(Instant::now).elapsed() < release
    }
}

fn lives(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name stands in parentheses and may hold anything; the state follows the last one.
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreaped_child_is_gone_after_the_delay_only() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut liveness = Liveness::default();
        assert!(liveness.holds(child.id(), Some(Duration::ZERO)));
        child.kill().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while liveness.holds(child.id(), Some(Duration::ZERO)) {
            assert!(Instant::now() < deadline, "a killed child stays listed");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(liveness.holds(child.id(), None), "without release it stays for ever");
        assert!(liveness.holds(child.id(), Some(Duration::from_hours(1))), "the delay has not passed");
        child.wait().unwrap();
        assert!(!liveness.holds(child.id(), Some(Duration::ZERO)));
    }
}

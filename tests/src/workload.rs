//! Real processes to be listed and signalled.

use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::eventually;

/// A child process that runs until it is signalled. Killed and reaped when dropped.
#[derive(Debug)]
pub struct Workload {
    child: Child,
}

impl Workload {
    /// Starts one whose command line begins with `mark`.
    pub fn start(mark: &str) -> Self {
        let mut command = Command::new("sleep");
        command.arg0(mark).arg("3600");
        Self::spawn(command)
    }

    /// Starts one that ignores SIGTERM.
    pub fn stubborn(mark: &str) -> Self {
        // The loop outlives the end of each `sleep`.
        let workload = Self::script("trap '' TERM; while :; do sleep 1 & wait $!; done", mark);
        workload.until_signals_are("SigIgn:", Signal::TERM);
        workload
    }

    /// Starts one that adds a line to a file for each SIGUSR1.
    pub fn counting(file: &Path) -> Self {
        let script = "trap 'echo hit >> \"$1\"' USR1; while :; do sleep 1 & wait $!; done";
        let workload = Self::script(script, file.to_str().expect("a path in UTF-8"));
        workload.until_signals_are("SigCgt:", Signal::USR1);
        workload
    }

    /// Waits until this line of `/proc/PID/status` has the bit of a signal.
    fn until_signals_are(&self, line: &str, signal: Signal) {
        eventually("the process is ready for signals", || {
            let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
            let bits = status.lines().find_map(|found| found.strip_prefix(line)).unwrap_or_default();
            let signals = u64::from_str_radix(bits.trim(), 16).unwrap_or(0);
            if signals & (1 << (signal.as_raw() - 1)) != 0 { Ok(()) } else { Err(status) }
        });
    }

    /// Starts one under a pid that was used before, or `None` where the machine does not let us choose.
    ///
    /// The kernel gives the next free pid after the last one; that one can be set with enough rights. Another process may
    /// take it first, so this tries until it succeeds.
    pub fn start_as(pid: u32, mark: &str) -> Option<Self> {
        for _ in 0..500 {
            fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
            let workload = Self::start(mark);
            if workload.pid() == pid {
                return Some(workload);
            }
        }
        None
    }

    /// Starts a shell script with one argument, which ends the command line.
    fn script(script: &str, argument: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", argument]);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Self { child: command.spawn().expect("a child process") }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Start time in clock ticks since boot, from `/proc`.
    pub fn start_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("the process lives");
        let after_name = stat.rsplit(')').next().expect("a name in parentheses");
        after_name.split_whitespace().nth(19).expect("22 fields").parse().expect("a number")
    }

    /// Whether it runs: neither exited nor a zombie.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("waiting for a child").is_none()
    }

    /// Waits for its end and gives the signal that ended it.
    pub fn ended_by(&mut self) -> Option<i32> {
        eventually("the process ends", || self.child.try_wait().expect("waiting for a child").ok_or("it still runs"))
            .signal()
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        if let (Ok(None), Some(group)) =
            (self.child.try_wait(), rustix::process::Pid::from_raw(self.pid().cast_signed()))
        {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

//! Open, check, send: in this order.

use std::os::fd::OwnedFd;

use procfs::process::{Process, Stat};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::attempt::{Attempt, Outcome, Report};
use super::protection::Protection;

/// Flag of kernel threads in `/proc/PID/stat`.
const PF_KTHREAD: u32 = 0x0020_0000;
/// What is said of a pid that belongs to somebody else now.
pub(super) const REUSED: &str = "the pid belongs to another process now; nothing was signalled";

/// A signal that was delivered, and the process it went to.
pub(super) struct Delivered {
    pub(super) pidfd: OwnedFd,
}

/// Signals the pinned process, or says why not. Blocking, but only on `/proc`.
pub(super) fn deliver(attempt: &Attempt, protection: &Protection) -> Result<Delivered, Report> {
    let ended = || Report::new(Outcome::NotFound, "the process has ended");
    let number = i32::try_from(attempt.pid).ok().filter(|pid| *pid > 0);
    let Some(number) = number else {
        return Err(Report::new(Outcome::Protected, "pid 0 is never signalled"));
    };
    let pid = Pid::from_raw(number).ok_or_else(ended)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| match error {
        Errno::SRCH => ended(),
        Errno::INVAL => Report::new(Outcome::NotFound, "this is the id of a thread, not of a process"),
        other => refused(other),
    })?;
    // From here on the descriptor can only mean the process that had the pid just now. Whether that is the one that was
    // meant shows in its start, read after the descriptor was opened.
    let stat = match Process::new(number).and_then(|process| process.stat()) {
        Ok(stat) => stat,
        Err(_) if has_ended(&pidfd) => return Err(ended()),
        Err(_) => {
            let message =
                "the kernel hides this process from the agent, so it cannot be identified; nothing was signalled";
            return Err(Report::new(Outcome::NoPermission, message));
        }
    };
    if stat.starttime != attempt.start_ticks {
        return Err(Report::new(Outcome::IdentityChanged, REUSED));
    }
    if is_zombie(&stat) {
        return Err(Report::new(Outcome::NotFound, "the process has ended, and its parent has not collected it yet"));
    }
    if let Some(reason) = protection.refusal(attempt.pid, &stat.comm, stat.flags & PF_KTHREAD != 0) {
        return Err(Report::new(Outcome::Protected, reason));
    }
    let signal = i32::try_from(attempt.signal).ok().and_then(Signal::from_named_raw);
    let Some(signal) = signal else {
        let message = format!("signal {} is a real-time signal; the agent sends signals 1 to 31", attempt.signal);
        return Err(Report::new(Outcome::Failed, message));
    };
    match pidfd_send_signal(&pidfd, signal) {
        Ok(()) => Ok(Delivered { pidfd }),
        Err(Errno::SRCH) => Err(ended()),
        Err(error) => Err(refused(error)),
    }
}

/// A zombie takes signals without effect. One whose first thread alone has ended still lives.
fn is_zombie(stat: &Stat) -> bool {
    matches!(stat.state, 'Z' | 'X') && stat.num_threads <= 1
}

/// A pidfd is readable once its process has ended.
pub(super) fn has_ended(pidfd: &OwnedFd) -> bool {
    const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&NOW)).is_ok_and(|ready| ready > 0)
}

fn refused(error: Errno) -> Report {
    match error {
        Errno::PERM | Errno::ACCESS => {
            let message = "the kernel refused: the agent lacks the right (CAP_KILL, or the same user)";
            Report::new(Outcome::NoPermission, message)
        }
        Errno::NOSYS => Report::new(Outcome::Failed, "this kernel has no pidfd; Linux 5.3 or newer is needed"),
        other => Report::new(Outcome::Failed, format!("the kernel refused: {other}")),
    }
}

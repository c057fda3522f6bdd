//! Being asked to end: Ctrl-C, SIGTERM, a terminal that is closed. Where something must be put back or removed first,
//! these are waited for instead of letting the kernel end the program.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Result;

/// Waits for being asked to end. As long as it exists, the signals do not end the program by themselves.
#[derive(Debug)]
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Interrupts {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub(crate) fn listen() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Comes back when the program is asked to end.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

//! Long work over many hosts, in turns with everything else that runs.

/// Hosts looked at in one turn: some tens of microseconds.
const HOSTS: u32 = 64;

/// Counts hosts, and lets other tasks run between two turns.
#[derive(Debug, Default)]
pub(crate) struct Turns(u32);

impl Turns {
    /// Counts a host.
    pub(crate) async fn take(&mut self) {
        self.0 += 1;
        if self.0 >= HOSTS {
            self.0 = 0;
            tokio::task::yield_now().await;
        }
    }
}

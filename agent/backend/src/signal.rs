//! Signals to simulated processes.

/// What a signal to a simulated process did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimulatedSignal {
    /// It was delivered; its effect shows within two rounds.
    Delivered,
    /// There is no such process (any more).
    NoSuchProcess,
    /// The pid is of a process that started at another time: nothing was hit.
    OtherProcess,
    /// The number is no signal.
    InvalidSignal,
    /// This backend is not simulated: its processes are real ones of the operating system.
    NotSimulated,
}

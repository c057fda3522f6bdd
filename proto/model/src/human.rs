//! Human-readable sizes and durations.

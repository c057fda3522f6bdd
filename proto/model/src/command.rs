//! Joining an argument list into one line.

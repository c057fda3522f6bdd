//! Skeleton.
pub mod health;

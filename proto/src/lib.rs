//! The contract `gpufleet.v1`: generated messages and services, and their conversion to and from the domain model.

pub mod convert;
pub mod health_socket;
pub mod status;

/// Generated from `proto/gpufleet/v1`.
#[allow(missing_docs, clippy::pedantic, clippy::allow_attributes_without_reason, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("gpufleet.v1");
}

/// Encoded `FileDescriptorSet` of the contract, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

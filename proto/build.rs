//! Compiles the schema without `protoc`.

use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["gpufleet/v1/agent_service.proto", "gpufleet/v1/fleet_service.proto"];
    for entry in std::fs::read_dir("gpufleet/v1")? {
        println!("cargo:rerun-if-changed={}", entry?.path().display());
    }
    let descriptors = protox::compile(files, ["."])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}

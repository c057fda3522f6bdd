//! Requests: what is wrong with them.

use gpufleet_model::HostSnapshot;
use gpufleet_model::command::escape_text;
use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::ProcessScope;
use tonic::Status;

pub(crate) fn invalid(field: &'static str, problem: &str) -> Status {
    Reason::InvalidArgument.status(format!("`{field}` {problem}"), [("field", field.to_owned())])
}

pub(crate) fn scope(scope: i32) -> Result<ProcessScope, Status> {
    ProcessScope::try_from(scope).map_err(|_| invalid("scope", "is not a process scope of this version"))
}

/// Refuses a device that this host does not have.
pub(crate) fn known_devices(uuids: &[String], snapshot: &HostSnapshot) -> Result<(), Status> {
    let known = |uuid: &String| snapshot.devices.values().any(|device| device.info.uuid == *uuid);
    match uuids.iter().find(|uuid| !known(uuid)) {
        None => Ok(()),
        Some(uuid) => {
            let message = format!("this host has no device `{}`", escape_text(uuid));
            Err(Reason::UnknownDevice.status(message, [("device_uuid", uuid.clone())]))
        }
    }
}

//! Requests: what is wrong with them, and what this version does not serve.

use gpufleet_proto::status::Reason;
use gpufleet_proto::v1::ProcessScope;
use tonic::Status;

pub(crate) fn invalid(field: &'static str, problem: &str) -> Status {
    Reason::InvalidArgument.status(format!("`{field}` {problem}"), [("field", field.to_owned())])
}

pub(crate) fn scope(scope: i32) -> Result<ProcessScope, Status> {
    ProcessScope::try_from(scope).map_err(|_| invalid("scope", "is not a process scope of this version"))
}

pub(crate) fn not_implemented(method: &'static str) -> Status {
    let message = format!("`{method}` is not served by this version of the agent");
    Reason::NotImplemented.status(message, [("method", method.to_owned())])
}

//! Who may call what. A method that is not listed is refused to everyone; gRPC health and reflection are open to every
//! authenticated peer.

use gpufleet_transport::{AccessTable, identity::Role};

/// Those who look.
const VIEWERS: &[Role] = &[Role::User, Role::Service, Role::Aggregator];
/// Those who may ask for an action; what each of them may do is decided by `signal::authorise`.
const ACTORS: &[Role] = &[Role::User, Role::Service];

/// The access table of the aggregator.
pub(crate) fn table() -> AccessTable {
    AccessTable::new(&[
        ("/gpufleet.v1.FleetService/ListHosts", VIEWERS),
        ("/gpufleet.v1.FleetService/WatchFleet", VIEWERS),
        ("/gpufleet.v1.FleetService/WatchDevices", VIEWERS),
        ("/gpufleet.v1.FleetService/ListProcesses", VIEWERS),
        ("/gpufleet.v1.FleetService/WatchProcesses", VIEWERS),
        ("/gpufleet.v1.FleetService/WatchHealth", VIEWERS),
        ("/gpufleet.v1.FleetService/WatchEvents", VIEWERS),
        ("/gpufleet.v1.FleetService/SelectDevices", VIEWERS),
        ("/gpufleet.v1.FleetService/GetFleetSummary", VIEWERS),
        ("/gpufleet.v1.FleetService/ListAuditEvents", VIEWERS),
        ("/gpufleet.v1.FleetService/GetUsage", VIEWERS),
        ("/gpufleet.v1.FleetService/SignalProcess", ACTORS),
    ])
}

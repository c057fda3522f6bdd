//! Who may call what. A method that is not listed is refused to everyone.

use gpufleet_transport::{AccessTable, Role};

/// Those who look.
const VIEWERS: &[Role] = &[Role::User, Role::Service, Role::Aggregator];
/// Those who may ask for an action: people go through an aggregator, which authorises and records them.
const ACTORS: &[Role] = &[Role::Aggregator];

/// The access table of the agent.
pub(crate) fn table() -> AccessTable {
    AccessTable::new(&[
        ("/gpufleet.v1.AgentService/GetHost", VIEWERS),
        ("/gpufleet.v1.AgentService/WatchHost", VIEWERS),
        ("/gpufleet.v1.AgentService/WatchDevices", VIEWERS),
        ("/gpufleet.v1.AgentService/ListProcesses", VIEWERS),
        ("/gpufleet.v1.AgentService/WatchProcesses", VIEWERS),
        ("/gpufleet.v1.AgentService/GetHealth", VIEWERS),
        ("/gpufleet.v1.AgentService/WatchHealth", VIEWERS),
        ("/gpufleet.v1.AgentService/WatchEvents", VIEWERS),
        ("/gpufleet.v1.AgentService/SignalProcess", ACTORS),
    ])
}

#[cfg(test)]
mod tests {
    use gpufleet_proto::FILE_DESCRIPTOR_SET;
    use prost::Message as _;

    use super::*;

    #[test]
    fn every_method_of_the_contract_is_listed() {
        let set = prost_types::FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
        let services = set.file.iter().flat_map(|file| &file.service);
        let agent = services.filter(|service| service.name() == "AgentService");
        let methods: Vec<String> = agent
            .flat_map(|service| &service.method)
            .map(|method| format!("/gpufleet.v1.AgentService/{}", method.name()))
            .collect();
        assert!(methods.len() > 5);
        for method in methods {
            assert!(table().allows(&method, Role::Aggregator), "{method}");
            assert!(!table().allows(&method, Role::Agent), "{method}");
        }
    }

    #[test]
    fn only_an_aggregator_may_signal() {
        for role in Role::ALL {
            let allowed = table().allows("/gpufleet.v1.AgentService/SignalProcess", role);
            assert_eq!(allowed, role == Role::Aggregator, "{role}");
        }
    }
}

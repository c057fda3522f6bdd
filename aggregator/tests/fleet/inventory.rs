//! The inventory changes while the aggregator runs.

use std::time::Duration;

use gpufleet_aggregator::InventorySource;
use gpufleet_proto::v1::{self, ConnectionState};
use gpufleet_transport::Role;
use gpufleet_transport::pki::Authority;

use crate::agent::Agent;
use crate::fixtures::snapshot;
use crate::world::{DEADLINE, World, hosts, issue, settings, wait_for, wait_for_state};

#[tokio::test]
async fn hosts_come_and_go_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hosts.toml");
    let authority = Authority::in_memory("test.example", Duration::from_hours(1)).unwrap();
    let mut agents = std::collections::BTreeMap::new();
    for name in ["a", "b"] {
        let agent = Agent::start(issue(&authority, Role::Agent, name), snapshot(name, 1, 1)).await;
        agents.insert(name.to_string(), agent);
    }
    let address = |name: &str| agents[name].address;
    let entry = |name: &str, rack: &str| {
        format!("[[hosts]]\nname = \"{name}\"\naddress = \"{}\"\nlabels = {{ rack = \"{rack}\" }}\n", address(name))
    };
    let put = |text: &str| {
        let next = folder.path().join("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(&next, &file).unwrap();
    };
    put(&entry("a", "r1"));
    let (both, only_b) = (entry("a", "r1") + &entry("b", "r2"), entry("b", "r3"));
    let moved = format!("{only_b}[[hosts]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\n");
    let settings = settings(InventorySource::File(file.clone()));
    let world = World::start_over(authority, agents, settings).await;
    let mut client = world.user().await;
    wait_for_state(&mut client, "a", ConnectionState::Connected).await;
    let request = v1::WatchFleetRequest { filter: None, min_interval: None };
    let mut stream = client.watch_fleet(request).await.unwrap().into_inner();

    put(&both);
    let b = wait_for("b", async || hosts(&mut client).await.remove("b")).await;
    assert_eq!(b.labels["rack"], "r2");
    wait_for_state(&mut client, "b", ConnectionState::Connected).await;

    put("[[hosts]]\nname = \"a\"\n[[hosts]]\nname = \"a\"\n");
    put(&only_b);
    wait_for("a to be gone", async || (!hosts(&mut client).await.contains_key("a")).then_some(())).await;
    let b = hosts(&mut client).await.remove("b").unwrap();
    assert_eq!((b.labels["rack"].as_str(), b.state()), ("r3", ConnectionState::Connected), "b kept its connection");
    let told = async {
        loop {
            let message = stream.message().await.unwrap().unwrap();
            if message.removed == ["a"] {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, told).await.expect("the watch was not told");

    put(&moved);
    let a = wait_for("a at another address", async || {
        hosts(&mut client).await.remove("a").filter(|a| a.problem.as_ref().is_some_and(|p| p.contains("refused")))
    })
    .await;
    assert_eq!((a.address.as_str(), a.state()), ("127.0.0.1:1", ConnectionState::NeverSeen));
    world.shutdown().await;
}

//! What both servers do beside their own service: health, reflection, and renewing what has grown old.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use std::time::Duration;

use gpufleet_proto::v1::ConnectionState;
use gpufleet_tests::scenario::Device;
use gpufleet_tests::{Driver, Fleet, Role, SCENARIO_VARIABLE, Sandbox, fake_nvml_library, never_within};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

#[tokio::test(flavor = "multi_thread")]
async fn servers_tell_their_health_and_their_services() {
    let fleet = Fleet::start(vec![("host1", vec![Device::h200(0)])]);
    let agent = fleet.dial_agent_as(Role::Service, "prober", "host1").await;
    let aggregator = fleet.dial_aggregator_as(Role::Service, "prober").await;
    for (channel, service) in [(agent, "gpufleet.v1.AgentService"), (aggregator, "gpufleet.v1.FleetService")] {
        for name in ["", service] {
            let request = HealthCheckRequest { service: name.to_owned() };
            let answer = HealthClient::new(channel.clone()).check(request).await.expect("health");
            assert_eq!(answer.into_inner().status(), ServingStatus::Serving, "`{name}`");
        }
        let message_request = Some(MessageRequest::ListServices(String::new()));
        let request = ServerReflectionRequest { host: String::new(), message_request };
        let mut client = ServerReflectionClient::new(channel);
        let answers = client.server_reflection_info(tokio_stream::once(request)).await.expect("reflection");
        let answer = answers.into_inner().message().await.expect("an answer").expect("an answer");
        let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else { panic!("{answer:?}") };
        assert!(list.service.iter().any(|listed| listed.name == service), "{list:?}");
    }
}

#[test]
fn streams_that_reach_their_age_are_renewed_and_nobody_notices() {
    let sandbox = Sandbox::new();
    let driver = Driver::new(sandbox.folder(), "host1", vec![Device::h200(0)]);
    let agent = sandbox
        .agent_with_library("host1", &fake_nvml_library())
        .env(SCENARIO_VARIABLE, driver.path())
        // An aggregator takes an end within the first five seconds for a fault.
        .env("GPUFLEET_AGENT_SERVING__WATCH_AGE", "5500ms");
    let fleet = Fleet::of_one(sandbox, "host1", driver, agent);
    never_within(Duration::from_secs(7), "the host stays connected", || {
        fleet.hosts().unwrap()[0].state() == ConnectionState::Connected
    });
    fleet.agents[0].driver.update(|scenario| scenario.devices[0].temperature = Some(67));
    fleet.until_device("host1", 0, "it is followed", |device| device.readings.temperature_celsius == Ok(67));
}

//! Who may call what, and what is not served yet.

use gpufleet_proto::status::Reason;
use gpufleet_proto::v1;
use gpufleet_transport::Role;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::world::{HOST, World, in_time};

#[tokio::test(flavor = "multi_thread")]
async fn viewers_see_and_only_an_aggregator_signals() {
    let world = World::simulated(1).await;
    for role in [Role::User, Role::Service, Role::Aggregator] {
        let mut client = world.client(role, "one").await;
        let answer = client.get_host(v1::GetHostRequest {}).await.unwrap().into_inner();
        let host = answer.host.unwrap();
        assert_eq!((host.name.as_str(), host.simulated), (HOST, true));
        assert!(answer.sampled_at.is_some() && !host.boot_id.is_empty());

        // The request is not valid either: whoever may call learns that, others only that they may not.
        let refused = client.signal_process(v1::SignalProcessRequest::default()).await.unwrap_err();
        let expected = if role == Role::Aggregator { Code::InvalidArgument } else { Code::PermissionDenied };
        assert_eq!(refused.code(), expected, "{role}");
    }
    let mut agent = world.client(Role::Agent, "node2").await;
    let refused = agent.get_host(v1::GetHostRequest {}).await.unwrap_err();
    assert_eq!((refused.code(), Reason::of(&refused)), (Code::PermissionDenied, Some(Reason::AccessDenied)));
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_reflection_are_for_whoever_has_an_identity() {
    let world = World::simulated(1).await;
    for role in Role::ALL {
        let channel = world.channel(role, "one").await;
        let request = HealthCheckRequest { service: "gpufleet.v1.AgentService".to_owned() };
        let health = HealthClient::new(channel.clone()).check(request).await.unwrap().into_inner();
        assert_eq!(health.status(), ServingStatus::Serving, "{role}");

        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let mut reflection = ServerReflectionClient::new(channel);
        let mut answers = reflection.server_reflection_info(tokio_stream::iter([request])).await.unwrap().into_inner();
        let answer = in_time("the services", answers.message()).await.unwrap().unwrap().message_response.unwrap();
        let MessageResponse::ListServicesResponse(services) = answer else { panic!("{answer:?}") };
        assert!(services.service.iter().any(|service| service.name == "gpufleet.v1.AgentService"), "{role}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_told_for_every_device_and_refused_for_others() {
    let world = World::simulated(2).await;
    let mut client = world.user().await;
    let health = client.get_health(v1::GetHealthRequest::default()).await.unwrap().into_inner();
    let verdicts: Vec<_> = health.devices.iter().map(v1::DeviceHealth::verdict).collect();
    assert_eq!(verdicts, [v1::Verdict::Healthy, v1::Verdict::Healthy]);
    let nobody = || vec!["GPU-nobody".to_owned()];
    let refusals = [
        client.get_health(v1::GetHealthRequest { device_uuids: nobody() }).await.unwrap_err(),
        client.watch_health(v1::WatchHealthRequest { device_uuids: nobody() }).await.unwrap_err(),
    ];
    for status in refusals {
        assert_eq!((status.code(), Reason::of(&status)), (Code::NotFound, Some(Reason::UnknownDevice)));
    }
}

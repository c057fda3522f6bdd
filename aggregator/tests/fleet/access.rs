//! Who may call, and what is not offered.

use gpufleet_proto::status::Reason;
use gpufleet_proto::v1;
use gpufleet_transport::Role;
use tonic::Code;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::world::World;

#[tokio::test]
async fn every_role_but_the_agents_may_look() {
    let world = World::start(vec![]).await;
    for role in [Role::User, Role::Service, Role::Aggregator] {
        let mut client = world.client(role, "somebody").await;
        assert!(client.list_hosts(v1::ListHostsRequest::default()).await.is_ok(), "{role}");
    }
    let mut agent = world.client(Role::Agent, "node1").await;
    let refused = agent.list_hosts(v1::ListHostsRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let refused = agent.watch_devices(v1::FleetServiceWatchDevicesRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    world.shutdown().await;
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_and_the_next_served() {
    let world = World::start(vec![]).await;
    let mut user = world.user().await;
    let users = (0..200_000).map(|number| format!("a user with quite a long name, number {number}")).collect();
    let filter = Some(v1::FleetFilter { users, ..Default::default() });
    let refused = user.list_hosts(v1::ListHostsRequest { filter, ..Default::default() }).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");
    assert!(user.list_hosts(v1::ListHostsRequest::default()).await.is_ok());
    world.shutdown().await;
}

#[tokio::test]
async fn health_and_schema_are_served() {
    let world = World::start(vec![]).await;
    let channel = world.channel(Role::User, "alice").await;
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
    let request = tonic_health::pb::HealthCheckRequest { service: "gpufleet.v1.FleetService".into() };
    let answer = health.check(request).await.unwrap().into_inner();
    assert_eq!(answer.status(), tonic_health::pb::health_check_response::ServingStatus::Serving);
    let mut reflection = ServerReflectionClient::new(channel);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = reflection.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = answer else { panic!("{answer:?}") };
    assert!(list.service.iter().any(|service| service.name == "gpufleet.v1.FleetService"));
    world.shutdown().await;
}

#[tokio::test]
async fn what_is_not_offered_says_so() {
    let world = World::start(vec![]).await;
    let mut user = world.user().await;
    let refusals = [
        user.watch_health(v1::FleetServiceWatchHealthRequest::default()).await.unwrap_err(),
        user.watch_events(v1::FleetServiceWatchEventsRequest::default()).await.unwrap_err(),
        user.select_devices(v1::SelectDevicesRequest::default()).await.unwrap_err(),
        user.list_audit_events(v1::ListAuditEventsRequest::default()).await.unwrap_err(),
        user.get_usage(v1::GetUsageRequest::default()).await.unwrap_err(),
    ];
    for refused in refusals {
        assert_eq!((refused.code(), Reason::of(&refused)), (Code::Unimplemented, Some(Reason::NotImplemented)));
    }
    let filter = v1::FleetFilter { expression: "true".into(), ..Default::default() };
    let refused =
        user.list_hosts(v1::ListHostsRequest { filter: Some(filter), ..Default::default() }).await.unwrap_err();
    assert_eq!((refused.code(), Reason::of(&refused)), (Code::Unimplemented, Some(Reason::NotImplemented)));
    let refused =
        user.list_hosts(v1::ListHostsRequest { page_token: "?".into(), ..Default::default() }).await.unwrap_err();
    assert_eq!(Reason::of(&refused), Some(Reason::InvalidPageToken));
    let endless = Some(prost_types::Duration { seconds: i64::MAX, nanos: 0 });
    let request = v1::WatchFleetRequest { filter: None, min_interval: endless };
    let mut stream = user.watch_fleet(request).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    let negative = Some(prost_types::Duration { seconds: -1, nanos: 0 });
    let request = v1::WatchFleetRequest { filter: None, min_interval: negative };
    assert_eq!(user.watch_fleet(request).await.unwrap_err().code(), Code::InvalidArgument);
    world.shutdown().await;
}

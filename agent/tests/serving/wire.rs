//! What a quiet host costs on the wire.

use gpufleet_proto::v1;
use gpufleet_transport::{DialOptions, Role};
use prost::Message as _;

use crate::proxy::Proxy;
use crate::world::{Client, Reader, World};

/// The budget: bytes a second at one sample a second, framing and encryption included.
const BUDGET: usize = 100;
/// Host readings travel this often, in samples at one a second.
const HOST_EVERY: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_host_stays_within_its_budget() {
    const SAMPLES: usize = 200;
    let world = World::simulated(0).await;
    let proxy = Proxy::to(world.address).await;
    let channel = world.channel_with(Role::Aggregator, "main", proxy.address, DialOptions::default()).await;
    let mut reader = Reader::open(&mut Client::new(channel)).await;
    reader.synced().await;
    reader.next().await.unwrap();
    let before = proxy.bytes();
    for _ in 0..SAMPLES {
        reader.next().await.unwrap();
    }
    let heartbeat = (proxy.bytes() - before).div_ceil(SAMPLES);

    let real = World::real().await;
    let host = real.user().await.get_host(v1::GetHostRequest {}).await.unwrap().into_inner().host.unwrap();
    let readings = host.encoded_len().div_ceil(HOST_EVERY);
    assert!(heartbeat + readings <= BUDGET, "{heartbeat} + {readings} bytes a sample");
}

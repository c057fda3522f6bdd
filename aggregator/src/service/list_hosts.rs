//! `ListHosts`: one page of the hosts, by name.
//!
//! A page token is the last name of the page before, so that pages stay right while hosts come and go between them.

use std::fmt::Write as _;

use gpufleet_proto::status::Reason;
use gpufleet_proto::v1;
use prost::Message as _;
use tokio::time::Instant;
use tonic::Status;

use crate::query::{Filter, connection};
use crate::state::Fleet;
use crate::turns::Turns;

/// The most bytes of hosts in a page: what a gRPC client takes by default, less the rest of the message.
const PAGE_BYTES: usize = (4 << 20) - (64 << 10);

/// Version of the token's form.
const TOKEN_PREFIX: &str = "h1";

pub(super) async fn page(
    fleet: &Fleet,
    filter: &Filter,
    page_size: u32,
    token: &str,
) -> Result<v1::ListHostsResponse, Status> {
    let after = decode(token)?;
    let now = Instant::now();
    let cells = filter.hosts(&fleet.table());
    let start = after.map_or(0, |name| cells.partition_point(|cell| **cell.name() <= *name));
    let most = if page_size == 0 { usize::MAX } else { usize::try_from(page_size).unwrap_or(usize::MAX) };
    let mut hosts: Vec<v1::HostConnection> = Vec::new();
    let mut bytes = 0;
    let mut turns = Turns::default();
    for cell in cells.iter().skip(start) {
        turns.take().await;
        if !filter.selects_host(cell.record().sample.as_ref().map(|sample| &*sample.snapshot)) {
            continue;
        }
        let host = connection(cell, fleet.freshness(), now);
        bytes += host.encoded_len() + 8;
        if hosts.len() >= most || (bytes > PAGE_BYTES && !hosts.is_empty()) {
            let last = hosts.last().map(|host| encode(&host.name)).unwrap_or_default();
            return Ok(v1::ListHostsResponse { hosts, next_page_token: last });
        }
        hosts.push(host);
    }
    Ok(v1::ListHostsResponse { hosts, next_page_token: String::new() })
}

fn encode(name: &str) -> String {
    name.bytes().fold(TOKEN_PREFIX.to_string(), |mut token, byte| {
        // Writing to a string cannot fail.
        let _ = write!(token, "{byte:02x}");
        token
    })
}

fn decode(token: &str) -> Result<Option<String>, Status> {
    if token.is_empty() {
        return Ok(None);
    }
    let invalid = || {
        let message = "page_token is not one that this service gave; start again without it";
        Reason::InvalidPageToken.status(message, [("field", "page_token".to_owned())])
    };
    let digits =
        token.strip_prefix(TOKEN_PREFIX).filter(|digits| digits.len().is_multiple_of(2)).ok_or_else(invalid)?;
    let bytes = digits.as_bytes().chunks(2).map(|pair| {
        std::str::from_utf8(pair)
            .ok()
            .filter(|pair| !pair.starts_with('+'))
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).map(Some).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_and_others_are_refused() {
        assert_eq!(decode("").unwrap(), None);
        assert_eq!(decode(&encode("node-1.example")).unwrap().as_deref(), Some("node-1.example"));
        for token in ["x", "h1a", "h1zz", "h1+1", "h1ff", "6e"] {
            assert!(decode(token).is_err(), "{token}");
        }
    }
}

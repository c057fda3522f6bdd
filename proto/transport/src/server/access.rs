//! Which role may call which method. What is not listed is denied to everyone.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{Either, Ready, ready};
use http::{Request, Response};
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use tower::{Layer, Service};

use super::Peer;
use crate::identity::Role;

/// Methods that every authenticated peer may call.
const EVERYONE: [&str; 4] = [
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Roles by full method name, such as `/gpufleet.v1.AgentService/GetHost`.
#[derive(Debug, Clone)]
pub struct AccessTable {
    roles: Arc<HashMap<&'static str, &'static [Role]>>,
}

impl AccessTable {
    /// A table of these methods, and gRPC health and reflection for every authenticated peer.
    pub fn new(methods: &[(&'static str, &'static [Role])]) -> Self {
        let everyone = EVERYONE.iter().map(|method| (*method, &Role::ALL as &[Role]));
        Self { roles: Arc::new(methods.iter().copied().chain(everyone).collect()) }
    }

    /// Whether a role may call a method.
    pub fn allows(&self, method: &str, role: Role) -> bool {
        self.roles.get(method).is_some_and(|roles| roles.contains(&role))
    }

    fn check<B>(&self, request: &Request<B>) -> Result<(), Status> {
        let Some(peer) = request.extensions().get::<Peer>() else {
            return Err(refusal(Code::Unauthenticated, "UNAUTHENTICATED", "no client certificate".to_owned()));
        };
        let method = request.uri().path();
        if self.allows(method, peer.identity.role) {
            return Ok(());
        }
        tracing::warn!(identity = %peer.identity, address = %peer.address, method, "call denied");
        let role = peer.identity.role;
        let message = format!("a certificate of role `{role}` may not call `{method}`");
        Err(refusal(Code::PermissionDenied, "ACCESS_DENIED", message))
    }
}

/// A status with the details that every error of ours carries. The reasons are those of the contract.
fn refusal(code: Code, reason: &'static str, message: String) -> Status {
    let details = ErrorDetails::with_error_info(reason, "gpufleet", HashMap::new());
    Status::with_error_details(code, message, details)
}

#[derive(Debug, Clone)]
pub(super) struct AccessLayer {
    table: AccessTable,
}

impl AccessLayer {
    pub(super) const fn new(table: AccessTable) -> Self {
        Self { table }
    }
}

impl<S> Layer<S> for AccessLayer {
    type Service = Access<S>;

    fn layer(&self, inner: S) -> Access<S> {
        Access { inner, table: self.table.clone() }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Access<S> {
    inner: S,
    table: AccessTable,
}

impl<S, B> Service<Request<B>> for Access<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.table.check(&request) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(status) => Either::Right(ready(Ok(status.into_http()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_is_denied_to_every_role() {
        let table = AccessTable::new(&[("/a.B/Read", &[Role::User, Role::Service])]);
        assert!(table.allows("/a.B/Read", Role::User));
        assert!(!table.allows("/a.B/Read", Role::Agent));
        for role in Role::ALL {
            assert!(!table.allows("/a.B/Write", role));
            assert!(!table.allows("", role));
            assert!(table.allows("/grpc.health.v1.Health/Check", role));
        }
    }
}

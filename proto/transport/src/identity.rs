//! Who a peer is: `spiffe://DOMAIN/gpufleet/ROLE/NAME`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The agent of one host; its name is the host's.
    Agent,
    /// An aggregator.
    Aggregator,
    /// A person.
    User,
    /// A program, such as a scheduler.
    Service,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Agent, Self::Aggregator, Self::User, Self::Service];

    /// The name in identities and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Aggregator => "aggregator",
            Self::User => "user",
            Self::Service => "service",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = ParseIdentityError;

    fn from_str(text: &str) -> Result<Self, ParseIdentityError> {
        let role = Self::ALL.into_iter().find(|role| role.as_str() == text);
        role.ok_or_else(|| ParseIdentityError::Role(text.to_owned()))
    }
}

/// The identity in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIdentity {
    /// The trust domain: peers of another are strangers.
    pub trust_domain: String,
    /// What it is for.
    pub role: Role,
    /// Its name within domain and role.
    pub name: String,
}

impl PeerIdentity {
    /// An identity of checked parts.
    ///
    /// # Errors
    /// When the domain or the name is not allowed.
    pub fn new(trust_domain: &str, role: Role, name: &str) -> Result<Self, ParseIdentityError> {
        if !is_dns_like(trust_domain) || trust_domain.bytes().any(|byte| byte.is_ascii_uppercase() || byte == b'_') {
            return Err(ParseIdentityError::TrustDomain(trust_domain.to_owned()));
        }
        if !is_dns_like(name) {
            return Err(ParseIdentityError::Name(name.to_owned()));
        }
        Ok(Self { trust_domain: trust_domain.to_owned(), role, name: name.to_owned() })
    }
}

impl fmt::Display for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spiffe://{}/gpufleet/{}/{}", self.trust_domain, self.role, self.name)
    }
}

impl FromStr for PeerIdentity {
    type Err = ParseIdentityError;

    fn from_str(text: &str) -> Result<Self, ParseIdentityError> {
        let form = || ParseIdentityError::Form(text.to_owned());
        let rest = text.strip_prefix("spiffe://").ok_or_else(form)?;
        let parts: Vec<&str> = rest.split('/').collect();
        let [domain, "gpufleet", role, name] = parts.as_slice() else { return Err(form()) };
        Self::new(domain, role.parse()?, name)
    }
}

/// Labels of letters, digits, `-` and `_`, joined by dots: 1–63 characters each, 253 in all.
fn is_dns_like(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// A text that is not an identity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseIdentityError {
    /// Not of the form at all.
    #[error("`{0}` is not of the form `spiffe://DOMAIN/gpufleet/ROLE/NAME`")]
    Form(String),
    /// No such role.
    #[error("`{0}` is not a role; roles are agent, aggregator, user and service")]
    Role(String),
    /// Not a trust domain.
    #[error("`{0}` is not a trust domain; use lower-case letters, digits, `-` and dots, such as `gpu.example.org`")]
    TrustDomain(String),
    /// Not a name.
    #[error("`{0}` is not a name; use letters, digits, `-`, `_` and dots, at most 63 characters between dots")]
    Name(String),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_an_identity_is_refused_with_its_reason() {
        let cases = [
            ("https://gpu.test/gpufleet/agent/host1", "not of the form"),
            ("spiffe://gpu.test/other/agent/host1", "not of the form"),
            ("spiffe://gpu.test/gpufleet/agent/host1/extra", "not of the form"),
            ("spiffe://gpu.test/gpufleet/root/host1", "not a role"),
            ("spiffe://GPU.test/gpufleet/agent/host1", "not a trust domain"),
            ("spiffe:///gpufleet/agent/host1", "not a trust domain"),
            ("spiffe://gpu.test/gpufleet/agent/", "not a name"),
            ("spiffe://gpu.test/gpufleet/agent/a b", "not a name"),
            ("spiffe://gpu.test/gpufleet/agent/..", "not a name"),
        ];
        for (text, expected) in cases {
            let error = text.parse::<PeerIdentity>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn print_then_parse_is_the_same(
            domain in "[a-z0-9]{1,20}(\\.[a-z0-9]{1,20}){0,3}",
            role in prop::sample::select(Role::ALL.to_vec()),
            name in "[A-Za-z0-9_]{1,20}(\\.[A-Za-z0-9_]{1,20}){0,2}",
        ) {
            let identity = PeerIdentity::new(&domain, role, &name).unwrap();
            prop_assert_eq!(identity.to_string().parse(), Ok(identity));
        }

        #[test]
        fn any_text_is_survived(text in ".{0,100}") {
            let _ = text.parse::<PeerIdentity>();
        }
    }
}

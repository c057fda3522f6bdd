//! Who may signal what: operators any process, a user their own, nobody else anything.

use std::collections::HashSet;

use gpufleet_transport::identity::{PeerIdentity, Role};
use thiserror::Error;

/// Those who may signal any process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Operators {
    users: HashSet<String>,
    services: HashSet<String>,
}

/// An operator that cannot be one.
#[derive(Debug, Error)]
#[error("operator `{0}` is not NAME, user/NAME or service/NAME")]
pub struct InvalidOperator(String);

/// The rule that lets a caller act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The caller is an operator.
    Operator,
    /// The process is the caller's own.
    OwnProcess,
}

impl Rule {
    /// The name used in logs.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::OwnProcess => "own-process",
        }
    }
}

/// Whether a caller may.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Allow(Rule),
    Deny(String),
}

impl Operators {
    /// Reads `NAME` or `user/NAME` for a user and `service/NAME` for a service.
    pub(crate) fn parse<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Result<Self, InvalidOperator> {
        let mut operators = Self::default();
        for text in names {
            let text = text.as_ref();
            let (set, name) = match text.split_once('/') {
                None => (&mut operators.users, text),
                Some(("user", name)) => (&mut operators.users, name),
                Some(("service", name)) => (&mut operators.services, name),
                Some(_) => return Err(InvalidOperator(text.into())),
            };
            if name.is_empty() || name.contains('/') {
                return Err(InvalidOperator(text.into()));
            }
            set.insert(name.to_string());
        }
        Ok(operators)
    }

    /// The rule that lets the caller signal any process.
    pub(crate) fn decide_any(&self, caller: &PeerIdentity) -> Option<Rule> {
        let named = match caller.role {
            Role::User => self.users.contains(&caller.name),
            Role::Service => self.services.contains(&caller.name),
            _ => false,
        };
        named.then_some(Rule::Operator)
    }

    /// Decides for a process of `user`, `None` when that is not known.
    pub(crate) fn decide(&self, caller: &PeerIdentity, user: Option<&str>) -> Decision {
        if let Some(rule) = self.decide_any(caller) {
            return Decision::Allow(rule);
        }
        let deny = |why: String| Decision::Deny(format!("{why}; nothing was signalled"));
        if caller.role != Role::User {
            return deny(format!("`{}/{}` is not an operator", caller.role, caller.name));
        }
        match user {
            None => deny("whose process it is cannot be told, and you are not an operator".into()),
            // An agent gives a user without a name as a number: no certificate's name may be taken for one.
            Some(user) if user == caller.name && !is_number(user) => Decision::Allow(Rule::OwnProcess),
            Some(user) => {
                deny(format!("the process belongs to `{user}`, you are `{}` and not an operator", caller.name))
            }
        }
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(role: &str, name: &str) -> PeerIdentity {
        format!("spiffe://test/gpufleet/{role}/{name}").parse().unwrap()
    }

    #[test]
    fn the_table_of_who_may_signal_what() {
        let operators = Operators::parse(["root-admin", "user/bob", "service/scheduler"]).unwrap();
        let allowed = |role: &str, name: &str, user: Option<&str>| match operators.decide(&caller(role, name), user) {
            Decision::Allow(rule) => rule.as_str(),
            Decision::Deny(_) => "denied",
        };
        for (role, name, user, expected) in [
            ("user", "alice", Some("alice"), "own-process"),
            ("user", "alice", Some("bob"), "denied"),
            ("user", "alice", Some("root"), "denied"),
            ("user", "alice", None, "denied"),
            ("user", "1000", Some("1000"), "denied"),
            ("user", "root-admin", Some("alice"), "operator"),
            ("user", "bob", Some("alice"), "operator"),
            ("user", "bob", None, "operator"),
            ("user", "scheduler", Some("alice"), "denied"),
            ("service", "scheduler", Some("alice"), "operator"),
            ("service", "bob", Some("alice"), "denied"),
            ("service", "alice", Some("alice"), "denied"),
            ("agent", "bob", Some("bob"), "denied"),
            ("aggregator", "bob", Some("bob"), "denied"),
        ] {
            assert_eq!(allowed(role, name, user), expected, "{role}/{name} on a process of {user:?}");
        }
    }

    #[test]
    fn wrong_operators_are_refused() {
        for text in ["", "user/", "agent/x", "service/a/b"] {
            assert!(Operators::parse([text]).is_err(), "{text}");
        }
    }
}

//! Signals by name.

/// Names without `SIG`, as Linux numbers them on the machines GPUs are in.
pub(crate) const NAMES: &[(&str, u32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
];

/// Reads a name, with or without `SIG` and in either case, or a number from 1 to 64.
pub(crate) fn parse(text: &str) -> Option<u32> {
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = NAMES.iter().find(|(name, _)| *name == bare).map(|(_, number)| *number);
    let plain = || text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    named.or_else(plain).filter(|number| (1..=64).contains(number))
}

/// The name of a signal, `SIG` in front; the number where it has none.
pub(crate) fn name(number: u32) -> String {
    let named = NAMES.iter().find(|(_, known)| *known == number);
    named.map_or_else(|| format!("signal {number}"), |(name, _)| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_by_name_and_number() {
        for text in ["TERM", "term", "SIGTERM", "sigterm", "15"] {
            assert_eq!(parse(text), Some(15), "{text}");
        }
        for wrong in ["", "0", "65", "-9", "+9", "NOPE", "SIG"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!((name(9), name(40)), ("SIGKILL".to_owned(), "signal 40".to_owned()));
    }
}

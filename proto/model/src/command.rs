//! Command lines: splitting what the kernel gives, joining for a shell, showing on a screen.
//!
//! Arguments are bytes that another user chose. [`join`] gives text that a shell reads back as the same arguments;
//! [`display`] gives text for a screen in which nothing can drive the terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::process::{Process, ProcessState, Visibility};

/// Words that a shell reads as its own at the beginning of a command.
const RESERVED: &[&str] = &[
    "!", "{", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "time", "until", "while", "[[", "]]", "coproc",
];

/// Splits the text of `/proc/PID/cmdline`: arguments end with NUL. Programs that overwrite their arguments with a title
/// leave padding behind it, so empty arguments after a single one are dropped, unless they are few and it is one word,
/// as in `cat ""`. After several arguments they are kept: nothing pads there, and they may be meant.
pub fn split(raw: &[u8]) -> Vec<Vec<u8>> {
    if raw.is_empty() {
        return Vec::new();
    }
    let ended = raw.strip_suffix(b"\0").unwrap_or(raw);
    let mut arguments: Vec<Vec<u8>> = ended.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    let trailing = arguments.iter().rev().take_while(|argument| argument.is_empty()).count();
    let rest = arguments.len() - trailing;
    let is_title = rest <= 1 && (trailing > 2 || arguments.first().is_some_and(|first| first.contains(&b' ')));
    if is_title {
        arguments.truncate(rest.max(1));
    }
    arguments
}

/// Joins arguments into one line that `sh` splits into the same arguments. Control characters stay as they are, inside
/// quotes: the result is for a shell, not for a screen.
pub fn join<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut line = Vec::new();
    for (place, argument) in arguments.iter().enumerate() {
        if place > 0 {
            line.push(b' ');
        }
        quote(argument.as_ref(), place == 0, &mut line);
    }
    line
}

fn quote(argument: &[u8], first: bool, line: &mut Vec<u8>) {
    if argument.is_empty() {
        return line.extend_from_slice(b"\"\"");
    }
    let text = std::str::from_utf8(argument).ok();
    if text.is_some_and(|text| is_bare(text, first)) {
        return line.extend_from_slice(argument);
    }
    let has = |wanted: &[u8]| argument.iter().any(|byte| wanted.contains(byte));
    let control = text.is_none_or(|text| text.chars().any(char::is_control));
    if !control && !has(b"\"$`\\!") {
        line.push(b'"');
        line.extend_from_slice(argument);
        line.push(b'"');
    } else if !has(b"'") {
        line.push(b'\'');
        line.extend_from_slice(argument);
        line.push(b'\'');
    } else if !has(b"!") {
        line.push(b'"');
        for byte in argument {
            if b"\\\"$`".contains(byte) {
                line.push(b'\\');
            }
            line.push(*byte);
        }
        line.push(b'"');
    } else {
        for (piece, part) in argument.split(|byte| *byte == b'\'').enumerate() {
            if piece > 0 {
                line.extend_from_slice(b"\\'");
            }
            if !part.is_empty() {
                line.push(b'\'');
                line.extend_from_slice(part);
                line.push(b'\'');
            }
        }
    }
}

fn is_bare(text: &str, first: bool) -> bool {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => true,
        _ if c.is_ascii() => "_@%+=:,./-".contains(c),
        _ => c.is_alphanumeric(),
    };
    text.chars().all(plain) && !(first && (text.contains('=') || RESERVED.contains(&text)))
}

/// The command of a process for a screen: one line, nothing that moves the cursor, `[…]` where there is none.
pub fn display(process: &Process) -> String {
    let info = &process.info;
    match info.visibility {
        Visibility::Exited => return "[No Such Process]".to_owned(),
        Visibility::NotVisible => return "[Not Visible]".to_owned(),
        Visibility::AccessDenied => return "[No Permissions]".to_owned(),
        Visibility::Visible => {}
    }
    if process.state == ProcessState::Zombie {
        return "[Zombie Process]".to_owned();
    }
    match info.arguments.as_slice() {
        [] => format!("[{}]", escape(info.name.as_bytes())),
        // A program that blanked its title still has a name.
        [title] if title.is_empty() => format!("[{}]", escape(info.name.as_bytes())),
        // One argument is often a title that the program wrote for people.
        [title] => escape(title),
        arguments => escape(&join(arguments)),
    }
}

/// Text from outside with everything visible: control and formatting characters, bidirectional ones too, and bytes that
/// are no UTF-8 are written as escapes.
pub fn escape(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_hidden(c) {
                shown.extend(c.escape_default());
            } else {
                shown.push(c);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

/// [`escape`] for text; borrows when there is nothing to escape.
pub fn escape_text(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_hidden) { Cow::Owned(escape(text.as_bytes())) } else { Cow::Borrowed(text) }
}

/// Characters that show nothing of themselves but change how others show: categories Cc and Cf, and line separators.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
            | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
}

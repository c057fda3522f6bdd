//! Sizes, lengths of time and command lines: every case of the tables, and what must hold for all others.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use gpufleet_model::command::{display, escape, join, split};
use gpufleet_model::human::{ParseBytesError, bytes, duration, parse_bytes, uptime};
use gpufleet_model::{Process, ProcessIdentity, ProcessInfo, ProcessReadings, ProcessState, Unknown, Visibility};
use proptest::prelude::*;
use serde_json::Value;

fn cases(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn every_size_and_length_of_the_table() {
    let table = cases(include_str!("cases/human.json"));
    for case in table["bytes"].as_array().unwrap() {
        let size = case["bytes"].as_u64().unwrap();
        assert_eq!(bytes(size), case["text"].as_str().unwrap(), "{size}");
    }
    for case in table["durations"].as_array().unwrap() {
        let seconds = case["seconds"].as_f64().unwrap();
        assert_eq!(duration(Duration::from_secs_f64(seconds)), case["text"].as_str().unwrap(), "{seconds}");
    }
    assert_eq!(duration(Duration::from_mins(143_928)), "99.9 days");
    for (seconds, text) in [(59, "0:59"), (86_399, "23:59:59"), (86_400, "1.0 days"), (345_599, "3.9 days")] {
        assert_eq!(uptime(Duration::from_secs(seconds)), text, "{seconds}");
    }
}

#[test]
fn sizes_are_read_and_ambiguous_ones_refused() {
    for (text, expected) in [
        ("0", 0),
        ("200", 200),
        ("10KiB", 10_240),
        ("10ki", 10_240),
        ("10KB", 10_000),
        ("1.5 GiB", 1_610_612_736),
        (" 4 GB ", 4_000_000_000),
        ("5gib", 5_368_709_120),
        ("1PiB", 1 << 50),
    ] {
        assert_eq!(parse_bytes(text), Ok(expected), "{text}");
    }
    assert!(matches!(parse_bytes("10k"), Err(ParseBytesError::Ambiguous { .. })));
    assert_eq!(parse_bytes("40G").unwrap_err().to_string(), "`40G` is ambiguous; write `40GiB` or `40GB`");
    for wrong in ["", "-5", "GiB", "1,5GiB", "1_000", "1.GiB", ".5GiB", "1e3", "NaN", "٣", "5 g i b", "1EiB", "1.2.3"]
    {
        assert!(parse_bytes(wrong).is_err(), "{wrong}");
    }
    assert!(matches!(parse_bytes("99999999PiB"), Err(ParseBytesError::TooLarge(_))));
}

fn arguments(case: &Value) -> Vec<String> {
    case["argv"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap().to_owned()).collect()
}

fn unhex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn every_command_line_of_the_table() {
    let table = cases(include_str!("cases/command_join.json"));
    for case in table["text"].as_array().unwrap() {
        let joined = String::from_utf8(join(&arguments(case))).unwrap();
        assert_eq!(joined, case["joined"].as_str().unwrap(), "{case}");
    }
    for case in table["bytes"].as_array().unwrap() {
        let argv: Vec<Vec<u8>> = case["argv_hex"].as_array().unwrap().iter().map(unhex).collect();
        assert_eq!(join(&argv), unhex(&case["joined_hex"]), "{case}");
    }
}

/// What `sh` makes of a joined line.
fn read_by_sh(line: &[u8]) -> Vec<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt as _;
    // A function of the same name as argv[0] would be called; `set --` only splits.
    let mut script = b"set -- ".to_vec();
    script.extend_from_slice(line);
    script.extend_from_slice(b"\nfor a do printf '%s\\0' \"$a\"; done");
    let script = std::ffi::OsString::from_vec(script);
    let output = Command::new("sh").arg("-c").arg(script).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = output.stdout.strip_suffix(b"\0").unwrap_or(&output.stdout);
    text.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

#[test]
fn sh_reads_every_case_of_the_table_back() {
    let table = cases(include_str!("cases/command_join.json"));
    for case in table["text"].as_array().unwrap() {
        let argv = arguments(case);
        if !argv.is_empty() {
            let expected: Vec<Vec<u8>> = argv.iter().map(|argument| argument.clone().into_bytes()).collect();
            assert_eq!(read_by_sh(&join(&argv)), expected, "{case}");
        }
    }
    for case in table["bytes"].as_array().unwrap() {
        let argv: Vec<Vec<u8>> = case["argv_hex"].as_array().unwrap().iter().map(unhex).collect();
        assert_eq!(read_by_sh(&join(&argv)), argv, "{case}");
    }
}

#[test]
fn padding_of_titles_is_dropped_and_empty_arguments_are_kept() {
    let owned = |parts: &[&str]| parts.iter().map(|part| part.as_bytes().to_vec()).collect::<Vec<_>>();
    assert_eq!(split(b""), Vec::<Vec<u8>>::new());
    assert_eq!(split(b"python\0train.py\0"), owned(&["python", "train.py"]));
    assert_eq!(split(b"py\0-c\0x\0\0\0"), owned(&["py", "-c", "x", "", ""]));
    assert_eq!(split(b"py\0-c\0x\0\0\0\0\0"), owned(&["py", "-c", "x", "", "", "", ""]));
    assert_eq!(split(b"cat\0\0"), owned(&["cat", ""]));
    assert_eq!(split(b"nginx: worker process\0\0\0\0\0\0"), owned(&["nginx: worker process"]));
    assert_eq!(split(b"nginx: worker process\0\0"), owned(&["nginx: worker process"]));
    assert_eq!(split(b"pt_data_worker\0\0\0\0\0\0"), owned(&["pt_data_worker"]));
    assert_eq!(split(b"\0\0\0\0\0\0"), owned(&[""]));
    assert_eq!(split(b"\0"), owned(&[""]));
    assert_eq!(split(b"no end"), owned(&["no end"]));
}

#[test]
fn nothing_hidden_reaches_a_screen() {
    assert_eq!(escape("a\u{1b}[2J\u{7}b".as_bytes()), "a\\u{1b}[2J\\u{7}b");
    assert_eq!(escape("x\u{202e}y\u{200b}z".as_bytes()), "x\\u{202e}y\\u{200b}z");
    assert_eq!(escape(b"\xff\xfeok\n"), "\\xff\\xfeok\\n");
    assert_eq!(escape("日本語 é".as_bytes()), "日本語 é");
}

fn process(arguments: &[&str]) -> (ProcessInfo, ProcessState) {
    let info = ProcessInfo {
        visibility: Visibility::Visible,
        parent_pid: None,
        user_id: None,
        user: None,
        name: "kworker/0:1".to_owned(),
        arguments: arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
        started_at: None,
        kernel_thread: false,
        cgroup: None,
        systemd_unit: None,
        container_id: None,
        pod_uid: None,
        slurm_job_id: None,
        slurm_step: None,
    };
    (info, ProcessState::Sleeping)
}

fn shown((info, state): (ProcessInfo, ProcessState)) -> String {
    display(&Process {
        identity: ProcessIdentity { pid: 7, start_ticks: 1 },
        info: Arc::new(info),
        state,
        readings: ProcessReadings::unknown(Unknown::NotYet),
        uses: Vec::new(),
    })
}

#[test]
fn a_screen_shows_a_command_or_why_there_is_none() {
    assert_eq!(shown(process(&["python", "a b.py"])), "python \"a b.py\"");
    assert_eq!(shown(process(&["nginx: worker process"])), "nginx: worker process");
    assert_eq!(shown(process(&["title\u{1b}[2J"])), "title\\u{1b}[2J");
    assert_eq!(shown(process(&["echo", "a\nb"])), "echo 'a\\nb'");
    assert_eq!(shown(process(&[])), "[kworker/0:1]");
    assert_eq!(shown(process(&[""])), "[kworker/0:1]");
    let (info, _) = process(&[]);
    assert_eq!(shown((info.clone(), ProcessState::Zombie)), "[Zombie Process]");
    for (visibility, text) in [
        (Visibility::Exited, "[No Such Process]"),
        (Visibility::AccessDenied, "[No Permissions]"),
        (Visibility::NotVisible, "[Not Visible]"),
    ] {
        assert_eq!(shown((ProcessInfo { visibility, ..info.clone() }, ProcessState::Unknown)), text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn sh_reads_any_command_line_back(argv in prop::collection::vec("[^\0]{0,12}", 1..5)) {
        let expected: Vec<Vec<u8>> = argv.iter().map(|argument| argument.clone().into_bytes()).collect();
        prop_assert_eq!(read_by_sh(&join(&argv)), expected);
    }

    #[test]
    fn sh_reads_any_bytes_back(argv in prop::collection::vec(prop::collection::vec(1u8.., 0..12), 1..5)) {
        prop_assert_eq!(read_by_sh(&join(&argv)), argv);
    }

    #[test]
    fn what_is_shown_has_no_control_characters(raw in prop::collection::vec(any::<u8>(), 0..64)) {
        prop_assert!(escape(&raw).chars().all(|c| !c.is_control()));
    }

    #[test]
    fn a_size_shown_reads_back_within_its_rounding(size: u64) {
        let back = parse_bytes(&bytes(size)).unwrap();
        prop_assert!(back.abs_diff(size) <= size / 100 + 1, "{} for {}", bytes(size), size);
    }
}

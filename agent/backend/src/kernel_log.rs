//! XIDs in the kernel log: `/dev/kmsg` → [`KernelXid`].
//!
//! The kernel keeps its newest messages in a ring, so the first read also gives what was logged before the agent
//! started. [`KernelLog::read_new`] never blocks and costs one system call when nothing was logged; whoever samples
//! calls it each tick. A message is text from outside: anything that is not an XID line is passed over.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Where the kernel's messages are read.
pub const KMSG: &str = "/dev/kmsg";
/// The longest record the kernel hands out.
const LONGEST_RECORD: usize = 8192;
/// Records read in one go: the rest waits for the next tick.
const MOST_RECORDS: usize = 4096;

/// One XID as the kernel logged it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelXid {
    /// The kernel's number of the message.
    pub sequence: u64,
    /// Time since boot.
    pub since_boot: Duration,
    /// PCI bus id as `DDDDDDDD:BB:DD.F`, upper case.
    pub pci_bus_id: String,
    /// The code.
    pub code: u32,
    /// The rest of the line.
    pub detail: String,
}

/// An open kernel log.
#[derive(Debug)]
pub struct KernelLog {
    path: PathBuf,
    file: Option<File>,
    /// The newest record seen, so that opening anew repeats nothing.
    newest: Option<u64>,
}

impl KernelLog {
    /// A log that is opened at the first read.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned(), file: None, newest: None }
    }

    /// The XIDs logged since the last call; at the first call, all that the kernel still has.
    ///
    /// # Errors
    /// When the log cannot be opened or read; the next call tries anew.
    pub fn read_new(&mut self) -> io::Result<Vec<KernelXid>> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => File::from(open(&self.path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?),
        };
        let mut found = Vec::new();
        let mut buffer = [0; LONGEST_RECORD];
        for _ in 0..MOST_RECORDS {
            match file.read(&mut buffer) {
                // Only an ordinary file ends; a device says that it would block.
                Ok(0) => break,
                Ok(length) => found.extend(buffer.get(..length).and_then(|record| self.accept(record))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The ring went round before it was read: go on with the oldest that is left.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::PIPE) => {}
                Err(error) => return Err(error),
            }
        }
        self.file = Some(file);
        Ok(found)
    }

    fn accept(&mut self, record: &[u8]) -> Option<KernelXid> {
        let (sequence, since_boot, message) = split_record(record)?;
        if self.newest.is_some_and(|newest| sequence <= newest) {
            return None;
        }
        self.newest = Some(sequence);
        let (pci_bus_id, code, detail) = parse_xid(message)?;
        Some(KernelXid { sequence, since_boot, pci_bus_id, code, detail })
    }
}

/// Splits `priority,sequence,microseconds,flags;message\n KEY=value…`.
fn split_record(record: &[u8]) -> Option<(u64, Duration, &str)> {
    let text = std::str::from_utf8(record).ok()?;
    let (prefix, rest) = text.split_once(';')?;
    let mut parts = prefix.split(',').skip(1);
    let sequence = parts.next()?.parse().ok()?;
    let micros = parts.next()?.parse().ok()?;
    let message = rest.split('\n').next()?;
    Some((sequence, Duration::from_micros(micros), message))
}

/// Reads `NVRM: Xid (PCI:0000:3b:00): 79, …`. Older drivers leave the domain out, some add the function.
pub fn parse_xid(message: &str) -> Option<(String, u32, String)> {
    let rest = message.trim_start().strip_prefix("NVRM: Xid (PCI:")?;
    let (address, rest) = rest.split_once(')')?;
    let rest = rest.strip_prefix(':')?.trim_start();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (code, detail) = rest.split_at_checked(digits)?;
    let detail = detail.strip_prefix(',').unwrap_or(detail).trim();
    Some((normal_bus_id(address)?, code.parse().ok()?, detail.to_owned()))
}

/// `DDDD:BB:DD`, `BB:DD` or either with `.F`, as `DDDDDDDD:BB:DD.F` in upper case.
fn normal_bus_id(address: &str) -> Option<String> {
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let (address, function) = address.split_once('.').unwrap_or((address, "0"));
    let parts: Vec<&str> = address.split(':').collect();
    let (domain, bus, slot) = match parts.as_slice() {
        [domain, bus, slot] => (hex(domain)?, hex(bus)?, hex(slot)?),
        [bus, slot] => (0, hex(bus)?, hex(slot)?),
        _ => return None,
    };
    if bus > 0xFF || slot > 0x1F {
        return None;
    }
    Some(format!("{domain:08X}:{bus:02X}:{slot:02X}.{:X}", hex(function).filter(|f| *f < 8)?))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_old_and_new_drivers_are_read() {
        let cases = [
            (
                "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
                ("00000000:3B:00.0", 79, "pid=1234, name=python, GPU has fallen off the bus."),
            ),
            ("NVRM: Xid (PCI:3b:00): 31, Ch 00000008", ("00000000:3B:00.0", 31, "Ch 00000008")),
            ("NVRM: Xid (PCI:0001:af:00.1): 63", ("00000001:AF:00.1", 63, "")),
            ("NVRM: Xid (PCI:00000010:1f:00): 94, Contained", ("00000010:1F:00.0", 94, "Contained")),
        ];
        for (line, (bus, code, detail)) in cases {
            assert_eq!(parse_xid(line), Some((bus.to_owned(), code, detail.to_owned())), "{line}");
        }
    }

    #[test]
    fn other_lines_are_passed_over() {
        for line in [
            "",
            "NVRM: GPU at PCI:0000:3b:00: GPU-1234",
            "nvidia-nvswitch: SXid (PCI:0000:c1:00.0): 20034, Fatal",
            "NVRM: Xid (PCI:zz:00): 79",
            "NVRM: Xid (PCI:0000:3b:00): seventy-nine",
            "NVRM: Xid (PCI:0000:3b:00): 99999999999999",
            "NVRM: Xid (PCI:0000:3b:00",
            "forged NVRM: Xid (PCI:0000:3b:00): 79",
        ] {
            assert_eq!(parse_xid(line), None, "{line}");
        }
    }

    #[test]
    fn records_are_read_once_and_other_records_are_passed_over() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let mut log = KernelLog::new(path.path());
        assert_eq!(log.read_new().unwrap(), []);
        // A file hands out everything at once, where the device hands out a record a read.
        let record = b"4,901,5000000,-;NVRM: Xid (PCI:0000:3b:00): 79, lost\n SUBSYSTEM=pci\n";
        std::fs::OpenOptions::new().append(true).open(path.path()).unwrap().write_all(record).unwrap();
        let found = log.read_new().unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].sequence, found[0].code, found[0].since_boot), (901, 79, Duration::from_secs(5)));
        let mut again = KernelLog { newest: Some(901), ..KernelLog::new(path.path()) };
        assert_eq!(again.read_new().unwrap(), []);
    }

    #[test]
    fn a_log_that_cannot_be_opened_is_an_error_each_time() {
        let mut log = KernelLog::new("/nonexistent/kmsg");
        assert_eq!(log.read_new().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(log.read_new().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = KernelLog::new("/dev/null").accept(&bytes);
        }

        #[test]
        fn any_tail_of_an_xid_line_is_survived(tail in ".{0,80}") {
            let _ = parse_xid(&format!("NVRM: Xid (PCI:{tail}"));
        }
    }
}

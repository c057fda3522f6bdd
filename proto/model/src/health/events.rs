//! The newest device events, each once although several sources report it.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use super::DeviceEvent;

/// Two reports of the same XID about the same device within this time are one event: NVML, DCGM and the kernel log
/// stamp it with clocks of their own.
const SAME_EVENT: Duration = Duration::from_secs(1);

/// The newest events of a host, bounded.
#[derive(Debug, Clone)]
pub struct EventLog {
    events: VecDeque<(u64, DeviceEvent)>,
    capacity: usize,
    next: u64,
}

impl EventLog {
    /// An empty log that keeps the newest `capacity` events.
    pub fn new(capacity: usize) -> Self {
        Self { events: VecDeque::new(), capacity, next: 1 }
    }

    /// Keeps an event unless another source has reported it already; says whether it was kept.
    pub fn push(&mut self, event: DeviceEvent) -> bool {
        if self.events.iter().rev().any(|(_, known)| same(known, &event)) {
            return false;
        }
        if self.events.len() >= self.capacity {
            self.events.pop_front();
        }
        self.events.push_back((self.next, event));
        self.next += 1;
        true
    }

    /// The events numbered above `number`, oldest first. Numbers start at 1 and grow by one.
    pub fn after(&self, number: u64) -> impl Iterator<Item = &(u64, DeviceEvent)> {
        self.events.iter().filter(move |(n, _)| *n > number)
    }

    /// The number of the newest event ever kept; 0 while there was none.
    pub const fn newest(&self) -> u64 {
        self.next - 1
    }

    /// The number to pass to [`EventLog::after`] so that the events since `time` follow.
    pub fn number_before(&self, time: SystemTime) -> u64 {
        self.events.iter().find(|(_, event)| event.occurred_at >= time).map_or(self.newest(), |(number, _)| number - 1)
    }
}

/// Whether two reports are of one event. Two of the same source are two: a source does not repeat itself.
fn same(a: &DeviceEvent, b: &DeviceEvent) -> bool {
    let apart = a
        .occurred_at
        .duration_since(b.occurred_at)
        .or_else(|_| b.occurred_at.duration_since(a.occurred_at))
        .unwrap_or(Duration::MAX);
    a.source != b.source && a.xid.is_some() && a.xid == b.xid && a.device_uuid == b.device_uuid && apart <= SAME_EVENT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(source: &'static str, xid: u32, millis: u64) -> DeviceEvent {
        DeviceEvent {
            device_uuid: Some("GPU-1".to_owned()),
            occurred_at: SystemTime::UNIX_EPOCH + Duration::from_millis(millis),
            xid: Some(xid),
            summary: String::new(),
            source,
        }
    }

    #[test]
    fn the_same_xid_from_three_sources_within_a_second_is_one_event() {
        let mut log = EventLog::new(10);
        assert!(log.push(event("nvml", 79, 10_000)));
        assert!(!log.push(event("kmsg", 79, 9_400)));
        assert!(!log.push(event("dcgm", 79, 10_900)));
        assert_eq!(log.after(0).count(), 1);
    }

    #[test]
    fn another_code_another_time_or_the_same_source_is_another_event() {
        let mut log = EventLog::new(10);
        assert!(log.push(event("kmsg", 31, 10_000)));
        assert!(log.push(event("nvml", 43, 10_000)));
        assert!(log.push(event("nvml", 31, 12_000)));
        assert!(log.push(event("kmsg", 31, 10_200)));
        let other = DeviceEvent { device_uuid: Some("GPU-2".to_owned()), ..event("nvml", 31, 10_000) };
        assert!(log.push(other));
    }

    #[test]
    fn the_log_is_bounded_and_numbers_go_on() {
        let mut log = EventLog::new(3);
        for second in 0..5 {
            log.push(event("kmsg", 13, second * 10_000));
        }
        assert_eq!(log.after(0).map(|(number, _)| *number).collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(log.newest(), 5);
        assert_eq!(log.number_before(SystemTime::UNIX_EPOCH + Duration::from_secs(30)), 3);
        assert_eq!(log.number_before(SystemTime::UNIX_EPOCH + Duration::from_secs(99)), 5);
    }
}

//! Change marks: how a watcher finds what changed without looking at what did not.
//!
//! Every host has a slot in a block of counters, one counter per [`Aspect`], raised by its writer after each publish.
//! A block has one more counter per aspect, raised after any of its slots. A watcher remembers the counters it last
//! saw: equal block counters mean that nothing in the block changed, so an idle fleet costs one load per block, and a
//! busy one a linear pass over adjacent memory. Marks coalesce by nature: a counter that grew by three is one visit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slots in one block.
pub(crate) const BLOCK_SLOTS: usize = 128;

/// What of a host changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aspect {
    /// The host itself, or how the aggregator stands with it.
    Host,
    /// Its devices.
    Devices,
    /// Its processes on devices.
    Processes,
}

/// Counters of adjacent slots.
#[derive(Debug)]
pub(crate) struct MarkBlock {
    aspects: [AspectMarks; 3],
}

#[derive(Debug)]
struct AspectMarks {
    any: AtomicU64,
    slots: [AtomicU64; BLOCK_SLOTS],
}

/// One host's place in the blocks.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    index: usize,
    block: Arc<MarkBlock>,
}

impl MarkBlock {
    fn new() -> Self {
        let marks = || AspectMarks { any: AtomicU64::new(0), slots: [const { AtomicU64::new(0) }; BLOCK_SLOTS] };
        Self { aspects: [marks(), marks(), marks()] }
    }

    fn marks(&self, aspect: Aspect) -> &AspectMarks {
        let [host, devices, processes] = &self.aspects;
        match aspect {
            Aspect::Host => host,
            Aspect::Devices => devices,
            Aspect::Processes => processes,
        }
    }

    /// Grows with every change in the block. Read it before the slots.
    pub(crate) fn any(&self, aspect: Aspect) -> u64 {
        self.marks(aspect).any.load(Ordering::Acquire)
    }

    /// The counter of one of the block's slots.
    pub(crate) fn slot(&self, aspect: Aspect, offset: usize) -> u64 {
        self.marks(aspect).slots.get(offset).map_or(0, |slot| slot.load(Ordering::Acquire))
    }
}

impl Slot {
    /// Slot `index`; adds blocks as far as it needs them.
    pub(crate) fn nth(index: usize, blocks: &mut Vec<Arc<MarkBlock>>) -> Self {
        while blocks.len() <= index / BLOCK_SLOTS {
            blocks.push(Arc::new(MarkBlock::new()));
        }
        let block = blocks.get(index / BLOCK_SLOTS).map_or_else(|| Arc::new(MarkBlock::new()), Arc::clone);
        Self { index, block }
    }

    /// The slot's number in the fleet.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The slot's counter now.
    pub(crate) fn mark(&self, aspect: Aspect) -> u64 {
        self.block.slot(aspect, self.index % BLOCK_SLOTS)
    }

    /// Tells watchers that the slot changed.
    pub(crate) fn raise(&self, aspect: Aspect) {
        let marks = self.block.marks(aspect);
        if let Some(counter) = marks.slots.get(self.index % BLOCK_SLOTS) {
            counter.fetch_add(1, Ordering::AcqRel);
        }
        // After the slot: whoever sees the old block counter sees the new one on the next pass.
        marks.any.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raise_shows_in_its_slot_and_block_only() {
        let mut blocks = Vec::new();
        let slots: Vec<Slot> = (0..=BLOCK_SLOTS).map(|n| Slot::nth(n, &mut blocks)).collect();
        assert_eq!(blocks.len(), 2);
        slots[3].raise(Aspect::Devices);
        slots[3].raise(Aspect::Devices);
        slots[BLOCK_SLOTS].raise(Aspect::Host);
        assert_eq!((blocks[0].any(Aspect::Devices), blocks[0].any(Aspect::Host)), (2, 0));
        assert_eq!((blocks[1].any(Aspect::Devices), blocks[1].any(Aspect::Host)), (0, 1));
        let raised: Vec<_> = (0..BLOCK_SLOTS).filter(|&n| blocks[0].slot(Aspect::Devices, n) > 0).collect();
        assert_eq!(raised, [3]);
        assert_eq!(slots[3].mark(Aspect::Devices), 2);
    }
}

//! Finds the hosts that changed since the last look, through the change marks.

use std::sync::Arc;

use crate::query::Filter;
use crate::state::marks::{Aspect, BLOCK_SLOTS};
use crate::state::{Fleet, HostCell, HostTable};

/// What was seen of the marks. Counters of several aspects are summed: each only grows, so the sum moves when one does.
pub(super) struct Scan {
    table: Arc<HostTable>,
    aspects: &'static [Aspect],
    reach: Reach,
}

enum Reach {
    /// Every host: the counters seen by block, and by slot (cut to 32 bits, to halve what a watcher costs).
    Every { blocks: Vec<u64>, slots: Vec<u32> },
    /// Named hosts, each with the counter seen.
    Named { cells: Vec<Arc<HostCell>>, marks: Vec<u32> },
}

impl Reach {
    fn new(table: &HostTable, filter: &Filter) -> Self {
        if filter.is_every_host() {
            return Self::Every { blocks: vec![0; table.blocks().len()], slots: vec![0; table.slot_count()] };
        }
        let cells = filter.hosts(table);
        let marks = vec![0; cells.len()];
        Self::Named { cells, marks }
    }
}

impl Scan {
    pub(super) fn new(fleet: &Fleet, filter: &Filter, aspects: &'static [Aspect]) -> Self {
        let table = fleet.table();
        let reach = Reach::new(&table, filter);
        Self { table, aspects, reach }
    }

    /// The hosts as of the last refresh.
    pub(super) fn table(&self) -> &HostTable {
        &self.table
    }

    /// The hosts within reach.
    pub(super) fn hosts(&self) -> &[Arc<HostCell>] {
        match &self.reach {
            Reach::Every { .. } => self.table.hosts(),
            Reach::Named { cells, .. } => cells,
        }
    }

    /// Takes up a new table; true when there was one. Every host then counts as changed.
    pub(super) fn refresh(&mut self, fleet: &Fleet, filter: &Filter) -> bool {
        let table = fleet.table();
        if Arc::ptr_eq(&table, &self.table) {
            return false;
        }
        self.reach = Reach::new(&table, filter);
        self.table = table;
        true
    }

    /// The hosts whose counters moved since the last call, and by how many changes; all of them at first.
    pub(super) fn changed(&mut self) -> Vec<(Arc<HostCell>, u32)> {
        let sum = |counter: &dyn Fn(Aspect) -> u64| self.aspects.iter().map(|&a| counter(a)).fold(0, u64::wrapping_add);
        let mut changed = Vec::new();
        match &mut self.reach {
            Reach::Named { cells, marks } => {
                for (cell, seen) in cells.iter().zip(marks) {
                    let moved = advance(seen, sum(&|aspect| cell.slot().mark(aspect)));
                    if moved > 0 {
                        changed.push((Arc::clone(cell), moved));
                    }
                }
            }
            Reach::Every { blocks, slots } => {
                let seen = blocks.iter_mut().zip(slots.chunks_mut(BLOCK_SLOTS));
                for (number, (block, (any, slots))) in self.table.blocks().iter().zip(seen).enumerate() {
                    // Before the slots: a slot that is raised meanwhile is found by the next call.
                    let now = sum(&|aspect| block.any(aspect));
                    if std::mem::replace(any, now) == now {
                        continue;
                    }
                    for (offset, seen) in slots.iter_mut().enumerate() {
                        let moved = advance(seen, sum(&|aspect| block.slot(aspect, offset)));
                        if let (1.., Some(cell)) = (moved, self.table.in_slot(number * BLOCK_SLOTS + offset)) {
                            changed.push((Arc::clone(cell), moved));
                        }
                    }
                }
            }
        }
        changed
    }
}

/// Takes up a counter; tells by how much it moved. The first time, when nothing was seen, that is once.
#[expect(clippy::cast_possible_truncation, reason = "only the difference matters, and that is small")]
fn advance(seen: &mut u32, now: u64) -> u32 {
    let before = std::mem::replace(seen, now as u32);
    let moved = (now as u32).wrapping_sub(before);
    if before == 0 { moved.min(1) } else { moved }
}

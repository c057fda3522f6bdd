//! The state of the whole fleet, in memory.
//!
//! In: samples from the fan-in tasks, one writer per host ([`HostWriter`]), and inventory changes from the supervisor
//! ([`FleetWriter`]). Out: lock-free reads: a reader loads the host table and each host's newest record, both
//! immutable, and never copies device data. What changed is found through [`marks`], at a cost that follows the number
//! of changes. Invariant: a record is published before its mark is raised, so whoever sees the mark sees the record.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use crate::inventory::{Inventory, InventoryEntry};

mod freshness;
mod host;
pub(crate) mod marks;

pub(crate) use freshness::{Freshness, HostState, silence};
pub(crate) use host::{Changed, HostCell, HostRecord, HostWriter, wall_clock};
use marks::{MarkBlock, Slot};

/// The fleet: what every reader holds.
#[derive(Debug)]
pub(crate) struct Fleet {
    table: ArcSwap<HostTable>,
    revision: Arc<AtomicU64>,
    freshness: Freshness,
}

/// The hosts of the inventory at one moment. Replaced as a whole when the inventory changes.
#[derive(Debug, Default)]
pub(crate) struct HostTable {
    by_name: HashMap<Arc<str>, Arc<HostCell>>,
    ordered: Vec<Arc<HostCell>>,
    by_slot: Vec<Option<Arc<HostCell>>>,
    blocks: Vec<Arc<MarkBlock>>,
}

/// The one writer of the host table.
#[derive(Debug)]
pub(crate) struct FleetWriter {
    fleet: Arc<Fleet>,
    free_slots: Vec<Slot>,
}

/// What an inventory change did to the fleet.
#[derive(Debug, Default)]
pub(crate) struct TableChange {
    /// Hosts that are new, each with its writer.
    pub(crate) added: Vec<HostWriter>,
    /// Hosts that left.
    pub(crate) removed: Vec<Arc<HostCell>>,
    /// Hosts whose address changed.
    pub(crate) readdressed: Vec<Arc<HostCell>>,
}

impl Fleet {
    /// An empty fleet and its writer.
    pub(crate) fn new(freshness: Freshness) -> (Arc<Self>, FleetWriter) {
        let fleet = Arc::new(Self { table: ArcSwap::default(), revision: Arc::new(AtomicU64::new(0)), freshness });
        let writer = FleetWriter { fleet: Arc::clone(&fleet), free_slots: Vec::new() };
        (fleet, writer)
    }

    /// The hosts as they are now.
    pub(crate) fn table(&self) -> Arc<HostTable> {
        self.table.load_full()
    }

    /// Grows with each change of any host.
    pub(crate) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// The rules by which a host counts as fresh.
    pub(crate) fn freshness(&self) -> &Freshness {
        &self.freshness
    }
}

impl HostTable {
    /// The hosts, by name.
    pub(crate) fn hosts(&self) -> &[Arc<HostCell>] {
        &self.ordered
    }

    /// The host called `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<HostCell>> {
        self.by_name.get(name)
    }

    /// The host in a slot.
    pub(crate) fn in_slot(&self, slot: usize) -> Option<&Arc<HostCell>> {
        self.by_slot.get(slot).and_then(Option::as_ref)
    }

    /// How many slots there are, free ones included.
    pub(crate) fn slot_count(&self) -> usize {
        self.by_slot.len()
    }

    /// The mark blocks: slot `n` is in block `n / marks::BLOCK_SLOTS`.
    pub(crate) fn blocks(&self) -> &[Arc<MarkBlock>] {
        &self.blocks
    }
}

impl FleetWriter {
    /// Makes the table hold exactly the hosts of the inventory. Hosts that stay keep their state.
    pub(crate) fn reconcile(&mut self, inventory: &Inventory) -> TableChange {
        let old = self.fleet.table();
        let mut change = TableChange::default();
        let mut next = HostTable { by_slot: old.by_slot.clone(), blocks: old.blocks.clone(), ..HostTable::default() };
        for cell in old.hosts() {
            if inventory.get(cell.name()).is_none() {
                if let Some(place) = next.by_slot.get_mut(cell.slot().index()) {
                    *place = None;
                }
                self.free_slots.push(cell.slot().clone());
                change.removed.push(Arc::clone(cell));
            }
        }
        for entry in inventory.iter() {
            let cell = if let Some(cell) = old.get(&entry.name) {
                if update_entry(cell, entry) {
                    change.readdressed.push(Arc::clone(cell));
                }
                Arc::clone(cell)
            } else {
                let (writer, cell) = self.add(entry, &mut next);
                change.added.push(writer);
                cell
            };
            next.by_name.insert(Arc::clone(&entry.name), Arc::clone(&cell));
            next.ordered.push(cell);
        }
        self.fleet.table.store(Arc::new(next));
        change
    }

    fn add(&mut self, entry: &Arc<InventoryEntry>, next: &mut HostTable) -> (HostWriter, Arc<HostCell>) {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            let slot = Slot::nth(next.by_slot.len(), &mut next.blocks);
            next.by_slot.push(None);
            slot
        });
        let cell = HostCell::new(Arc::clone(entry), slot, Arc::clone(&self.fleet.revision));
        if let Some(place) = next.by_slot.get_mut(cell.slot().index()) {
            *place = Some(Arc::clone(&cell));
        }
        (HostWriter::new(Arc::clone(&cell), self.fleet.freshness), cell)
    }
}

/// Takes up what the inventory says of a host that stays; true when its address changed.
fn update_entry(cell: &HostCell, entry: &Arc<InventoryEntry>) -> bool {
    let before = cell.entry();
    if *before == **entry {
        return false;
    }
    cell.set_entry(Arc::clone(entry));
    before.address != entry.address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(names: &[&str]) -> Inventory {
        Inventory::from_pairs(names.iter().map(|name| (name, "127.0.0.1:1"))).unwrap()
    }

    fn names(table: &HostTable) -> Vec<String> {
        table.hosts().iter().map(|cell| cell.name().to_string()).collect()
    }

    #[tokio::test]
    async fn only_the_inventory_adds_and_removes() {
        let (fleet, mut writer) = Fleet::new(Freshness::default());
        let change = writer.reconcile(&inventory(&["b", "a"]));
        assert_eq!(change.added.len(), 2);
        assert_eq!(names(&fleet.table()), ["a", "b"]);
        let kept = Arc::clone(fleet.table().get("b").unwrap());

        let change = writer.reconcile(&inventory(&["b", "c"]));
        assert_eq!((change.added.len(), change.removed.len()), (1, 1));
        assert!(Arc::ptr_eq(&kept, fleet.table().get("b").unwrap()), "a host that stays keeps its cell");
        let table = fleet.table();
        let c = table.get("c").unwrap();
        assert!(Arc::ptr_eq(table.in_slot(c.slot().index()).unwrap(), c));
        assert_eq!(table.by_slot.len(), 2, "the slot of the removed host is used again");
    }

    #[tokio::test]
    async fn a_new_address_is_told() {
        let (_, mut writer) = Fleet::new(Freshness::default());
        writer.reconcile(&inventory(&["a"]));
        let moved = Inventory::from_pairs([("a", "127.0.0.1:2")]).unwrap();
        let change = writer.reconcile(&moved);
        assert_eq!(change.readdressed.len(), 1);
        assert_eq!(change.readdressed[0].entry().address, "127.0.0.1:2");
        assert!(writer.reconcile(&moved).readdressed.is_empty());
    }
}

//! One turn of one device: its tiers, and the processes on it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gpufleet_model::{DeviceReadings, DeviceStatus, Unknown};
use nvml_wrapper::error::NvmlError;

use super::errors;
use super::ffi::{self, ProcessList};
use super::processes::{self, ProcessLists};
use super::readings::{Reader, SLOW_GROUPS, demand_has_room};
use super::slot::{Slot, UtilizationCall};
use crate::sample::{DeviceSample, PidUse};
use crate::vendor::Round;

/// A device that is not there.
pub(super) fn lost(slot: &Slot) -> DeviceSample {
    DeviceSample {
        info: Arc::clone(&slot.info),
        status: DeviceStatus::Lost,
        readings: DeviceReadings::unknown(Unknown::Lost),
        uses: Err(Unknown::Lost),
    }
}

/// Reads what is due of a device, into its slot.
pub(super) fn read_tiers(reader: &Reader<'_>, slot: &mut Slot, round: &Round<'_>, slow_interval: Duration) {
    if slot.is_instance() {
        // What is not read below is not there on an instance.
        let (total, used) = (slot.readings.bar1_total_bytes, slot.readings.bar1_used_bytes);
        slot.readings = DeviceReadings::unknown(Unknown::NotSupported);
        (slot.readings.bar1_total_bytes, slot.readings.bar1_used_bytes) = (total, used);
        reader.read_instance_tick(&mut slot.readings);
    } else {
        reader.read_tick(&mut slot.readings);
    }
    for group in 0..SLOW_GROUPS {
        if slot.schedule.take(group, round.now, round.interval, slow_interval) {
            if slot.is_instance() {
                reader.read_instance_slow(group, &mut slot.readings);
            } else {
                reader.read_slow(group, &mut slot.fan_count, &mut slot.readings);
            }
        }
    }
    if slot.is_instance() {
        return;
    }
    if !round.demand {
        slot.demand_read_at = None;
        slot.readings.pcie_tx_bytes_per_second = Err(Unknown::NotYet);
        slot.readings.pcie_rx_bytes_per_second = Err(Unknown::NotYet);
    } else if demand_has_room(round.now, round.interval)
        || slot.demand_read_at.is_none_or(|at| at.elapsed() > round.interval * 3)
    {
        reader.read_demand(&mut slot.readings);
        slot.demand_read_at = Some(Instant::now());
    }
}

/// Lists the processes on a device, with their share of its work.
pub(super) fn read_uses(reader: &Reader<'_>, slot: &mut Slot, round: &Round<'_>) -> Result<Vec<PidUse>, Unknown> {
    if slot.has_instances {
        return Ok(Vec::new());
    }
    let capacity = slot.list_capacity;
    let list = |which| {
        reader
            .call(|_, nvml, handle| ffi::processes(nvml, handle, which, capacity))
            .map_err(|error| errors::unknown(&error))
    };
    let lists = ProcessLists {
        compute: list(ProcessList::Compute),
        graphics: list(ProcessList::Graphics),
        mps: list(ProcessList::Mps),
    };
    let mut uses = lists.merge(slot.readings.memory_total_bytes)?;
    slot.list_capacity = capacity.max(uses.len() + 8);
    if uses.is_empty() || slot.is_instance() {
        return Ok(uses);
    }
    let since = slot.window.since(round.now, SystemTime::now(), round.interval);
    let capacity = slot.list_capacity.max(32);
    let mut answer = Err(NvmlError::NotSupported);
    if slot.utilization_call == UtilizationCall::Newer {
        answer = reader.call(|_, nvml, handle| ffi::processes_utilization(nvml, handle, since, capacity));
        if answer.as_ref().is_err_and(|error| errors::unknown(error) == Unknown::NotSupported) {
            slot.utilization_call = UtilizationCall::Older;
        }
    }
    if slot.utilization_call == UtilizationCall::Older {
        answer = reader.call(|_, nvml, handle| ffi::process_utilization(nvml, handle, since, capacity));
    }
    if let Ok(samples) = &answer {
        slot.window.saw(samples, round.now);
    }
    processes::add_utilization(&mut uses, answer.as_deref());
    Ok(uses)
}

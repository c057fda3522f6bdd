//! Watches and their samples. An engine in automatic mode is brought up to date when it is asked; one in manual mode
//! only when it is told to.

use std::collections::{BTreeSet, VecDeque};

use dcgm_sys::blank::Blank;
use dcgm_sys::{DcgmError, Entity, FieldGroup, FieldId, Group, ValueType};

use super::Engine;
use crate::fields::{is_event, kind};
use crate::readings::{self, Sample, blank_sample, failed, not_watched};
use crate::scenario::{Event, Scenario};

/// How often a field is read and how long its samples are kept, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) every: i64,
    pub(crate) keep: i64,
    /// 0: no limit.
    pub(crate) keep_samples: usize,
}

/// A watched field of one entity.
pub(super) struct Watch {
    rate: Rate,
    started: i64,
    last: Option<i64>,
    samples: VecDeque<Sample>,
    watchers: BTreeSet<(usize, usize)>,
    past_events: BTreeSet<u64>,
}

impl Engine {
    /// Watches fields and reads what is new, before this returns.
    pub(crate) fn watch(
        &mut self,
        scenario: &Scenario,
        (group, fields): (Group, FieldGroup),
        rate: Rate,
        now: i64,
    ) -> Result<(), DcgmError> {
        let (entities, ids) = (self.members(scenario, group)?, self.fields(fields)?);
        if !scenario.nvml {
            return Err(DcgmError::NVML_NOT_LOADED);
        }
        if entities.is_empty() {
            return Err(DcgmError::GROUP_IS_EMPTY);
        }
        let mut outcome = Ok(());
        for entity in entities {
            for field in &ids {
                if field.is_profiling() && !profiles(scenario, entity) {
                    // The others of the group are watched all the same.
                    outcome = Err(DcgmError::MODULE_NOT_LOADED);
                    continue;
                }
                let watch = self.watches.entry((entity, *field)).or_insert_with(|| Watch {
                    rate,
                    started: now,
                    last: None,
                    samples: VecDeque::new(),
                    watchers: BTreeSet::new(),
                    past_events: scenario.events.iter().filter(|event| !event.replay).map(|event| event.id).collect(),
                });
                watch.rate.every = watch.rate.every.min(rate.every);
                watch.rate.keep = watch.rate.keep.max(rate.keep);
                watch.watchers.insert((group.0, fields.0));
            }
        }
        self.update(scenario, now);
        outcome
    }

    pub(crate) fn unwatch(&mut self, group: Group, fields: FieldGroup) {
        self.drop_watches(|watched, by| watched == group && by == fields);
    }

    pub(super) fn drop_watches(&mut self, ends: impl Fn(Group, FieldGroup) -> bool) {
        for watch in self.watches.values_mut() {
            watch.watchers.retain(|(group, fields)| !ends(Group(*group), FieldGroup(*fields)));
        }
        self.watches.retain(|_, watch| !watch.watchers.is_empty());
    }

    /// Reads what is due.
    pub(crate) fn update(&mut self, scenario: &Scenario, now: i64) {
        for ((entity, field), watch) in &mut self.watches {
            watch.update(scenario, *entity, *field, now);
        }
    }

    /// The newest sample of a field.
    pub(crate) fn latest(&self, entity: Entity, field: FieldId) -> Sample {
        let kind = kind(field).unwrap_or(ValueType::INT64);
        match self.watches.get(&(entity, field)) {
            None => not_watched(kind, self.major()),
            Some(watch) => watch.samples.back().cloned().unwrap_or_else(|| failed(kind, DcgmError::NO_DATA, 0)),
        }
    }

    /// Every kept sample since a time, oldest first.
    pub(crate) fn since(&self, entity: Entity, field: FieldId, since: i64) -> Result<Vec<Sample>, DcgmError> {
        let watch = self.watches.get(&(entity, field)).ok_or(DcgmError::NOT_WATCHED)?;
        Ok(watch.samples.iter().filter(|sample| sample.at >= since).cloned().collect())
    }
}

/// Whether profiling fields of an entity can be watched.
fn profiles(scenario: &Scenario, entity: Entity) -> bool {
    scenario.profiling_module || readings::owner(scenario, entity).is_some_and(|(device, _)| device.gpm)
}

impl Watch {
    fn update(&mut self, scenario: &Scenario, entity: Entity, field: FieldId, now: i64) {
        if is_event(field) {
            let happened = |event: &&Event| event.field.0 == field && Entity::gpu(event.device) == entity;
            for event in scenario.events.iter().filter(happened) {
                if self.past_events.insert(event.id) {
                    self.samples.push_back(readings::number(ValueType::INT64, event.value, now));
                }
            }
        } else if self.last.is_none_or(|last| now - last >= self.rate.every) {
            self.last = Some(now);
            // A profiling value is the difference of two samples that lie at least one interval apart.
            let first_interval = field.is_profiling() && now - self.started < self.rate.every;
            let kind = kind(field).unwrap_or(ValueType::INT64);
            self.samples.push_back(if first_interval {
                blank_sample(kind, Blank::Unknown, now)
            } else {
                readings::read(scenario, entity, field, now)
            });
        }
        self.forget(now);
    }

    /// Forgets samples that need not be kept; the newest always is.
    fn forget(&mut self, now: i64) {
        while self.samples.len() > 1 {
            let too_many = self.rate.keep_samples > 0 && self.samples.len() > self.rate.keep_samples;
            let too_old = self.samples.front().is_some_and(|sample| now - sample.at > self.rate.keep);
            if !(too_many || too_old) {
                break;
            }
            self.samples.pop_front();
        }
    }
}
